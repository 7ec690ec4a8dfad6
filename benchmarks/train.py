"""`engine/pretrain.py` itself, at full size, data and telemetry and all: segments/s, and what the rest of it costs."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks import archives, machine, processes, profile_train, report
from benchmarks import profile as profiling
from engine.hardware import datasheet_peak
from engine.methods import SYSTEMS
from engine.model.flops import training_flops
from engine.model.sizes import SIZES

_RECORDINGS = 2000
_SKIPPED = 2  # updates at the start: memory is allocated, graphs are compiled


def run(
    size: str,
    system: str,
    pairs: int,
    updates: int,
    ranks: int,
    scratch: Path | None,
    out: Path,
    profile: bool = False,
) -> Path:
    """-> the page of results; `pairs` of one update, all in one pool. `profile`: also where the time of an update goes,
    in runs of their own, with a trace of each beside the page."""
    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    shapes = machine.products(SIZES[size], 2 * pairs // ranks * SIZES[size].tokens(2500))
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        work = Path(folder)
        archives.make(work / "raw", _RECORDINGS, None)
        processes.python("-m", "data_tools.shard", work / "raw", "--out", work / "set", "--views", "pretrain")
        rates = [machine.matrix_rate(shapes, torch.bfloat16, device)]
        runs = {"one rank": _train(work, size, system, pairs, updates, 1)}
        if ranks > 1:
            runs[f"{ranks} ranks"] = _train(work, size, system, pairs, updates, ranks)
        rates.append(machine.matrix_rate(shapes, torch.bfloat16, device))
        profiled = []
        for world in dict.fromkeys((1, ranks)) if profile else ():
            profiled += _profiled(work, size, system, pairs, world, max(rates), out)
    figures: dict[str, Any] = {
        "size": size,
        "system": system,
        "pairs": pairs,
        "flops_per_segment": training_flops(SIZES[size]),
        "matrix_rates": rates,
        "datasheet_peak": datasheet_peak(device),
        "runs": runs,
    }
    command = f"python -m benchmarks train --size {size} --system {system} --pairs {pairs} --updates {updates}"
    return report.write(out, f"train-{size}", f"{command} --ranks {ranks}", figures, [*_lines(figures), *profiled])


def _profiled(work: Path, size: str, system: str, pairs: int, ranks: int, matrix_rate: float, out: Path) -> list[str]:
    """Of the first rank; not compiled, or the parts could not be told."""
    trace = out.resolve() / f"trace-train-{size}-{ranks}.json.gz"
    _train(work, size, system, pairs, profile_train.UPDATES, ranks, trace)
    table = profiling.lines(
        profiling.read(trace), SIZES[size], 2 * pairs // ranks, matrix_rate / ranks, SYSTEMS[system].local
    )
    return ["", f"Ranks: {ranks}.", "", *table]


def _train(
    work: Path, size: str, system: str, pairs: int, updates: int, ranks: int, trace: Path | None = None
) -> dict[str, Any]:
    """What the run says of each update, and of its checkpoint. `trace`: under the profiler, which writes it there."""
    folder = work / f"run{ranks}{'-profiled' if trace else ''}"
    given = [f"data.path={work / 'set'}", f"run.dir={folder}", f"model.size={size}", f"train.system={system}"]
    given += [f"train.batch={pairs}", f"train.contrast_pool={pairs}", f"train.micro_batch={pairs // ranks}"]
    given += [
        f"train.updates={updates}",
        "run.log_every=1",
        "run.validate_every=1000000",
        "run.checkpoint_minutes=1000",
    ]
    launcher = [str(Path(sys.executable).parent / "deepspeed"), "--num_gpus", str(ranks)]
    config = processes.ROOT / "configs" / "pretrain" / "w2v_cmsc_rlm.yaml"
    program = processes.ROOT / ("benchmarks/profile_train.py" if trace else "engine/pretrain.py")
    given += ["train.compile=false"] if trace else []
    command = [*launcher, str(program), "--config", str(config)]
    command += [word for setting in given for word in ("--set", setting)]
    environment = os.environ | {"PATH": f"{launcher[0].rpartition('/')[0]}:{os.environ['PATH']}"}
    environment |= {profile_train.TRACE: str(trace)} if trace else {}
    printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    reported = [line for line in lines if line["kind"] == "train"][_SKIPPED:]
    pauses = [float(line.rpartition(" paused ")[2].split()[0]) for line in printed.splitlines() if " paused " in line]
    return {"updates": reported, "checkpoint_pauses": pauses}


def _lines(figures: dict[str, Any]) -> list[str]:
    flops, peak, best = figures["flops_per_segment"], figures["datasheet_peak"], max(figures["matrix_rates"])
    before, after = (f"{rate / 1e9:,.0f}" for rate in figures["matrix_rates"])
    lines = [
        f"{figures['system']}, {figures['size']}, {figures['pairs']} pairs an update in one contrast pool, bf16,"
        f" ZeRO-1, dropout on; {flops / 1e9:.1f} GFLOP a segment. The machine's bf16 matrix rate before and after:"
        f" {before} and {after} GFLOP/s.",
        "",
        "| whole updates | segments/s | share of the matrix rate | of the datasheet | waiting for data | memory GB"
        " | checkpoint pause s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, run in figures["runs"].items():
        speeds = [line["segments_per_second"] for line in run["updates"]]
        rate = statistics.median(speeds) * flops
        waits = report.spread([100 * line.get("data_share", 0.0) for line in run["updates"]], 2)
        memory = max(line["memory_gb"] for line in run["updates"])
        pauses = ", ".join(f"{pause:.2f}" for pause in run["checkpoint_pauses"])
        of_peak = f"{rate / peak:.1%}" if peak else "-"
        cells = [name, report.spread(speeds, 2), f"{rate / best:.1%}", of_peak, f"{waits} %", f"{memory:.1f}", pauses]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
