"""`engine/finetune.py` itself, both tasks, data and telemetry and all: segments/s of whole updates."""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import arguments, engine_runs, machine, processes, report
from benchmarks.limits import Gauge
from benchmarks.result import Measure
from engine import hardware
from engine.model.flops import training_flops
from engine.model.sizes import SIZES

_PATIENTS = 1200  # artificial ones: both tasks need labels, and people
_TASKS = ("diagnosis", "identification")
_MATRIX = "bf16 matrix rate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_size(parser)
    parser.add_argument("--segments", type=int, default=16, help="of one update (a GPU: 128, the paper's)")
    parser.add_argument("--updates", type=int, default=8)
    arguments.add_common(parser, "size small, 400 patients")


def run(chosen: argparse.Namespace) -> Path:
    """-> the page of results."""
    size, segments = arguments.size(chosen), chosen.segments
    device = hardware.device()
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as folder:
        work = Path(folder)
        _make_data(work, _PATIENTS // (3 if chosen.quick else 1))
        gauge = Gauge((_MATRIX,), device, work, machine.products(SIZES[size], segments * SIZES[size].tokens(2500)))
        gauge.read()
        runs = {task: _tune(work, task, size, segments, chosen.updates) for task in _TASKS}
        gauge.read()
    figures: dict[str, Any] = {
        "size": size,
        "segments": segments,
        "flops_per_segment": training_flops(SIZES[size], local=False),
        "datasheet_peak": hardware.datasheet_peak(device),
        "runs": runs,
    }
    words = f"finetune --size {size} --segments {segments} --updates {chosen.updates}"
    command = arguments.command(words, chosen)
    name = arguments.named(f"finetune-{size}", chosen)
    return report.write(chosen.out, name, command, figures, lines(figures), measures(figures), gauge.limits)


def measures(figures: dict[str, Any]) -> list[Measure]:
    costs = {_MATRIX: figures["flops_per_segment"]}
    return [Measure(task, "segments/s", engine_runs.speeds(run), costs) for task, run in figures["runs"].items()]


def _make_data(work: Path, patients: int) -> None:
    raw = work / "raw"
    processes.python("-m", "data_tools.synthesize", "--out", raw, "--patients", str(patients))
    metadata = ("--ptbxl-metadata", raw / "ptb-xl" / "ptbxl_database.csv")
    processes.python("-m", "data_tools.shard", raw / "challenge-2021", "--out", work / "set", *metadata)


def _tune(work: Path, task: str, size: str, segments: int, updates: int) -> dict[str, Any]:
    """From fresh weights: what it begins with does not change what it takes."""
    given = [f"data.path={work / 'set'}", "model.from=none", f"model.size={size}", f"train.batch={segments}"]
    given += [f"train.micro_batch={segments}", f"train.updates={updates}"]
    return engine_runs.run("engine/finetune.py", f"finetune/{task}", work / task, given)


def lines(figures: dict[str, Any]) -> list[str]:
    flops, peak = figures["flops_per_segment"], figures["datasheet_peak"]
    page = [
        f"{figures['size']}, {figures['segments']} segments an update, bf16, ZeRO-1, activation dropout on, nothing"
        f" frozen; {flops / 1e9:.1f} GFLOP a segment, the head not counted.",
        "",
        "| whole updates | segments/s | of the datasheet | waiting for data | memory GB |",
        "|---|---|---|---|---|",
    ]
    for task, run in figures["runs"].items():
        speeds = engine_runs.speeds(run)
        of_peak = f"{statistics.median(speeds) * flops / peak:.1%}" if peak else "-"
        waits = report.spread(engine_runs.waits(run), 2)
        page.append(f"| {task} | {report.spread(speeds, 2)} | {of_peak} | {waits} % | {engine_runs.memory(run):.1f} |")
    return page
