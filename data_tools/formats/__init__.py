"""Recordings in formats other than WFDB, one small file a format, each through a library that is well kept."""

import importlib.util
import os
from collections.abc import Iterable
from typing import BinaryIO

from data_tools.formats import csv, dicom, edf, hdf5, matlab, npy
from data_tools.formats.library import EXTRA
from data_tools.formats.raw import Read, complete
from data_tools.hints import Hints

_READERS = {
    ".csv": csv.read,
    ".dcm": dicom.read,
    ".edf": edf.read,
    ".bdf": edf.read,
    ".h5": hdf5.read,
    ".hdf5": hdf5.read,
    ".mat": matlab.read,
    ".npy": npy.read,
}
_OPTIONAL = {".dcm": "pydicom", ".edf": "pyedflib", ".bdf": "pyedflib", ".h5": "h5py", ".hdf5": "h5py"}
_WITH_KEYS = {".h5", ".hdf5", ".mat"}
SUFFIXES = frozenset(_READERS)
_LARGEST_FILE = 4 << 30  # bytes


def check_installed(paths: Iterable[str]) -> None:
    """Before a run begins that would refuse all files of a format."""
    suffixes = {os.path.splitext(path)[1].lower() for path in paths}
    for suffix in sorted(suffixes & set(_OPTIONAL)):
        if importlib.util.find_spec(_OPTIONAL[suffix]) is None:
            raise ValueError(f"{_OPTIONAL[suffix]} is needed to read {suffix} files: {EXTRA}")


def read(file: BinaryIO, suffix: str, told: Hints) -> Read:
    """A recording; `told`: what its file does not say."""
    if file.seek(0, 2) > _LARGEST_FILE:
        raise ValueError("file is larger than 4 GiB")
    file.seek(0)
    found = complete(_READERS[suffix](file, told.key), told)
    return found._replace(hinted=(*found.hinted, "key")) if told.key and suffix in _WITH_KEYS else found
