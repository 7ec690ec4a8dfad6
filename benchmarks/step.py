"""Whole updates of pre-training: forward, loss, backward, AdamW; beside `transformers`' wav2vec 2.0, interleaved."""

import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import machine, positional, report
from engine.learner import Learner
from engine.methods import SYSTEMS
from engine.model.flops import training_flops
from engine.model.masking import SPAN, SPANS, time_mask
from engine.model.sizes import SIZES, Sizes

_SAMPLES = 2500
Update = Callable[[], None]


class Optimizer:
    """AdamW over float32 masters of bfloat16 parameters, as DeepSpeed keeps them; over float32 ones as they are."""

    def __init__(self, module: nn.Module) -> None:
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.masters = [p if p.dtype == torch.float32 else p.detach().float() for p in self.parameters]
        self.adamw = torch.optim.AdamW(
            self.masters, lr=5e-5, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01, fused=True
        )

    @torch.no_grad()
    def step(self) -> None:
        for master, parameter in zip(self.masters, self.parameters, strict=True):
            if master is not parameter and parameter.grad is not None:
                master.grad = parameter.grad.float()
                parameter.grad = None
        self.adamw.step()
        self.adamw.zero_grad()
        for master, parameter in zip(self.masters, self.parameters, strict=True):
            if master is not parameter:
                parameter.copy_(master)


def run(size: str, system: str, pairs: int, updates: int, out: Path) -> Path:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes, segments = SIZES[size], 2 * pairs
    shapes = machine.products(sizes, segments * sizes.tokens(_SAMPLES))
    candidates = _candidates(sizes, system, pairs, device)
    rates = [machine.matrix_rate(shapes, torch.bfloat16, device)]
    seconds = _interleaved(candidates, updates, device)
    rates.append(machine.matrix_rate(shapes, torch.bfloat16, device))
    figures: dict[str, Any] = {
        "size": size,
        "system": system,
        "segments": segments,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "flops_per_segment": training_flops(sizes),
        "matrix_rates": rates,
        "datasheet_peak": machine.datasheet_peak(device),
        "seconds": seconds,
        "positional": positional.measure(sizes, segments, device),
    }
    if device.type == "cuda":
        figures["peak_bytes"] = torch.cuda.max_memory_allocated(device)
    command = f"python -m benchmarks step --size {size} --system {system} --pairs {pairs} --updates {updates}"
    on = f"-{figures['device'].replace(' ', '-')}" if device.type == "cuda" else ""
    return report.write(out, f"step-{size}{on}", command, figures, _lines(figures))


def _candidates(sizes: Sizes, system: str, pairs: int, device: torch.device) -> dict[str, Update]:
    batch = torch.randn(pairs, 2, _SAMPLES, sizes.leads, device=device)
    lots = torch.rand(2 * pairs, sizes.tokens(_SAMPLES) - SPAN + 1)
    starts = lots.argsort(1)[:, :SPANS].to(device)  # without replacement
    found = {"Leadwise, bf16": _leadwise(sizes, system, batch, starts, compiled=False)}
    if device.type == "cuda":
        found["Leadwise, bf16, compiled"] = _leadwise(sizes, system, batch, starts, compiled=True)
    if find_spec("transformers"):
        for name, dtype in (("bf16", torch.bfloat16), ("float32, its default", torch.float32)):
            found[f"transformers, {name}"] = _peer(sizes, batch, starts, dtype)
    return found


def _leadwise(sizes: Sizes, system: str, batch: Tensor, starts: Tensor, compiled: bool) -> Update:
    learner = Learner(SYSTEMS[system], sizes).to(batch.device, torch.bfloat16)
    optimizer = Optimizer(learner)
    forward: Callable[..., Any] = torch.compile(learner, fullgraph=True) if compiled else learner
    identity = torch.arange(len(batch), device=batch.device)
    temperature = torch.tensor(2.0, device=batch.device)
    masks = starts if learner.system.time_mask else None
    warm = False

    def update() -> None:
        nonlocal warm
        if warm and batch.is_cuda:  # compilation may wait for the device, training may not
            torch.cuda.set_sync_debug_mode("error")
        forward(batch, identity, masks, temperature).total.backward()
        if batch.is_cuda:
            torch.cuda.set_sync_debug_mode("default")
        optimizer.step()
        warm = True

    return update


def _peer(sizes: Sizes, batch: Tensor, starts: Tensor, dtype: torch.dtype) -> Update:
    from benchmarks.peer import Peer, negatives  # transformers is an extra

    model = Peer(sizes).to(batch.device, dtype).train()
    optimizer = Optimizer(model)
    mask = time_mask(starts, sizes.tokens(_SAMPLES))
    drawn = negatives(time_mask(starts.cpu(), sizes.tokens(_SAMPLES))).to(batch.device)

    def update() -> None:
        model(batch, mask, drawn).backward()
        optimizer.step()

    return update


def _interleaved(candidates: dict[str, Update], updates: int, device: torch.device) -> dict[str, list[float]]:
    """Seconds of each update of each, turn by turn, after one that does not count; of others half as many."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for update in candidates.values():
        update()
    for number in range(updates):
        for name, update in candidates.items():
            if name.startswith("Leadwise") or number % 2 == 0:
                seconds[name].append(_time(update, device))
    return seconds


def _time(update: Update, device: torch.device) -> float:
    machine.wait(device)
    begin = time.perf_counter()
    update()
    machine.wait(device)
    return time.perf_counter() - begin


def _lines(figures: dict[str, Any]) -> list[str]:
    segments, flops, peak = figures["segments"], figures["flops_per_segment"], figures["datasheet_peak"]
    best = max(figures["matrix_rates"])
    before, after = (f"{rate / 1e9:,.0f}" for rate in figures["matrix_rates"])
    lines = [
        f"{figures['system']}, {figures['size']}, {segments} segments an update, dropout on, {flops / 1e9:.1f} GFLOP a "
        f"segment. The machine's bf16 matrix rate before and after: {before} and {after} GFLOP/s.",
        "",
        "| whole updates | segments/s | share of the matrix rate | of the datasheet | Leadwise against it |",
        "|---|---|---|---|---|",
    ]
    fastest = min(statistics.median(s) for name, s in figures["seconds"].items() if name.startswith("Leadwise"))
    for name, seconds in figures["seconds"].items():
        speeds = [segments / second for second in seconds]
        rate = statistics.median(speeds) * flops
        of_peak = f"{rate / peak:.1%}" if peak else "-"
        against = f"{statistics.median(seconds) / fastest:.2f}"
        lines.append(f"| {name} | {report.spread(speeds, 2)} | {rate / best:.1%} | {of_peak} | {against} |")
    if "peak_bytes" in figures:
        lines += ["", f"Peak memory: {figures['peak_bytes'] / 2**30:.1f} GiB."]
    lines += ["", "| positional convolution | precision | ms, forward and backward | error |", "|---|---|---|---|"]
    for row in figures["positional"]:
        lines.append(f"| {row['form']} | {row['precision']} | {row['seconds'] * 1e3:.0f} | {row['error']:.1e} |")
    return [*lines, "", "Error: the largest relative one of output and both gradients, against direct float64."]
