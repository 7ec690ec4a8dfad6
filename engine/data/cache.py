"""Datasets of an object store (s3://, gs://, https://, ...): files are fetched ahead into a bounded folder, by content.

Several processes of one machine may share the folder. A file there is complete, for it was verified before it got its
name; who is killed leaves a .partial file, which the next one takes over. What is evicted while somebody has it mapped
stays readable for them.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import fsspec

from engine.data.storage import File

_BLOCK = 1 << 24
_ATTEMPTS = 6
_FIRST_PAUSE = 0.5  # seconds; it doubles
_FETCHERS = 4

T = TypeVar("T")


class CacheFolder:
    """`limit`: bytes of files it may hold."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def holding(self, file: File, fetch: Callable[[Path], None]) -> Iterator[Path]:
        """Its path, which stays while the with block runs. One process of those who ask fetches it."""
        path = self._folder / file.sha256
        with open(path.with_suffix(".lock"), "a") as lock:
            flock(lock, LOCK_EX)
            if not path.is_file() or path.stat().st_size != file.bytes:
                unfinished = path.with_suffix(".partial")
                self._reserve(unfinished, file.bytes)
                fetch(unfinished)
                unfinished.replace(path)
            path.touch()  # the least lately used go first
            yield path

    def _reserve(self, unfinished: Path, wanted: int) -> None:
        """A file of `wanted` bytes, yet to be written, after what goes for it."""
        with open(self._folder / "evict.lock", "a") as lock:
            flock(lock, LOCK_EX)
            held = sorted(self._held())
            total = sum(size for _, size, _ in held)
            for _, size, path in held:
                if total + wanted > self._limit and _removed(path):
                    total -= size
            with open(unfinished, "wb") as reserved:
                reserved.truncate(wanted)

    def _held(self) -> Iterator[tuple[float, int, Path]]:
        """The time of last use, bytes and path of each file."""
        for path in self._folder.iterdir():
            if path.suffix != ".lock":
                with suppress(FileNotFoundError):  # it has just got its name
                    status = path.stat()
                    yield status.st_mtime, status.st_size, path


def _removed(path: Path) -> bool:
    """Not where somebody is writing or opening it."""
    with open(path.with_suffix(".lock"), "a") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        path.unlink(missing_ok=True)
        return True


class RemoteFolder:
    def __init__(self, where: str, cache: CacheFolder) -> None:
        self.where = where
        self._cache = cache
        try:
            self._store, self._root = fsspec.core.url_to_fs(where)
        except (ImportError, ValueError) as failure:
            raise ValueError(f"{where}: {failure}") from failure
        self._wanted: SimpleQueue[File] = SimpleQueue()
        for _ in range(_FETCHERS):
            Thread(target=self._fetch_ahead, daemon=True).start()

    def description(self) -> bytes:
        url = f"{self._root}/dataset.json"
        text: bytes = self._patiently(url, lambda: self._store.cat_file(url))
        return text

    def check(self, files: Sequence[File], contents: bool) -> None:
        """Contents are verified as they come, always."""
        urls = [f"{self._root}/{file.name}" for file in files]
        sizes = self._patiently(self._root, lambda: self._store.sizes(urls))
        for file, size in zip(files, sizes, strict=True):
            if size != file.bytes:
                raise ValueError(f"{self.where}/{file.name} has {size} bytes instead of {file.bytes}; upload it again")

    def local(self, file: File) -> AbstractContextManager[Path]:
        return self._cache.holding(file, partial(self._fetch, file))

    def ahead(self, files: Sequence[File]) -> None:
        for file in files:
            self._wanted.put(file)

    def _fetch_ahead(self) -> None:
        while True:
            # Whoever needs the file meets the same failure, and says so.
            with suppress(ValueError), self.local(self._wanted.get()):
                pass

    def _fetch(self, file: File, path: Path) -> None:
        url = f"{self._root}/{file.name}"
        for attempt in range(_ATTEMPTS):
            sha256 = hashlib.sha256()
            with open(path, "r+b") as out:
                for start in range(0, file.bytes, _BLOCK):
                    stop = min(start + _BLOCK, file.bytes)
                    block = self._patiently(url, partial(self._block, url, start, stop))
                    sha256.update(block)
                    out.write(block)
            if sha256.hexdigest() == file.sha256:
                return
            time.sleep(_FIRST_PAUSE * 2**attempt)
        raise ValueError(
            f"{self.where}/{file.name} is damaged (its sha256 is not that of dataset.json); upload it again"
        )

    def _block(self, url: str, start: int, stop: int) -> bytes:
        block: bytes = self._store.cat_file(url, start=start, end=stop)
        if len(block) != stop - start:
            raise OSError(f"{len(block)} bytes came instead of {stop - start}")
        return block

    def _patiently(self, url: str, ask: Callable[[], T]) -> T:
        failure: Exception | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                return ask()
            except (FileNotFoundError, PermissionError) as refusal:
                raise ValueError(f"{self.where}: {_one_line(refusal)}") from refusal
            except Exception as fault:  # each store's library has its own
                failure = fault
        raise ValueError(f"{url}: given up after {_ATTEMPTS} attempts: {_one_line(failure)}") from failure


def _one_line(failure: Any) -> str:
    return f"{type(failure).__name__}: {' '.join(str(failure).split())}"
