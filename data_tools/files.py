"""Files that are whole or not there: written under another name, then renamed."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq


def temporary_suffix() -> str:
    """Another one each time, on every machine; `remove_temporary` knows them."""
    return f".{uuid4().hex[:12]}.tmp"


def remove_temporary(folder: Path) -> None:
    """What killed processes have left."""
    for path in folder.rglob("*.tmp*"):
        path.unlink()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` if nothing goes wrong. Two processes never share one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + temporary_suffix())
    try:
        yield temporary
        flush_to_disk(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_given(flag: str, path: Path | None) -> None:
    """A file that a flag names is there: said before hours of work."""
    if path is not None and not path.is_file():
        raise ValueError(f"{flag} {path}: no such file")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Makes the folder for one run alone; one that is left with nothing to go on with does not stay behind."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock"
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder}: another run is at work there") from None
        try:
            yield
        finally:
            if folder.exists() and os.listdir(folder) == ["lock"]:
                path.unlink()
                folder.rmdir()


def write_table(table: pa.Table, path: Path) -> None:
    with replacing(path) as temporary:
        pq.write_table(table, temporary)


def read_table(path: Path) -> pa.Table:
    return pq.read_table(path, use_threads=False)


def write_json(value: Any, path: Path) -> None:
    with replacing(path) as temporary, temporary.open("w") as file:
        json.dump(value, file, indent=1)  # piece by piece: a list of all recordings is long
        file.write("\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError:
        raise ValueError(f"{path}: is damaged") from None


def digest(path: Path) -> str:
    """sha256, in hexadecimal."""
    state = sha256()
    with path.open("rb", buffering=0) as file:
        while block := file.read(1 << 20):
            state.update(block)
    return state.hexdigest()


def flush_to_disk(path: Path) -> None:
    """Returns when a file or folder would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
