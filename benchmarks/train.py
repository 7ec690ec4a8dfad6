"""`engine/pretrain.py` itself, at full size, data and telemetry and all: segments/s, and what the rest of it costs."""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import archives, arguments, engine_runs, machine, processes, profile_train, report
from benchmarks import profile as profiling
from benchmarks.limits import ALL_REDUCE, Gauge
from benchmarks.result import Measure
from engine import hardware
from engine.methods import SYSTEMS
from engine.model.flops import training_flops
from engine.model.sizes import SIZES

_RECORDINGS = 2000
_MATRIX = "bf16 matrix rate"
_CONFIG = "pretrain/w2v_cmsc_rlm"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_size(parser)
    arguments.add_system(parser)
    parser.add_argument("--pairs", type=int, default=8, help="of one update (a GPU: 512, the paper's)")
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=1, help="also with so many")
    arguments.add_profile(parser)
    arguments.add_common(parser, "size small")


def run(chosen: argparse.Namespace) -> Path:
    """-> the page of results; `pairs` of one update, all in one pool."""
    size, pairs, ranks = arguments.size(chosen), chosen.pairs, chosen.ranks
    device = hardware.device()
    shapes = machine.products(SIZES[size], 2 * pairs // ranks * SIZES[size].tokens(2500))
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as folder:
        work = Path(folder)
        archives.make(work / "raw", _RECORDINGS, None)
        processes.python("-m", "data_tools.shard", work / "raw", "--out", work / "set", "--views", "pretrain")
        gauge = Gauge((_MATRIX, *([ALL_REDUCE] if ranks > 1 else [])), device, work, shapes)
        gauge.read()
        runs = {"one rank": _train(work, chosen, 1)}
        if ranks > 1:
            runs[f"{ranks} ranks"] = _train(work, chosen, ranks)
        gauge.read()
        profiled = []
        for world in dict.fromkeys((1, ranks)) if chosen.profile else ():
            profiled += _profiled(work, chosen, world, gauge.limits[_MATRIX].best)
    figures: dict[str, Any] = {
        "size": size,
        "system": chosen.system,
        "pairs": pairs,
        "flops_per_segment": training_flops(SIZES[size], local=SYSTEMS[chosen.system].local),
        "matrix_rates": gauge.limits[_MATRIX].readings,
        "datasheet_peak": hardware.datasheet_peak(device),
        "runs": runs,
    }
    words = f"train --size {size} --system {chosen.system} --pairs {pairs} --updates {chosen.updates} --ranks {ranks}"
    command = arguments.command(words, chosen)
    name = arguments.named(f"train-{size}", chosen)
    page = [*lines(figures), *profiled]
    return report.write(chosen.out, name, command, figures, page, measures(figures), gauge.limits)


def measures(figures: dict[str, Any]) -> list[Measure]:
    costs = {_MATRIX: figures["flops_per_segment"]}
    return [Measure(name, "segments/s", engine_runs.speeds(run), costs) for name, run in figures["runs"].items()]


def _profiled(work: Path, chosen: argparse.Namespace, ranks: int, matrix_rate: float) -> list[str]:
    """Of the first rank, in a run of its own; not compiled, or the parts could not be told."""
    size = arguments.size(chosen)
    trace = chosen.out.resolve() / f"trace-train-{size}-{ranks}.json.gz"
    given = [*_settings(work, chosen, ranks), f"train.updates={profile_train.UPDATES}", "train.compile=false"]
    environment = {profile_train.TRACE: str(trace)}
    program = "benchmarks/profile_train.py"
    engine_runs.run(program, _CONFIG, work / f"run{ranks}-profiled", given, ranks, environment)
    segments, local = 2 * chosen.pairs // ranks, SYSTEMS[chosen.system].local
    table = profiling.lines(profiling.read(trace), SIZES[size], segments, matrix_rate / ranks, local)
    return ["", f"Ranks: {ranks}.", "", *table]


def _train(work: Path, chosen: argparse.Namespace, ranks: int) -> dict[str, Any]:
    """What the run says of each update, and of its checkpoint."""
    given = [*_settings(work, chosen, ranks), f"train.updates={chosen.updates}"]
    return engine_runs.run("engine/pretrain.py", _CONFIG, work / f"run{ranks}", given, ranks)


def _settings(work: Path, chosen: argparse.Namespace, ranks: int) -> list[str]:
    pairs = chosen.pairs
    given = [f"data.path={work / 'set'}", f"model.size={arguments.size(chosen)}", f"train.system={chosen.system}"]
    return [*given, f"train.batch={pairs}", f"train.contrast_pool={pairs}", f"train.micro_batch={pairs // ranks}"]


def lines(figures: dict[str, Any]) -> list[str]:
    flops, peak, best = figures["flops_per_segment"], figures["datasheet_peak"], max(figures["matrix_rates"])
    before, after = (f"{rate / 1e9:,.0f}" for rate in figures["matrix_rates"])
    page = [
        f"{figures['system']}, {figures['size']}, {figures['pairs']} pairs an update in one contrast pool, bf16,"
        f" ZeRO-1, dropout on; {flops / 1e9:.1f} GFLOP a segment. The machine's bf16 matrix rate before and after:"
        f" {before} and {after} GFLOP/s.",
        "",
        "| whole updates | segments/s | share of the matrix rate | of the datasheet | waiting for data | memory GB"
        " | checkpoint pause s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, run in figures["runs"].items():
        speeds = engine_runs.speeds(run)
        rate = statistics.median(speeds) * flops
        waits, memory = report.spread(engine_runs.waits(run), 2), engine_runs.memory(run)
        pauses = ", ".join(f"{pause:.2f}" for pause in run["checkpoint_pauses"])
        of_peak = f"{rate / peak:.1%}" if peak else "-"
        cells = [name, report.spread(speeds, 2), f"{rate / best:.1%}", of_peak, f"{waits} %", f"{memory:.1f}", pauses]
        page.append(f"| {' | '.join(cells)} |")
    return page
