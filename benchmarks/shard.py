"""data_tools.shard beside the plain wfdb + webdataset loop that writes the same crops, interleaved in one run."""

import argparse
import json
import shutil
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import archives, arguments, processes, report
from benchmarks.limits import CORE, DISK_WRITE, PAGE_CACHE, Gauge
from benchmarks.processes import Cost
from benchmarks.result import Measure
from data_tools import crops, headers, records, writers
from data_tools.archive import find

_SHARD_MB = 32  # several shards even of a small archive, so that two workers have something to share
_PARTS_RECORDINGS = 500
_ROWS = 10_000_000
_READ_AND_WRITTEN = 2, 1  # times that the bytes of a crop are: found, packed


class Counts(NamedTuple):
    """Of recordings, and of repetitions."""

    recordings: int
    repeats: int
    few: int  # the memory of which is held against that
    many: int  # of so many
    shared: int  # by two workers
    large: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recordings", type=int, default=8000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--large", type=int, default=0, help="also one run of so many recordings (240 kB of disk each)")
    parser.add_argument(
        "--source", type=Path, help="repeat the 10 s recordings of this archive (default: random walks)"
    )
    arguments.add_common(parser, "500 recordings, 3 repeats")


def run(chosen: argparse.Namespace) -> Path:
    """-> the page of results."""
    counts = Counts(chosen.recordings, chosen.repeats, 2_000, 20_000, 40_000, chosen.large)
    if chosen.quick:
        counts = Counts(500, 3, 500, 2_000, 4_000, chosen.large)
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as folder:
        gauge = Gauge((CORE, PAGE_CACHE, DISK_WRITE), torch.device("cpu"), Path(folder))
        gauge.read()
        figures = _figures(Path(folder), counts, chosen.source)
        gauge.read()
    words = f"shard --recordings {counts.recordings} --repeats {counts.repeats} --large {counts.large}"
    command = arguments.command(words, chosen)
    name = arguments.named("shard", chosen)
    return report.write(chosen.out, name, command, figures, lines(figures), measures(figures), gauge.limits)


def measures(figures: dict[str, Any]) -> list[Measure]:
    """Recordings a second, of one process each; then of workers."""
    count, shared = figures["recordings"], figures["shared"]
    found = [
        _measure("data_tools.shard, one process", count, [run["ours"] for run in figures["runs"]], 1),
        _measure("wfdb + ShardWriter, one process", count, [run["loop"] for run in figures["runs"]], 1, ours=False),
    ]
    for key, workers in (("one", 1), ("two", 2)):
        name = f"data_tools.shard, {key} worker{'s' if workers > 1 else ''}"
        found.append(_measure(name, shared, [pair[key] for pair in figures["workers"]], workers))
    return found


def _measure(name: str, count: int, runs: list[dict[str, float]], workers: int, ours: bool = True) -> Measure:
    read, written = (times * writers.CROP_BYTES for times in _READ_AND_WRITTEN)
    cpu = statistics.median(run["cpu_seconds"] for run in runs) / count / workers
    rates = [count / run["seconds"] for run in runs]
    return Measure(name, "recordings/s", rates, {CORE: cpu, PAGE_CACHE: read, DISK_WRITE: written}, ours)


def _figures(work: Path, counts: Counts, source: Path | None) -> dict[str, Any]:
    figures: dict[str, Any] = counts._asdict() | {"shard_mb": _SHARD_MB}
    archives.make(work / "raw", counts.recordings, source)
    figures["runs"] = [_beside_the_loop(work) for _ in range(counts.repeats)]
    figures["parts_us"] = _parts(work)
    peaks: dict[str, list[float]] = {}
    for count in (counts.few, counts.many):
        _fresh_archive(work, count, source)
        peaks[str(count)] = [_ours(work, workers=1).peak_mb for _ in range(3)]
    figures["peak_mb"] = peaks
    _fresh_archive(work, counts.shared, source)
    figures["workers"] = [
        {name: _ours(work, count)._asdict() for name, count in (("one", 1), ("two", 2))} for _ in range(3)
    ]
    if counts.large:
        _fresh_archive(work, counts.large, source)
        figures["of_large"] = _ours(work, workers=2, shard_mb=256)._asdict()
    figures["rows"] = _open_rows(work / "view")
    return figures


def _beside_the_loop(work: Path) -> dict[str, Any]:
    loop = processes.python("-m", "benchmarks.wfdb_loop", work / "raw", work / "loop")
    written = sum(_members(path, ".npy") for path in (work / "loop").glob("*.tar"))
    shutil.rmtree(work / "loop")
    return {"crops": written, "loop": loop._asdict(), "ours": _ours(work, workers=1, crops=written)._asdict()}


def _members(tar: Path, suffix: str) -> int:
    with tarfile.open(tar) as file:
        return sum(name.endswith(suffix) for name in file.getnames())


def _ours(work: Path, workers: int, shard_mb: int = _SHARD_MB, crops: int | None = None) -> Cost:
    data = work / "data"
    options = ("--views", "pretrain", "--workers", str(workers), "--shard-mb", str(shard_mb))
    cost = processes.python("-m", "data_tools.shard", work / "raw", "--out", data, *options)
    kept = json.loads((data / "dataset.json").read_text())["crops"]["kept"]
    if crops is not None and kept != crops:
        raise RuntimeError(f"the loop wrote {crops} crops, shard {kept}")
    shutil.rmtree(data)
    return cost


def _fresh_archive(work: Path, recordings: int, source: Path | None) -> None:
    shutil.rmtree(work / "raw")
    archives.make(work / "raw", recordings, source)


def _parts(work: Path) -> dict[str, float]:
    """Where the time of one recording goes, in us: each step alone, over the same recordings, all in the page cache."""
    root = str(work / "raw")
    names = find(work / "raw", ()).recordings[:_PARTS_RECORDINGS]
    texts = [(work / "raw" / name).read_text() for name in names]
    recordings = [records.read(root, name) for name in names]
    writer = writers.TarWriter(str(work / "parts"))
    about = {"key": "JS00001-0000", "classes": ["NSR"], "lead_mask": [4095, 4095], "leads": list(crops.LEADS)}
    add = partial(writer.add, "JS00001-0000", about=about)
    stored = [(root, name, r.stored, 0, crops.CROP) for name, r in zip(names, recordings, strict=True)]
    parts = {
        "read and verify, first pass": _time(partial(records.read, root), names),
        "of that: parse the header": _time(headers.parse, texts),
        "of that: checksums": _time(crops.column_sums, [r.signal for r in recordings]),
        "lead masks and sha256 of the content": _time(lambda r: crops.cut(r.signal, r.leads), recordings),
        "read again, to pack": _time(_read_again, stored),
        "into the tar, with its sha256": _time(add, [r.signal for r in recordings]),
    }
    writer.close()
    return parts


def _read_again(arguments: tuple[Any, ...]) -> Any:
    return records.read_stored(*arguments)


def _time(function: Callable[[Any], Any], items: Sequence[Any]) -> float:
    """Median of 5, microseconds an item."""
    rounds = []
    for _ in range(5):
        begin = time.perf_counter()
        for item in items:
            function(item)
        rounds.append((time.perf_counter() - begin) / len(items) * 1e6)
    return statistics.median(rounds)


def _open_rows(folder: Path) -> dict[str, float]:
    """A view of ten million rows, opened and looked into by a fresh process."""
    folder.mkdir()
    columns = {"file": np.int32, "offset": np.int64, "samples": np.int32, "identity": np.int32}
    for name, dtype in (columns | {"classes": np.uint32, "crop": np.int32}).items():
        np.save(folder / f"{name}.npy", np.arange(_ROWS, dtype=dtype))
    np.save(folder / "lead_mask.npy", np.full((_ROWS, 2), 4095, np.uint16))
    opening = (
        "import resource, sys, time; from pathlib import Path; import numpy as np;"
        "from data_tools.views import open_view;"
        "begin = time.perf_counter(); view = open_view(Path(sys.argv[1]));"
        "rows = np.random.default_rng(0).integers(0, len(view['crop']), 4096);"
        "assert (view['crop'][rows] == rows).all() and view['lead_mask'][rows].shape == (4096, 2);"
        "seconds = time.perf_counter() - begin;"
        "print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    seconds, peak = processes.output("-c", opening, folder).split()
    shutil.rmtree(folder)
    return {"rows": _ROWS, "seconds": float(seconds), "peak_mb": float(peak), "bytes_a_row": 32}


def lines(figures: dict[str, Any]) -> list[str]:
    count, runs, pairs = figures["recordings"], figures["runs"], figures["workers"]
    page = ["| one process each | recordings/s | against the loop | CPU s | peak MB |", "|---|---|---|---|---|"]
    for key, name in (("loop", "wfdb + ShardWriter, no checks"), ("ours", "data_tools.shard, all checks")):
        rate = report.spread([count / run[key]["seconds"] for run in runs])
        ratio = report.spread([run["loop"]["seconds"] / run[key]["seconds"] for run in runs], 1)
        cpu = report.spread([run[key]["cpu_seconds"] for run in runs], 1)
        peak = report.spread([run[key]["peak_mb"] for run in runs])
        page.append(f"| {name} | {rate} | {ratio} | {cpu} | {peak} |")
    page += ["", f"{count:,} recordings of 10 s, as many crops from both; whole processes, start-up included.", ""]
    page += ["| workers | recordings/s | against one | peak MB of the largest process |", "|---|---|---|---|"]
    for key, name in (("one", "1"), ("two", "2")):
        rate = report.spread([figures["shared"] / pair[key]["seconds"] for pair in pairs])
        ratio = report.spread([pair["one"]["seconds"] / pair[key]["seconds"] for pair in pairs], 2)
        page.append(f"| {name} | {rate} | {ratio} | {report.spread([pair[key]['peak_mb'] for pair in pairs])} |")
    few, many = (statistics.median(peaks) for peaks in figures["peak_mb"].values())
    page += ["", f"{figures['shared']:,} recordings.", ""]
    counts = " and ".join(f"{int(count):,}" for count in figures["peak_mb"])
    more = f"{few:.0f} and {many:.0f} MB ({many / few - 1:+.1%})"
    page += [f"Peak memory of one worker at {counts} recordings: {more}.", ""]
    page += ["| step of one recording | us |", "|---|---|"]
    page += [f"| {name} | {value:.0f} |" for name, value in figures["parts_us"].items()]
    page.append("")
    if figures["large"]:
        large, cost = figures["large"], figures["of_large"]
        size = large * writers.CROP_BYTES / 1e6
        rate = f"{cost['seconds']:.0f} s, {size / cost['seconds']:.0f} MB/s, {cost['peak_mb']:.0f} MB"
        page += [f"{large:,} crops ({size / 1e3:.1f} GB), 2 workers: {rate} of memory in the largest process.", ""]
    rows = figures["rows"]
    return [*page, f"A view of {rows['rows']:,} rows opened: {rows['seconds']:.3f} s, {rows['peak_mb']:.0f} MB."]
