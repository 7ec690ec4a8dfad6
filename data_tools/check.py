"""First pass over an archive: what every recording holds, crop by crop, or why it is refused.

A row is a crop, or a recording that could not be cut; `reason` is null while nothing speaks against it. Rows of a
few hundred recordings are one file, so that an interrupted run has only the last of them to do again.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from data_tools import archive, headers, privacy, records
from data_tools.cohorts import OWN, Cohort, record_name
from data_tools.crops import SEGMENT, cut
from data_tools.files import read_table, write_table
from data_tools.hints import Hints
from data_tools.labels import NO_CODE, read_dx
from data_tools.physical import no_usable_lead


class Row(NamedTuple):
    header: bytes  # relative to the archive, in the file system's own bytes; never leaves the scratch folder
    record: str
    cohort: str
    stamp: int | None = None  # another one once the recording's files have changed
    stored_file: bytes | None = None  # where the samples lie just as they are wanted; None: they do not
    stored_offset: int | None = None
    rate: float | None = None  # before resampling; None: not read
    start: int | None = None  # sample at 500 Hz; None: the recording as a whole
    samples: int | None = None
    age: int | None = None
    sex: str | None = None
    classes: int | None = None  # bit i: class i
    lead_mask: tuple[int, ...] | None = None  # of a segment: bit i is set where lead i is usable
    content: tuple[bytes, ...] | None = None  # of a segment: a hash of its samples
    reason: str | None = None
    detail: str | None = None


_TYPES = {
    "header": pa.binary(),
    "stamp": pa.int64(),
    "stored_file": pa.binary(),
    "stored_offset": pa.int64(),
    "rate": pa.float64(),
    "start": pa.int64(),
    "samples": pa.int32(),
    "age": pa.int16(),
    "classes": pa.uint32(),
    "lead_mask": pa.list_(pa.uint16()),
    "content": pa.list_(pa.binary(16)),
}


def to_table(rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(Row._fields)
    return pa.table(
        {
            name: pa.array(column, _TYPES.get(name, pa.string()))
            for name, column in zip(Row._fields, columns, strict=True)
        }
    )


class Task(NamedTuple):
    root: str
    secret: bytes | None  # None: no recording is private
    resample: bool
    told: Hints
    recordings: list[str]
    out: Path


class Checked(NamedTuple):
    rows: pa.Table  # of Row
    counts: Counter[str]  # "what/of what" -> how many
    named: set[str]  # files of other names, and headers of segments, that headers name


def run(task: Task) -> None:
    """Checks the task's recordings and writes their rows, unless an earlier run has."""
    if _is_done(task.out):
        return
    rows: list[Row] = []
    counts: Counter[str] = Counter()
    named: set[str] = set()
    for header in task.recordings:
        rows += _check(task, header, counts, named)
    notes = {"counts": json.dumps(counts), "named": json.dumps(sorted(named))}
    write_table(to_table(rows).replace_schema_metadata(notes), task.out)


def _is_done(path: Path) -> bool:
    try:
        return path.exists() and read_table(path).num_rows >= 0
    except (pa.ArrowException, OSError):
        return False


def read(paths: Sequence[Path]) -> Checked:
    """What `run` wrote there, as one."""
    tables = [read_table(path) for path in paths]
    counts: Counter[str] = Counter()
    named: set[str] = set()
    for table in tables:
        counts.update(json.loads(table.schema.metadata[b"counts"]))
        named.update(json.loads(table.schema.metadata[b"named"]))
    return Checked(pa.concat_tables([table.replace_schema_metadata(None) for table in tables]), counts, named)


def public_name(root: str, secret: bytes | None, path: str) -> str:
    """What a dataset calls the recording of `path`."""
    if archive.cohort_of(root, path) is not OWN:
        return record_name(os.path.splitext(os.path.basename(path))[0])
    assert secret is not None
    return privacy.record_name(secret, path)


def unread(root: str, secret: bytes | None, path: str, reason: str) -> Row:
    """Of what is no header, and may yet be a recording."""
    return Row(os.fsencode(path), public_name(root, secret, path), archive.cohort_of(root, path).name, reason=reason)


def _check(task: Task, header: str, counts: Counter[str], named: set[str]) -> list[Row]:
    cohort = archive.cohort_of(task.root, header)
    name = public_name(task.root, task.secret, header)
    try:
        recording = records.read(task.root, header, cohort.wrong_gain, task.resample, task.told)
    except ValueError as error:
        named.update(other_names(header, records.names(task.root, header)))
        reason, _, detail = str(error).partition(": ")
        return [Row(os.fsencode(header), name, cohort.name, reason=reason, detail=detail or None)]
    named.update(other_names(header, recording.names))
    _count(recording, cohort, counts)
    age = headers.age(recording.comments.get("age"))
    row = Row(
        os.fsencode(header),
        name,
        cohort.name,
        stamp=recording.stamp,
        stored_file=os.fsencode(recording.stored[0]) if recording.stored else None,
        stored_offset=recording.stored[1] if recording.stored else None,
        rate=recording.rate,
        age=age if cohort is not OWN else privacy.private_age(age),
        sex=headers.sex(recording.comments.get("sex")),
        classes=read_dx(recording.comments.get("dx", "")).classes,
    )
    crops = cut(recording.signal, recording.leads)
    if not crops:
        return [row._replace(reason="shorter than 5 s")]
    counts["samples left over"] += len(recording.signal) % SEGMENT
    unusable = no_usable_lead(recording.beyond and not any(any(crop.lead_mask) for crop in crops))
    return [
        row._replace(
            start=crop.start,
            samples=crop.samples,
            lead_mask=crop.lead_mask,
            content=crop.content,
            reason=None if any(crop.lead_mask) else unusable,
        )
        for crop in crops
    ]


def _count(recording: records.Recording, cohort: Cohort, counts: Counter[str]) -> None:
    found = read_dx(recording.comments.get("dx", ""))
    counts[f"labelled/{cohort.name}"] += cohort.labelled
    counts[f"with a class/{cohort.name}"] += bool(found.classes)
    counts[f"gain corrected/{cohort.name}"] += recording.gain_corrected
    for what in recording.hinted:
        counts[f"not in its file/{what}"] += 1
    counts["repeated codes"] += found.repeated
    counts["columns that are no leads"] += len(recording.aside)
    for code in found.other:  # of a private recording, digits may be anything
        counts[f"codes without a class/{code if cohort is not OWN else NO_CODE}"] += 1


def other_names(header: str, named: Sequence[str]) -> list[str]:
    """Signal files of another name than the header's are no strays; segments are no recordings of their own."""
    if not header.endswith(".hea"):
        return []
    folder, _, stem = header.removesuffix(".hea").rpartition("/")
    return [os.path.join(folder, name) for name in named if name.endswith(".hea") or name.rpartition(".")[0] != stem]
