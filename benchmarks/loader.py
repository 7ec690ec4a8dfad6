"""Pairs a second from a dataset folder to augmented torch tensors, beside three other ways, interleaved in one run."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks import archives, arguments, processes, report
from benchmarks.limits import DISK_READ, MEMORY, PAGE_CACHE, Gauge
from benchmarks.loader_runs import AUGMENTATIONS, PEERS
from benchmarks.result import Measure

_SHARD_MB = 64
_PAIR_BYTES = 2 * 5000 * 12
_MEMORY = 1_500_000_000  # bytes, of the run whose files do not fit
_CGROUP = Path("/sys/fs/cgroup/memory")  # version 1: where a benchmark may limit its own page cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recordings", type=int, default=16_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--source", type=Path, help="repeat the 10 s recordings of this archive")
    arguments.add_common(parser, "4,000 recordings, 1 repeat")


def run(chosen: argparse.Namespace) -> Path:
    """-> the page of results."""
    recordings, repeats = (4000, 1) if chosen.quick else (chosen.recordings, chosen.repeats)
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as folder:
        gauge = Gauge((MEMORY, PAGE_CACHE, DISK_READ), torch.device("cpu"), Path(folder))
        gauge.read()
        figures = _figures(Path(folder), recordings, repeats, chosen.source)
        gauge.read()
    command = arguments.command(f"loader --recordings {recordings} --repeats {repeats}", chosen)
    name = arguments.named("loader", chosen)
    return report.write(chosen.out, name, command, figures, lines(figures), measures(figures), gauge.limits)


def measures(figures: dict[str, Any]) -> list[Measure]:
    """Pairs a second; lead masks first, which is what pre-training takes."""
    ways = sorted(figures["warm"][0], key=lambda way: way != "Leadwise, rlm")
    found = [_measure(way, [one[way] for one in figures["warm"]], PAGE_CACHE) for way in ways]
    for way in figures["cold"][0]:
        found.append(_measure(way, [one[way] for one in figures["cold"]], DISK_READ, "evicted: "))
    for way in figures.get("little_memory", [{}])[0]:
        rates = [one[way] for one in figures["little_memory"]]
        found.append(_measure(way, rates, DISK_READ, "little memory: "))
    return found


def _measure(way: str, rates: list[float], source: str, prefix: str = "") -> Measure:
    read = _read_bytes(way)
    # A copy of n bytes moves 2 n: one pair is read as int16, and written as float32 of all its values.
    copied = (read + 2 * _PAIR_BYTES) / 2
    return Measure(prefix + way, "pairs/s", rates, {source: read, MEMORY: copied}, way not in PEERS)


def _read_bytes(way: str) -> float:
    return _PAIR_BYTES / (2 if "3kg" in way else 1)  # a pair of 3KG is two views of one segment


def _figures(work: Path, recordings: int, repeats: int, source: Path | None) -> dict[str, Any]:
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
            {name: _rate("rlm", tar, "--cold", "--window", files, memory=_MEMORY) for name, files in windows.items()}
            for _ in range(repeats)
        ]
    return figures


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


def lines(figures: dict[str, Any]) -> list[str]:
    recordings = figures["recordings"]
    page = [f"{recordings:,} crops ({recordings * _PAIR_BYTES / 1e9:.1f} GB), batches of 256 pairs, two threads.", ""]
    page += ["| page cache warm | pairs/s | MB/s of int16 | of the plain loop |", "|---|---|---|---|"]
    page += _table(figures["warm"], "plain loop")
    page += ["", "| page cache evicted, one pass | pairs/s | MB/s of int16 | of the plain loop |", "|---|---|---|---|"]
    page += _table(figures["cold"], "plain loop")
    if "little_memory" not in figures:
        page += ["", "Not measured: less memory than files, which needs cgroups of version 1 that can be written."]
    else:
        head = f"| evicted, in {_MEMORY / 1e9:.1f} GB of memory, shuffled over | pairs/s | MB/s of int16 | of 8 files |"
        page += ["", head, "|---|---|---|---|"]
        page += _table(figures["little_memory"], "8 files")
    return page


def _table(rounds: list[dict[str, float]], against: str) -> list[str]:
    lines = []
    for way in rounds[0]:
        rates = [one[way] for one in rounds]
        ratio = report.spread([one[way] / one[against] for one in rounds], 2)
        megabytes = statistics.median(rates) * _read_bytes(way) / 1e6
        lines.append(f"| {way} | {report.spread(rates)} | {megabytes:,.0f} | {ratio} |")
    return lines
