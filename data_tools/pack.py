"""Third pass: the crops of one shard, read again from the recordings, into the shard's files."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from data_tools import archive, files, records
from data_tools.crops import LEADS, RATE, cleaned
from data_tools.labels import class_names
from data_tools.writers import TarWriter, Writer, ZarrWriter


class Task(NamedTuple):
    root: str
    resample: bool
    crops: Path  # decide.Decision's, a row group a shard
    row_group: int
    data: Path  # the dataset's folder
    name: str  # of the shard in it, without the writer's suffixes
    format: str
    crops_per_shard: int
    done: Path  # what is written last


class Packed(NamedTuple):
    name: str
    offsets: list[int]  # where the samples of each crop begin
    bytes: dict[str, int]  # by suffix
    sha256: dict[str, str]


def run(task: Task) -> Packed:
    """Writes the shard, unless an earlier run has and its bytes are still those."""
    if task.done.exists():
        packed = Packed(**files.read_json(task.done))
        if all(_is_whole(task, packed, suffix) for suffix in packed.bytes):
            return packed
    final = task.data / task.name
    final.parent.mkdir(parents=True, exist_ok=True)
    stem = f"{final}{files.temporary_suffix()}"
    writer: Writer = TarWriter(stem) if task.format == "tar" else ZarrWriter(stem, task.crops_per_shard)
    offsets = _fill(writer, task)
    packed = Packed(task.name, offsets, {}, writer.close())
    for suffix in packed.sha256:
        packed.bytes[suffix] = os.stat(f"{stem}{suffix}").st_size
        os.replace(f"{stem}{suffix}", f"{final}{suffix}")
    files.write_json(packed._asdict(), task.done)
    return packed


def _is_whole(task: Task, packed: Packed, suffix: str) -> bool:
    path = task.data / f"{packed.name}{suffix}"
    return path.exists() and files.digest(path) == packed.sha256[suffix]


def _fill(writer: Writer, task: Task) -> list[int]:
    offsets = []
    header, recording = b"", None
    for crop in pq.ParquetFile(task.crops).read_row_group(task.row_group, use_threads=False).to_pylist():
        if recording is None or crop["header"] != header:
            header, recording = crop["header"], _read_again(task, os.fsdecode(crop["header"]), crop["stamp"])
        signal = recording.signal[crop["start"] : crop["start"] + crop["samples"]]
        offsets.append(writer.add(crop["key"], cleaned(signal, tuple(crop["lead_mask"])), about(crop)))
    return offsets


def _read_again(task: Task, header: str, stamp: int) -> records.Recording:
    try:
        recording = records.read(task.root, header, archive.cohort_of(task.root, header).wrong_gain, task.resample)
    except ValueError as error:
        raise ValueError(f"{task.root}/{header}: was whole when it was checked, now: {error}") from None
    if recording.stamp != stamp:
        raise ValueError(f"{task.root}/{header}: has changed since it was checked; remove the unfinished folder")
    return recording


def about(crop: dict[str, Any]) -> dict[str, Any]:
    """What goes beside a crop's samples in a tar: enough to use it without Leadwise."""
    names = ("key", "record", "patient", "cohort", "start", "age", "sex")
    return {name: crop[name] for name in names} | {
        "classes": class_names(crop["classes"]),
        "lead_mask": crop["lead_mask"],
        "leads": LEADS,
        "rate": RATE,
        "unit": "uV",
    }
