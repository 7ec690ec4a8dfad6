"""What is in a folder of recordings: its headers, each with its cohort, and files that no header goes with."""

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from data_tools import cohorts
from data_tools.cohorts import Cohort

_SIGNAL_SUFFIXES = {".mat", ".dat", ".h5", ".hdf5", ".edf", ".bdf", ".dcm"}


class Archive(NamedTuple):
    root: str
    headers: list[str]  # relative to root, sorted
    strays: list[str]  # signal files without a header of their own name; some header may still name them
    links: list[str]  # to folders outside, which are not followed
    ptbxl_tables: list[str]


def find(root: Path, wanted: tuple[str, ...]) -> Archive:
    """Walks `root`, following no link to a folder, for recordings of the cohorts `wanted` (all, if empty)."""
    headers: list[str] = []
    strays: list[str] = []
    links: list[str] = []
    tables: list[str] = []
    for folder, folders, names in _walk(str(root)):
        present = set(names)
        links += [f"{folder}{name}" for name in folders if _leads_outside(root, root / f"{folder}{name}")]
        for name in names:
            stem, suffix = os.path.splitext(name)
            if suffix == ".hea":
                headers.append(f"{folder}{name}")
            elif suffix.lower() in _SIGNAL_SUFFIXES and f"{stem}.hea" not in present:
                strays.append(f"{folder}{name}")
            elif name == cohorts.PTBXL_TABLE:
                tables.append(f"{folder}{name}")
    if wanted:
        headers = [path for path in headers if cohort_of(str(root), path).name in wanted]
        strays = [path for path in strays if cohort_of(str(root), path).name in wanted]
    return Archive(str(root), sorted(headers), sorted(strays), sorted(links), sorted(tables))


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
