"""First pass over an archive: what every recording holds, crop by crop, or why it is refused.

A row is a crop, or a recording that could not be cut; `reason` is null while nothing speaks against it. Rows of a
few hundred recordings are one file, so that an interrupted run has only the last of them to do again.
"""

import json
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa

from data_tools import archive, headers, labels, privacy, records
from data_tools.cohorts import OWN, Cohort, record_name
from data_tools.crops import SEGMENT, cut
from data_tools.files import read_table, write_table

ROWS = pa.schema(
    [
        ("header", pa.string()),  # relative to the archive; never leaves the scratch folder
        ("stamp", pa.int64()),
        ("record", pa.string()),
        ("cohort", pa.string()),
        ("start", pa.int64()),  # sample at 500 Hz; null: the recording as a whole
        ("samples", pa.int32()),
        ("age", pa.int16()),
        ("sex", pa.string()),
        ("classes", pa.uint32()),  # bit i: class i
        ("lead_mask", pa.list_(pa.uint16())),  # a segment: bit i is set where lead i is usable
        ("content", pa.list_(pa.binary(16))),  # a segment: a hash of its samples
        ("rate", pa.float64()),  # before resampling; null: not read
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)


class Task(NamedTuple):
    root: Path
    secret: bytes | None  # None: no recording is private
    resample: bool
    headers: list[str]
    out: Path


class Checked(NamedTuple):
    rows: pa.Table
    counts: Counter[str]  # "what/of what" -> how many
    named: dict[str, list[str]]  # header -> files and segments of other names that it names


def run(task: Task) -> None:
    """Checks the task's recordings and writes their rows, unless an earlier run has."""
    if task.out.exists():
        return
    rows: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    named: dict[str, list[str]] = {}
    for header in task.headers:
        rows += _check(task, header, counts, named)
    table = pa.Table.from_pylist(rows, ROWS)
    notes = {"counts": json.dumps(counts), "named": json.dumps(named)}
    write_table(table.replace_schema_metadata(notes), task.out)


def read(path: Path) -> Checked:
    table = read_table(path)
    notes = {key.decode(): json.loads(value) for key, value in (table.schema.metadata or {}).items()}
    return Checked(table.replace_schema_metadata(None), Counter(notes["counts"]), notes["named"])


def public_name(root: Path, secret: bytes | None, path: str) -> str:
    """What a dataset calls the recording of `path`."""
    if archive.cohort_of(root, path) is not OWN:
        return record_name(PurePosixPath(path))
    assert secret is not None
    return privacy.pseudonym(secret, path.removesuffix(".hea"))


def strays(root: Path, secret: bytes | None, paths: list[str]) -> pa.Table:
    """Rows of signal files that no header goes with."""
    return pa.Table.from_pylist(
        [
            {
                "header": path,
                "record": public_name(root, secret, path),
                "cohort": archive.cohort_of(root, path).name,
                "reason": "no header goes with this file",
            }
            for path in paths
        ],
        ROWS,
    )


def _check(task: Task, header: str, counts: Counter[str], named: dict[str, list[str]]) -> list[dict[str, Any]]:
    cohort = archive.cohort_of(task.root, header)
    row: dict[str, Any] = {
        "header": header,
        "record": public_name(task.root, task.secret, header),
        "cohort": cohort.name,
    }
    try:
        recording = records.read(str(task.root), header, cohort.wrong_gain, task.resample)
    except ValueError as error:
        reason, _, detail = str(error).partition(": ")
        return [row | {"reason": reason, "detail": detail or None}]
    _note_names(header, recording, named)
    row |= {"stamp": recording.stamp, "rate": recording.rate} | _person_and_labels(recording, cohort, counts)
    counts[f"gain corrected/{cohort.name}"] += recording.gain_corrected
    crops = cut(recording.signal, recording.leads)
    if not crops:
        return [row | {"reason": "shorter than 5 s"}]
    counts["samples left over"] += len(recording.signal) % SEGMENT
    return [row | crop._asdict() | {"reason": None if any(crop.lead_mask) else "no usable lead"} for crop in crops]


def _person_and_labels(recording: records.Recording, cohort: Cohort, counts: Counter[str]) -> dict[str, Any]:
    comments = recording.comments
    age = headers.age(comments.get("age"))
    found = labels.read_dx(comments.get("dx", ""))
    counts[f"labelled/{cohort.name}"] += cohort.labelled
    counts[f"with a class/{cohort.name}"] += bool(found.classes)
    counts["repeated codes"] += found.repeated
    counts.update(f"codes without a class/{code}" for code in found.other)
    return {
        "age": age if cohort is not OWN else privacy.private_age(age),
        "sex": headers.sex(comments.get("sex")),
        "classes": found.classes,
    }


def _note_names(header: str, recording: records.Recording, named: dict[str, list[str]]) -> None:
    """Signal files of another name than the header's are no strays; segments are no recordings of their own."""
    path = PurePosixPath(header)
    files = [path.with_name(file) for file in recording.files]
    segments = [path.with_name(f"{segment}.hea") for segment in recording.segments]
    others = [file.as_posix() for file in files if file.stem != path.stem] + [s.as_posix() for s in segments]
    if others:
        named[header] = others
