"""Pairs a second from a dataset folder to augmented torch tensors, beside three other ways, interleaved in one run."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import archives, processes, report
from benchmarks.loader_runs import AUGMENTATIONS, PEERS

_SHARD_MB = 64
_PAIR_BYTES = 2 * 5000 * 12
_MEMORY = 1_500_000_000  # bytes, of the run whose files do not fit
_CGROUP = Path("/sys/fs/cgroup/memory")  # version 1: where a benchmark may limit its own page cache


def run(recordings: int, repeats: int, source: Path | None, scratch: Path | None, out: Path) -> Path:
    """-> the page of results."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        work = Path(folder)
        archives.make(work / "raw", recordings, source)
        for format_ in ("tar", "zarr"):
            options = ("--views", "pretrain", "--format", format_, "--shard-mb", str(_SHARD_MB))
            processes.python("-m", "data_tools.shard", work / "raw", "--out", work / format_, *options)
        shutil.rmtree(work / "raw")
        tar, zarr = work / "tar", work / "zarr"
        ways = {f"Leadwise, {name}": (name, tar) for name in AUGMENTATIONS}
        ways |= {f"Leadwise, {name}, zarr": (name, zarr) for name in AUGMENTATIONS}
        ways |= {name: (name, tar) for name in PEERS}
        warm = [{way: _rate(*how) for way, how in ways.items()} for _ in range(repeats)]
        cold_ways = {way: ways[way] for way in ("Leadwise, rlm", *PEERS)}
        cold = [{way: _rate(*how, "--cold") for way, how in cold_ways.items()} for _ in range(repeats)]
        figures: dict[str, Any] = {"recordings": recordings, "warm": warm, "cold": cold}
        if os.access(_CGROUP, os.W_OK):
            everything = str(len(list(tar.glob("train/*.tar"))))
            windows = {"8 files": "8", f"all {everything} files": everything}
            figures["little_memory"] = [
                {
                    name: _rate("rlm", tar, "--cold", "--window", files, memory=_MEMORY)
                    for name, files in windows.items()
                }
                for _ in range(repeats)
            ]
    command = f"python -m benchmarks loader --recordings {recordings} --repeats {repeats}"
    return report.write(out, "loader", command + (" --source ARCHIVE" if source else ""), figures, _lines(figures))


def _rate(how: str, data: Path, *options: str, memory: int = 0) -> float:
    """Pairs a second."""
    command = [sys.executable, "-m", "benchmarks.loader_runs", how, str(data), *options]
    group = _CGROUP / f"leadwise-{os.getpid()}"
    if memory:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(memory))
        command = ["sh", "-c", f'echo $$ > "{group}/cgroup.procs"; exec "$@"', "sh", *command]
    try:
        printed = subprocess.run(command, cwd=processes.ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    finally:
        if memory:
            group.rmdir()
    return float(printed)


def _lines(figures: dict[str, Any]) -> list[str]:
    recordings = figures["recordings"]
    lines = [f"{recordings:,} crops ({recordings * _PAIR_BYTES / 1e9:.1f} GB), batches of 256 pairs, two threads.", ""]
    lines += ["| page cache warm | pairs/s | MB/s of int16 | of the plain loop |", "|---|---|---|---|"]
    lines += _table(figures["warm"], "plain loop")
    lines += ["", "| page cache evicted, one pass | pairs/s | MB/s of int16 | of the plain loop |", "|---|---|---|---|"]
    lines += _table(figures["cold"], "plain loop")
    if "little_memory" not in figures:
        lines += ["", "Not measured: less memory than files, which needs cgroups of version 1 that can be written."]
    else:
        head = f"| evicted, in {_MEMORY / 1e9:.1f} GB of memory, shuffled over | pairs/s | MB/s of int16 | of 8 files |"
        lines += ["", head, "|---|---|---|---|"]
        lines += _table(figures["little_memory"], "8 files")
    return lines


def _table(rounds: list[dict[str, float]], against: str) -> list[str]:
    lines = []
    for way in rounds[0]:
        rates = [one[way] for one in rounds]
        ratio = report.spread([one[way] / one[against] for one in rounds], 2)
        read = _PAIR_BYTES / (2 if "3kg" in way else 1)  # a pair of 3KG is two views of one segment
        megabytes = statistics.median(rates) * read / 1e6
        lines.append(f"| {way} | {report.spread(rates)} | {megabytes:,.0f} | {ratio} |")
    return lines
