"""data_tools.shard beside the plain wfdb + webdataset loop that writes the same crops, interleaved in one run."""

import json
import shutil
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import archives, processes, report
from benchmarks.processes import Cost
from data_tools import crops, headers, records, writers
from data_tools.archive import find

_SHARD_MB = 32  # several shards even of a small archive, so that two workers have something to share
_PARTS_RECORDINGS = 500
_FEW, _MANY = 2_000, 20_000  # recordings: the memory of one against the other's
_SHARED = 40_000  # recordings for two workers to share
_ROWS = 10_000_000


def run(recordings: int, repeats: int, large: int, source: Path | None, scratch: Path | None, out: Path) -> Path:
    """-> the page of results; `large`: recordings of the one run for MB/s and memory."""
    figures: dict[str, Any] = {"recordings": recordings, "shard_mb": _SHARD_MB}
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        work = Path(folder)
        archives.make(work / "raw", recordings, source)
        figures["runs"] = [_beside_the_loop(work) for _ in range(repeats)]
        figures["parts_us"] = _parts(work)
        peaks: dict[str, list[float]] = {}
        for count in (_FEW, _MANY):
            _fresh_archive(work, count, source)
            peaks[str(count)] = [_ours(work, workers=1).peak_mb for _ in range(3)]
        figures["peak_mb"] = peaks
        _fresh_archive(work, _SHARED, source)
        figures["workers"] = [
            {name: _ours(work, count)._asdict() for name, count in (("one", 1), ("two", 2))} for _ in range(3)
        ]
        if large:
            _fresh_archive(work, large, source)
            figures["large"] = {"recordings": large, "costs": _ours(work, workers=2, shard_mb=256)._asdict()}
        figures["rows"] = _open_rows(work / "view")
    command = f"python -m benchmarks shard --recordings {recordings} --repeats {repeats} --large {large}"
    return report.write(out, "shard", command + (" --source ARCHIVE" if source else ""), figures, _lines(figures))


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


def _lines(figures: dict[str, Any]) -> list[str]:
    count, runs, pairs = figures["recordings"], figures["runs"], figures["workers"]
    lines = ["| one process each | recordings/s | against the loop | CPU s | peak MB |", "|---|---|---|---|---|"]
    for key, name in (("loop", "wfdb + ShardWriter, no checks"), ("ours", "data_tools.shard, all checks")):
        rate = report.spread([count / run[key]["seconds"] for run in runs])
        ratio = report.spread([run["loop"]["seconds"] / run[key]["seconds"] for run in runs], 1)
        cpu = report.spread([run[key]["cpu_seconds"] for run in runs], 1)
        peak = report.spread([run[key]["peak_mb"] for run in runs])
        lines.append(f"| {name} | {rate} | {ratio} | {cpu} | {peak} |")
    lines += ["", f"{count:,} recordings of 10 s, as many crops from both; whole processes, start-up included.", ""]
    lines += ["| workers | recordings/s | against one | peak MB of the largest process |", "|---|---|---|---|"]
    for key, name in (("one", "1"), ("two", "2")):
        rate = report.spread([_SHARED / pair[key]["seconds"] for pair in pairs])
        ratio = report.spread([pair["one"]["seconds"] / pair[key]["seconds"] for pair in pairs], 2)
        lines.append(f"| {name} | {rate} | {ratio} | {report.spread([pair[key]['peak_mb'] for pair in pairs])} |")
    few, many = (statistics.median(peaks) for peaks in figures["peak_mb"].values())
    lines += ["", f"{_SHARED:,} recordings.", ""]
    more = f"{few:.0f} and {many:.0f} MB ({many / few - 1:+.1%})"
    lines += [f"Peak memory of one worker at {_FEW:,} and {_MANY:,} recordings: {more}.", ""]
    lines += ["| step of one recording | us |", "|---|---|"]
    lines += [f"| {name} | {value:.0f} |" for name, value in figures["parts_us"].items()]
    lines.append("")
    if "large" in figures:
        large, cost = figures["large"]["recordings"], figures["large"]["costs"]
        size = large * writers.CROP_BYTES / 1e6
        rate = f"{cost['seconds']:.0f} s, {size / cost['seconds']:.0f} MB/s, {cost['peak_mb']:.0f} MB"
        lines += [f"{large:,} crops ({size / 1e3:.1f} GB), 2 workers: {rate} of memory in the largest process.", ""]
    rows = figures["rows"]
    return [*lines, f"A view of {rows['rows']:,} rows opened: {rows['seconds']:.3f} s, {rows['peak_mb']:.0f} MB."]
