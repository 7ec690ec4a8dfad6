"""Third pass: the crops of one shard, read again from the recordings, into the shard's files."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from data_tools import archive, files, records
from data_tools.crops import LEADS, RATE, cleaned
from data_tools.hints import Hints
from data_tools.labels import class_names
from data_tools.writers import TarWriter, Writer, ZarrWriter


class Task(NamedTuple):
    root: str
    resample: bool
    told: Hints
    crops: Path  # decide.Decision's, a row group a shard
    row_group: int
    data: Path  # the dataset's folder
    name: str  # of the shard in it, without the writer's suffixes
    format: str
    crops_per_shard: int
    done: Path  # what is written last


class Packed(NamedTuple):
    name: str
    offsets: NDArray[np.int64]  # where the samples of each crop begin
    bytes: dict[str, int]  # by suffix
    sha256: dict[str, str]


def run(task: Task) -> Packed:
    """Writes the shard, unless an earlier run has and its bytes are still those."""
    if task.done.exists():
        known = files.read_json(task.done)
        packed = Packed(**known | {"offsets": np.array(known["offsets"], np.int64)})
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
    files.write_json(packed._asdict() | {"offsets": offsets.tolist()}, task.done)
    return packed


def _is_whole(task: Task, packed: Packed, suffix: str) -> bool:
    path = task.data / f"{packed.name}{suffix}"
    return path.exists() and files.digest(path) == packed.sha256[suffix]


def _fill(writer: Writer, task: Task) -> NDArray[np.int64]:
    offsets = []
    read = _Reader(task)
    for crop in pq.ParquetFile(task.crops).read_row_group(task.row_group, use_threads=False).to_pylist():
        offsets.append(writer.add(crop["key"], cleaned(read(crop), tuple(crop["lead_mask"])), about(crop)))
    return np.array(offsets, np.int64)


class _Reader:
    """The samples of one crop after the other, of which many may be one recording's."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._last = b""
        self._recording: records.Recording | None = None

    def __call__(self, crop: dict[str, Any]) -> NDArray[np.int16]:
        header = os.fsdecode(crop["header"])
        try:
            signal, stamp = self._read(header, crop)
        except ValueError as error:
            raise ValueError(f"{self._task.root}/{header}: was whole when it was checked, now: {error}") from None
        if stamp != crop["stamp"]:
            raise ValueError(
                f"{self._task.root}/{header}: has changed since it was checked; remove the unfinished folder"
            )
        return signal

    def _read(self, header: str, crop: dict[str, Any]) -> tuple[NDArray[np.int16], int]:
        start, samples = crop["start"], crop["samples"]
        if crop["stored_file"] is not None:
            stored = os.fsdecode(crop["stored_file"]), crop["stored_offset"]
            return records.read_stored(self._task.root, header, stored, start, samples)
        if self._recording is None or self._last != crop["header"]:
            wrong_gain = archive.cohort_of(self._task.root, header).wrong_gain
            self._recording = records.read(self._task.root, header, wrong_gain, self._task.resample, self._task.told)
            self._last = crop["header"]
        return self._recording.signal[start : start + samples], self._recording.stamp


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
