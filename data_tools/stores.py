"""Where archives are published: web servers and object stores. One file at a time, from any byte on, with patience."""

import contextlib
import email.utils
import http.client
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

_BLOCK = 1 << 18  # bytes
_PATIENCE = 30  # seconds without a byte
_ATTEMPTS = 8  # in a row that bring nothing
_LONGEST_WAIT = 60.0  # seconds, between two of them
_LARGEST = 1 << 34  # bytes of a file


class LostError(Exception):
    """A file that cannot be had; the others may."""


class _InterruptedError(Exception):
    """A file that may be had if one tries again."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait  # seconds, as the server asks


class Store(Protocol):
    where: str

    def read(self, name: str, start: int) -> Iterator[bytes]:
        """The file from byte `start` on; a first block of b"" asks to begin anew, at byte 0."""


@contextlib.contextmanager
def opened(where: str) -> Iterator[Store]:
    scheme = urlsplit(where).scheme
    if scheme in ("http", "https"):
        yield _Web(where.rstrip("/"))
    elif scheme == "s3":
        yield _Bucket(where.rstrip("/"))
    else:
        raise ValueError(f"--from {where}: begins with none of https://, http:// and s3://")


def fetch(store: Store, name: str, part: Path, stop: threading.Event, largest: int = _LARGEST) -> int:
    """Goes on with `part` until the file is whole; -> bytes that came."""
    came, attempts = 0, 0
    while True:
        before = came
        try:
            for block in _rest(store, name, part):
                came += block
                if stop.is_set():
                    raise LostError("interrupted")
                if part.stat().st_size > largest:
                    raise LostError("is far too large")
            return came
        except _InterruptedError as error:
            attempts = 1 if came > before else attempts + 1
            if attempts >= _ATTEMPTS:
                raise LostError(f"{error}, {attempts} times in a row") from None
            wait = error.wait if error.wait is not None else random.uniform(0.5, 1) * 2 ** (attempts - 2)
            if stop.wait(min(wait, _LONGEST_WAIT)):
                raise LostError("interrupted") from None


def _rest(store: Store, name: str, part: Path) -> Iterator[int]:
    """Appends to `part`; -> bytes of each block."""
    with part.open("ab") as file:
        for block in store.read(name, file.tell()):
            if not block:
                file.truncate(0)
            file.write(block)
            file.flush()
            yield len(block)


class _Web:
    def __init__(self, where: str) -> None:
        self.where = where

    def read(self, name: str, start: int) -> Iterator[bytes]:
        headers = {"Accept-Encoding": "identity", "User-Agent": "leadwise"}
        if start:
            headers["Range"] = f"bytes={start}-"
        request = urllib.request.Request(f"{self.where}/{quote(os.fsencode(name))}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                if start and not _goes_on(answer, start):
                    yield b""
                yield from _blocks(answer)
        except urllib.error.HTTPError as error:
            if error.code == 416:  # nothing behind what is there: whole, or of another file
                return
            if error.code in (408, 425, 429) or error.code >= 500:
                raise _InterruptedError(f"the server answers {error.code}", _wait(error.headers)) from None
            raise LostError(f"the server answers {error.code} {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise _InterruptedError(f"{type(error).__name__} ({reason})") from None


def _goes_on(answer: Any, start: int) -> bool:
    """Whether this is the rest that was asked for; else it is the whole file."""
    return answer.status == 206 and str(answer.headers.get("Content-Range", "")).startswith(f"bytes {start}-")


def _blocks(answer: Any) -> Iterator[bytes]:
    expected = answer.headers.get("Content-Length", "")
    count = 0
    while block := answer.read1(_BLOCK):
        count += len(block)
        yield block
    if expected.isdecimal() and count < int(expected):
        raise _InterruptedError(f"the connection ended after {count:,} of {int(expected):,} bytes")


def _wait(headers: Any) -> float | None:
    """Retry-After: seconds, or a date."""
    text = str(headers.get("Retry-After") or "")
    if text.isdecimal():
        return float(text)
    date = email.utils.parsedate_tz(text)
    return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else None


class _Bucket:
    """PhysioNet's is open to everybody. AWS_ENDPOINT_URL names another server than Amazon's."""

    def __init__(self, where: str) -> None:
        self.where = where
        try:
            import fsspec
            import s3fs  # noqa: F401 (what fsspec needs for it)
        except ImportError:
            raise ValueError(f"--from {where}: needs fsspec and s3fs: pip install 'leadwise[s3]'") from None
        own = bool(os.environ.get("AWS_ACCESS_KEY_ID") or os.environ.get("AWS_PROFILE"))
        patience = {"connect_timeout": _PATIENCE, "read_timeout": _PATIENCE, "retries": {"max_attempts": 1}}
        self._store = fsspec.filesystem("s3", anon=not own, config_kwargs=patience, skip_instance_cache=True)
        self._store.retries = 1

    def read(self, name: str, start: int) -> Iterator[bytes]:
        path = f"{self.where.removeprefix('s3://')}/{name}"
        block = 16 << 20  # most files are one request
        while True:
            try:
                found = self._store.cat_file(path, start=start, end=start + block)
            except (FileNotFoundError, PermissionError) as error:
                raise LostError(f"{type(error).__name__} ({error})") from None
            except Exception as error:  # of aiohttp, botocore and the operating system
                if "range" in str(error).lower() and "satisfiable" in str(error).lower():
                    return  # nothing behind what is there
                raise _InterruptedError(f"{type(error).__name__} ({error})") from None
            if found:
                yield found
            if len(found) < block:
                return
            start += len(found)
