"""A checkpoint of pre-training: pause, whole time, reading, restoring; beside a plain file of as many bytes."""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import arguments, processes, report
from benchmarks.limits import DISK_WRITE, MEMORY, PAGE_CACHE, Gauge
from benchmarks.result import Measure
from engine import hardware

_LIMIT_OF = {
    "pause (copy to the host)": MEMORY,
    "until it is whole on the disk": DISK_WRITE,
    "a plain file of as many bytes": DISK_WRITE,
    "read and verified": PAGE_CACHE,
    "restored into the engine": MEMORY,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_size(parser)
    parser.add_argument("--repeats", type=int, default=5)
    arguments.add_common(parser, "size small, 3 repeats")


def run(chosen: argparse.Namespace) -> Path:
    """-> the page of results."""
    size, repeats = arguments.size(chosen), 3 if chosen.quick else chosen.repeats
    device = hardware.device()
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as folder:
        gauge = Gauge((DISK_WRITE, PAGE_CACHE, MEMORY), device, Path(folder))
        gauge.read()
        printed = processes.output("-m", "benchmarks.checkpoint_runs", size, Path(folder) / "run", str(repeats))
        gauge.read()
    figures = {"size": size, "device": device.type, **json.loads(printed.splitlines()[-1])}
    command = arguments.command(f"checkpoint --size {size} --repeats {repeats}", chosen)
    name = arguments.named(f"checkpoint-{size}", chosen)
    return report.write(chosen.out, name, command, figures, lines(figures), measures(figures), gauge.limits)


def measures(figures: dict[str, Any]) -> list[Measure]:
    """Seconds; of the disk first, which is what a checkpoint is about."""
    found = []
    for name, seconds in figures["seconds"].items():
        costs = {_LIMIT_OF[name]: float(figures["bytes"])}
        found.append(Measure(name, "s", seconds, costs, ours="plain" not in name))
    return sorted(found, key=lambda measure: (measure.name != "until it is whole on the disk", not measure.ours))


def lines(figures: dict[str, Any]) -> list[str]:
    page = [
        f"{figures['size']}: {figures['parameters'] / 1e6:.1f} M parameters, float32 masters and both moments,"
        f" {figures['bytes'] / 1e6:,.0f} MB; DeepSpeed ZeRO-1, one rank. The pause is all that"
        " training waits for; the rest happens beside it. Reading is from the page cache, every sha256 included.",
        "",
        "| of one checkpoint | seconds | MB/s |",
        "|---|---|---|",
    ]
    for name, seconds in figures["seconds"].items():
        rate = report.spread([figures["bytes"] / second / 1e6 for second in seconds])
        page.append(f"| {name} | {report.spread(seconds, 3)} | {rate} |")
    return page
