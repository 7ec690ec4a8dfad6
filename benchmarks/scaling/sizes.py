"""The same work on datasets of several sizes: time of each crop, and memory, which should not grow."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import archives, processes

_SHARD_MB = 64


def measure(counts: Sequence[int], workers: int, seconds: float, scratch: Path | None) -> list[dict[str, Any]]:
    """Archives are 64 random walks repeated, each with a few samples of its own: bytes of the right number."""
    return [_of(count, workers, seconds, scratch) for count in counts]


def _of(count: int, workers: int, seconds: float, scratch: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        raw, data = Path(folder) / "raw", Path(folder) / "set"
        archives.make(raw, count, None)
        options = ("--views", "pretrain", "--workers", str(workers), "--shard-mb", str(_SHARD_MB))
        cost = processes.python("-m", "data_tools.shard", raw, "--out", data, *options)
        shutil.rmtree(raw)
        read = json.loads(processes.output("-m", "benchmarks.scaling.reading", data, str(seconds)).splitlines()[-1])
        size = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    return {"recordings": count, "bytes": size, "shard_seconds": cost.seconds, "shard_mb": cost.peak_mb, **read}
