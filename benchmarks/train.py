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

from benchmarks import archives, machine, processes, report
from engine.hardware import datasheet_peak
from engine.model.flops import training_flops
from engine.model.sizes import SIZES

_RECORDINGS = 2000
_SKIPPED = 2  # updates at the start: memory is allocated, graphs are compiled


def run(size: str, system: str, pairs: int, updates: int, ranks: int, scratch: Path | None, out: Path) -> Path:
    """-> the page of results; `pairs` of one update, all in one pool."""
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
    return report.write(out, f"train-{size}", f"{command} --ranks {ranks}", figures, _lines(figures))


def _train(work: Path, size: str, system: str, pairs: int, updates: int, ranks: int) -> dict[str, Any]:
    """What the run says of each update, and of its checkpoint."""
    folder = work / f"run{ranks}"
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
    command = [*launcher, str(processes.ROOT / "engine" / "pretrain.py"), "--config", str(config)]
    command += [word for setting in given for word in ("--set", setting)]
    environment = os.environ | {"PATH": f"{launcher[0].rpartition('/')[0]}:{os.environ['PATH']}"}
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
