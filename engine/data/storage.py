"""Where the files of a dataset lie: a folder of this machine, or an object store behind a local cache."""

import hashlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

REMEDY = "restore it, or make the dataset again (python -m data_tools.verify lists all that is wrong)"


class File(NamedTuple):
    """As dataset.json lists it."""

    name: str
    bytes: int
    sha256: str


class Storage(Protocol):
    where: str

    def description(self) -> bytes:
        """dataset.json"""

    def check(self, files: Sequence[File], contents: bool) -> None:
        """Raises ValueError where one is missing or of another size, or, if asked, of other contents."""

    def local(self, file: File) -> AbstractContextManager[Path]:
        """Its copy on this machine, which stays while the with block runs, and for whoever has it mapped."""

    def ahead(self, files: Sequence[File]) -> None:
        """These are needed soon."""


class LocalFolder:
    def __init__(self, where: str) -> None:
        self.where = where
        self._root = Path(where).expanduser()

    def description(self) -> bytes:
        path = self._root / "dataset.json"
        if path.is_file():
            return path.read_bytes()
        if not self._root.is_dir():
            raise ValueError(f"{self.where}: there is no such folder")
        raise ValueError(
            f"{self.where} is no dataset folder: it has no dataset.json; python -m data_tools.shard makes one"
        )

    def check(self, files: Sequence[File], contents: bool) -> None:
        for file in files:
            path = self._root / file.name
            if not path.is_file():
                raise ValueError(f"{path} is missing; {REMEDY}")
            if path.stat().st_size != file.bytes:
                raise ValueError(f"{path} has {path.stat().st_size} bytes instead of {file.bytes}; {REMEDY}")
            if contents and digest(path) != file.sha256:
                raise ValueError(f"{path} is damaged (its sha256 is not that of dataset.json); {REMEDY}")

    def local(self, file: File) -> AbstractContextManager[Path]:
        return nullcontext(self._root / file.name)

    def ahead(self, files: Sequence[File]) -> None:
        """The kernel reads them in one go, where single crops would be random reads of a cold disk."""
        for file in files:
            with open(self._root / file.name, "rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)


def digest(path: Path) -> str:
    with open(path, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def sync(path: Path) -> None:
    """To the disk, whatever happens next."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mapped(path: Path) -> NDArray[np.uint8]:
    # Not as np.memmap: each slice of one costs ten times that of a plain array.
    return np.asarray(np.memmap(path, np.uint8, "r"))
