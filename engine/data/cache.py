"""Datasets of an object store (s3://, gs://, https://, ...): files are fetched ahead into a bounded folder, by content.

Several processes of one machine may share the folder. A file there is complete, for it was verified before it got its
name; who is killed leaves a .partial file, which the next one takes over. What is evicted while somebody has it mapped
stays readable for them.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import fsspec

from engine.data.storage import File, digest, sync

_BLOCK = 1 << 24
_ATTEMPTS = 6
_FIRST_PAUSE = 0.5  # seconds; it doubles
_FETCHERS = 4
_REMEDY = "upload it again"

T = TypeVar("T")


class CacheFolder:
    """`limit`: bytes of files it is to hold; files that are being fetched are kept above it. `verify`: files that were
    here before, too."""

    def __init__(self, folder: Path, limit: int, verify: bool = False) -> None:
        self._folder = folder
        self._limit = limit
        self._verify = verify
        self._trusted: set[str] = set()
        self._wanted: SimpleQueue[Callable[[], AbstractContextManager[Path]]] = SimpleQueue()
        self._fetching = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise self._error(failure) from failure

    @contextmanager
    def holding(self, file: File, fetch: Callable[[Path], None]) -> Iterator[Path]:
        """Its path, which stays while the with block runs. One process of those who ask fetches it."""
        path = self._folder / file.sha256
        with ExitStack() as until_used:
            try:
                lock = until_used.enter_context(open(path.with_suffix(".lock"), "a"))
                flock(lock, LOCK_EX)
                if not self._is_here(path, file):
                    unfinished = path.with_suffix(".partial")
                    self._reserve(unfinished, file.bytes)
                    fetch(unfinished)
                    sync(unfinished)
                    unfinished.replace(path)
                now = time.time_ns()  # the file system's own clock stands still for milliseconds
                os.utime(path, ns=(now, now))  # the least lately used go first
            except OSError as failure:
                raise self._error(failure) from failure
            self._trusted.add(file.sha256)
            yield path

    def ahead(self, hold: Callable[[], AbstractContextManager[Path]]) -> None:
        """In the background, in turn."""
        if not self._fetching:
            self._fetching = True
            for _ in range(_FETCHERS):
                Thread(target=self._fetch_ahead, daemon=True).start()
        self._wanted.put(hold)

    def _fetch_ahead(self) -> None:
        while True:
            # Whoever needs the file meets the same failure, and says so.
            with suppress(ValueError), self._wanted.get()():
                pass

    def _is_here(self, path: Path, file: File) -> bool:
        if not path.is_file() or path.stat().st_size != file.bytes:
            return False
        return not self._verify or file.sha256 in self._trusted or digest(path) == file.sha256

    def _reserve(self, unfinished: Path, wanted: int) -> None:
        """A file that counts for `wanted` bytes from now on, after what goes for it."""
        with open(self._folder / "evict.lock", "a") as lock:
            flock(lock, LOCK_EX)
            unfinished.unlink(missing_ok=True)  # of a process that was killed
            held = sorted(self._held())
            total = sum(size for _, size, _ in held)
            for _, size, path in held:
                if total + wanted > self._limit and _removed(path):
                    total -= size
            with open(unfinished, "wb") as reserved:
                reserved.truncate(wanted)

    def _held(self) -> Iterator[tuple[int, int, Path]]:
        """The time of last use, bytes and path of each file."""
        for path in self._folder.iterdir():
            if path.suffix != ".lock":
                with suppress(FileNotFoundError):  # it has just got its name
                    status = path.stat()
                    yield status.st_mtime_ns, status.st_size, path

    def _error(self, failure: OSError) -> ValueError:
        return ValueError(f"data.cache = {self._folder}: {failure.strerror or failure} (data.cache_gb limits its size)")


def _removed(path: Path) -> bool:
    """Not where somebody is writing or opening it."""
    with open(path.with_suffix(".lock"), "a") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        path.unlink(missing_ok=True)
        return True


class _NoRangesError(ValueError):
    """There is no sense in asking again."""


class RemoteFolder:
    def __init__(self, where: str, cache: CacheFolder) -> None:
        self.where = where
        self._cache = cache
        try:
            self._store, self._root = fsspec.core.url_to_fs(where)
        except (ImportError, ValueError) as failure:
            raise ValueError(f"{where}: {failure}") from failure

    def description(self) -> bytes:
        url = f"{self._root}/dataset.json"
        text: bytes = self._patiently(url, lambda: self._store.cat_file(url))
        return text

    def check(self, files: Sequence[File], contents: bool) -> None:
        """Sizes alone: contents are verified as they come."""

        def size(file: File) -> int:
            url = f"{self._root}/{file.name}"
            return self._patiently(url, lambda: int(self._store.size(url)))

        with ThreadPoolExecutor(_FETCHERS) as pool:
            for file, found in zip(files, pool.map(size, files), strict=True):
                if found != file.bytes:
                    raise ValueError(f"{self.where}/{file.name} has {found} bytes instead of {file.bytes}; {_REMEDY}")

    def local(self, file: File) -> AbstractContextManager[Path]:
        return self._cache.holding(file, partial(self._fetch, file))

    def ahead(self, files: Sequence[File]) -> None:
        for file in files:
            self._cache.ahead(partial(self.local, file))

    def _fetch(self, file: File, path: Path) -> None:
        url = f"{self._root}/{file.name}"
        for _ in range(2):  # what is damaged on its way comes whole the next time
            sha256 = hashlib.sha256()
            with open(path, "r+b") as out:
                for start in range(0, file.bytes, _BLOCK):
                    stop = min(start + _BLOCK, file.bytes)
                    block = self._patiently(url, partial(self._block, url, start, stop))
                    sha256.update(block)
                    out.write(block)
            if sha256.hexdigest() == file.sha256:
                return
        raise ValueError(f"{self.where}/{file.name} is damaged (its sha256 is not that of dataset.json); {_REMEDY}")

    def _block(self, url: str, start: int, stop: int) -> bytes:
        block: bytes = self._store.cat_file(url, start=start, end=stop)
        if len(block) > stop - start:
            raise _NoRangesError(f"{url}: this server sends whole files where a part is asked for (Range)")
        if len(block) < stop - start:
            raise OSError(f"{len(block)} bytes came instead of {stop - start}")
        return block

    def _patiently(self, url: str, ask: Callable[[], T]) -> T:
        failure: Exception | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                return ask()
            except _NoRangesError:
                raise
            except (FileNotFoundError, PermissionError) as refusal:
                raise ValueError(f"{self.where}: {_one_line(refusal)}") from refusal
            except Exception as fault:  # each store's library has its own
                failure = fault
        raise ValueError(f"{url}: given up after {_ATTEMPTS} attempts: {_one_line(failure)}") from failure


def _one_line(failure: Any) -> str:
    return f"{type(failure).__name__}: {' '.join(str(failure).split())}"
