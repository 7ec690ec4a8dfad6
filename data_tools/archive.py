"""What is in a folder of recordings: WFDB headers, each with its cohort, files of other formats, and strays.

In a public cohort's folder and under its names only WFDB is read: so are they published."""

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from data_tools import cohorts, formats
from data_tools.cohorts import OWN, Cohort
from data_tools.folders import Folder
from data_tools.formats import csv

_SIGNAL_SUFFIXES = {".dat", *formats.SUFFIXES} - {".csv", ".npy"}


class Archive(NamedTuple):
    root: str
    recordings: list[str]  # headers, and files of other formats; relative to root, sorted
    strays: list[str]  # signal files without a header of their own name; some header may still name them
    links: list[str]  # to folders outside, which are not followed
    ptbxl_tables: list[str]
    tables: list[str]  # other CSV files that hold no samples


def find(root: Path, wanted: tuple[str, ...], except_for: Path | None = None) -> Archive:
    """Walks `root`, following no link to a folder, for recordings of the cohorts `wanted` (all, if empty)."""
    left_out = os.path.abspath(except_for) if except_for else None
    recordings: list[str] = []
    others: list[str] = []
    strays: list[str] = []
    links: list[str] = []
    tables: list[str] = []
    for folder, folders, names in _walk(str(root)):
        present = set(names)
        links += [f"{folder}{name}" for name in folders if _leads_outside(root, root / f"{folder}{name}")]
        for name in names:
            stem, suffix = os.path.splitext(name)
            if suffix == ".hea":
                recordings.append(f"{folder}{name}")
            elif name == cohorts.PTBXL_TABLE:
                tables.append(f"{folder}{name}")
            elif f"{stem}.hea" in present or f"{root}/{folder}{name}" == left_out:
                continue
            elif suffix.lower() in formats.SUFFIXES and cohort_of(str(root), f"{folder}{name}") is OWN:
                is_table = suffix.lower() == ".csv" and not _holds_samples(root, folder, name)
                (others if is_table else recordings).append(f"{folder}{name}")
            elif suffix.lower() in _SIGNAL_SUFFIXES:
                strays.append(f"{folder}{name}")
    if wanted:
        recordings = [path for path in recordings if cohort_of(str(root), path).name in wanted]
        strays = [path for path in strays if cohort_of(str(root), path).name in wanted]
    return Archive(str(root), *map(sorted, (recordings, strays, links, tables, others)))


def _holds_samples(root: Path, folder: str, name: str) -> bool:
    """Of a CSV file; one that cannot be read is left to whoever reads it."""
    try:
        descriptor = Folder(str(root), f"{root}/{folder}".rstrip("/")).open(name)
    except (OSError, ValueError):
        return True
    with os.fdopen(descriptor, "rb") as file:
        return csv.is_recording(file.read(csv.BEGINNING))


def _leads_outside(root: Path, folder: Path) -> bool:
    return folder.is_symlink() and not folder.resolve().is_relative_to(root.resolve())


def cohort_of(root: str, path: str) -> Cohort:
    """Of a file of the archive; also where `root` is itself a cohort's folder, or one of its gN."""
    folder, _, name = path.rpartition("/")
    return cohorts.cohort_of(f"{_last_folders(root)}/{folder}", name)


@lru_cache
def _last_folders(root: str) -> str:
    last = Path(root).name
    return f"{Path(root).parent.name}/{last}" if re.fullmatch(r"g\d+", last) else last


def _walk(root: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """-> each folder as it stands before its files' names ("" or "a/b/"), and what is in it."""

    def refuse(error: OSError) -> None:
        raise ValueError(f"{error.filename}: cannot be listed: {error.strerror}")

    for folder, folders, names in os.walk(root, onerror=refuse):
        relative = os.path.relpath(folder, root)
        yield "" if relative == "." else f"{relative}/", folders, names
