"""The machine's limits, measured beside every figure, and which of them is near."""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from benchmarks import machine
from benchmarks.processes import ROOT
from benchmarks.result import Limit, Measure, Result

MATRIX = {"bf16 matrix rate": torch.bfloat16, "float32 matrix rate": torch.float32}
MEMORY, PAGE_CACHE = "memory copy", "page cache read"
DISK_READ, DISK_WRITE = "disk read", "disk write"
ALL_REDUCE, CORE = "all-reduce", "core of each process"
_UNITS = {CORE: "CPU s/s"} | dict.fromkeys(MATRIX, "FLOP/s")
_BYTES = 256 << 20
_REPEATS = 5
_THREADS = 2  # that read, as of the loader
_NEAR = 0.5  # of a limit: from there on it is what limits


class Gauge:
    """Reads the limits of these names, whenever it is asked; `folder` lies on the disk that is meant."""

    def __init__(self, names: Sequence[str], device: torch.device, folder: Path, of: Sequence[machine.Product] = ()):
        self._names, self._device, self._folder, self._products = names, device, folder, list(of)
        self._readings: dict[str, list[float]] = {name: [] for name in names}

    def read(self) -> None:
        for name in self._names:
            self._readings[name].append(self._rate(name))

    @property
    def limits(self) -> dict[str, Limit]:
        return {name: Limit(_UNITS.get(name, "B/s"), readings) for name, readings in self._readings.items()}

    def _rate(self, name: str) -> float:
        if name in MATRIX:
            return machine.matrix_rate(self._products, MATRIX[name], self._device)
        if name == MEMORY:
            return memory_copy(self._device)
        if name == ALL_REDUCE:
            return all_reduce()
        if name == CORE:
            return 1.0
        of_files = {PAGE_CACHE: page_cache_read, DISK_READ: disk_read, DISK_WRITE: disk_write}
        return of_files[name](self._folder)


def memory_copy(device: torch.device) -> float:
    """Bytes copied a second by all threads; each is read once and written once."""
    source = torch.ones(_BYTES // 8, dtype=torch.int64, device=device)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)
        machine.wait(device)

    return _BYTES / _best(copy)


def page_cache_read(folder: Path) -> float:
    """Of a file that was just read, by two threads, into buffers of theirs."""
    path = folder / "limit.bin"
    _write(path)
    part = _BYTES // _THREADS
    buffers = [bytearray(part) for _ in range(_THREADS)]

    def read(thread: int) -> None:
        with open(path, "rb", buffering=0) as opened:
            opened.seek(thread * part)
            opened.readinto(buffers[thread])

    try:
        with ThreadPoolExecutor(_THREADS) as threads:
            return _BYTES / _best(lambda: list(threads.map(read, range(_THREADS))))
    finally:
        path.unlink()


def disk_read(folder: Path) -> float:
    """Of a file whose pages the kernel was asked to forget: a virtual machine's host may remember them."""
    path = folder / "limit.bin"
    _write(path)
    buffer = bytearray(_BYTES)
    try:
        with open(path, "rb", buffering=0) as opened:

            def read() -> None:
                opened.seek(0)
                opened.readinto(buffer)

            def forget() -> None:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

            return _BYTES / _best(read, forget)
    finally:
        path.unlink()


def disk_write(folder: Path) -> float:
    """Of new files, until the disk says that it has them."""
    path = folder / "limit.bin"
    try:
        return _BYTES / _best(lambda: _write(path), lambda: path.unlink(missing_ok=True))
    finally:
        path.unlink(missing_ok=True)


def all_reduce() -> float:
    """Bytes of a tensor that two ranks of this machine add up, a second."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "benchmarks.all_reduce"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return float(printed)


def _write(path: Path) -> None:
    with mmap.mmap(-1, 1 << 20) as zeros, open(path, "wb", buffering=0) as opened:
        zeros.write(os.urandom(1 << 20))  # some disks are quick with zeros
        for _ in range(_BYTES >> 20):
            opened.write(zeros)
        os.fsync(opened.fileno())


def _best(what: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Seconds of the quickest; the first one is not counted."""
    seconds = []
    for _ in range(1 + _REPEATS):
        before()
        begin = time.perf_counter()
        what()
        seconds.append(time.perf_counter() - begin)
    return min(seconds[1:])


def verdict(shares: Mapping[str, float], name: str) -> str:
    """The one line that a report ends with; `shares` of the limits, of the figure of that `name`."""
    if not shares:
        return "What limits it: no limit was measured beside it."
    nearest = max(shares, key=lambda limit: shares[limit])
    rest = ", ".join(f"{limit} {shares[limit]:.1%}" for limit in shares if limit != nearest)
    others = f" (beside it: {rest})" if rest else ""
    if shares[nearest] >= _NEAR:
        return f"What limits it: the {nearest}, of which `{name}` has {shares[nearest]:.1%}{others}."
    return (
        f"What limits it: none of the limits measured; `{name}` is nearest to the {nearest},"
        f" with {shares[nearest]:.1%}{others}. The rest is overhead and waiting."
    )


def of_result(result: Result) -> str:
    """Of its first figure."""
    if not result.measures:
        return "What limits it: it has no figure of speed."
    first: Measure = result.measures[0]
    return verdict(result.shares(first), first.name)
