"""Whole updates of pre-training: forward, loss, backward, AdamW; beside `transformers`' wav2vec 2.0, interleaved."""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks import arguments, machine, positional, report
from benchmarks import profile as profiling
from benchmarks.limits import MATRIX, Gauge
from benchmarks.result import Measure
from engine import hardware
from engine.learner import Learner
from engine.methods import SPAN, SPANS, SYSTEMS
from engine.model.flops import training_flops
from engine.model.masking import time_mask
from engine.model.sizes import SIZES, Sizes

_SAMPLES = 2500
Update = Callable[[], None]
Maker = Callable[[int], Update]


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_size(parser)
    arguments.add_system(parser)
    parser.add_argument("--pairs", type=int, default=8, help="of one update (a GPU: 512, the paper's)")
    parser.add_argument("--updates", type=int, default=5)
    arguments.add_profile(parser)
    arguments.add_common(parser, "size small")


def run(chosen: argparse.Namespace) -> Path:
    """-> the page of results."""
    size, pairs = arguments.size(chosen), chosen.pairs
    device = hardware.device()
    shapes = machine.products(SIZES[size], 2 * pairs * SIZES[size].tokens(_SAMPLES))
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as folder:
        gauge = Gauge(tuple(MATRIX), device, Path(folder), shapes)
        gauge.read()
        figures = _figures(size, chosen.system, pairs, chosen.updates, device)
        gauge.read()
    figures["positional"] = positional.measure(SIZES[size], 2 * pairs, device)
    figures["matrix_rates"] = gauge.limits["bf16 matrix rate"].readings
    words = f"step --size {size} --system {chosen.system} --pairs {pairs} --updates {chosen.updates}"
    name, page = arguments.named(f"step-{size}", chosen), lines(figures)
    if chosen.profile:
        page += ["", *_profiled(figures, gauge.limits["bf16 matrix rate"].best, chosen.out, device)]
    return report.write(
        chosen.out, name, arguments.command(words, chosen), figures, page, measures(figures), gauge.limits
    )


def measures(figures: dict[str, Any]) -> list[Measure]:
    """Segments a second of each, in its own precision; the fastest of ours first."""
    found = []
    for name, seconds in figures["seconds"].items():
        matrix = "float32 matrix rate" if "float32" in name else "bf16 matrix rate"
        rates = [figures["segments"][name] / second for second in seconds]
        costs = {matrix: figures["flops_per_segment"]}
        found.append(Measure(name, "segments/s", rates, costs, name.startswith("Leadwise")))
    return sorted(found, key=lambda measure: (not measure.ours, -measure.median if measure.ours else 0.0))


def _figures(size: str, system: str, pairs: int, updates: int, device: torch.device) -> dict[str, Any]:
    candidates = _prepared(_candidates(SIZES[size], system, device), pairs, device)
    seconds = _interleaved({name: found.update for name, found in candidates.items()}, updates, device)
    return {
        "size": size,
        "system": system,
        "segments": {name: 2 * found.pairs for name, found in candidates.items()},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "flops_per_segment": training_flops(SIZES[size], local=SYSTEMS[system].local),
        "datasheet_peak": hardware.datasheet_peak(device),
        "seconds": seconds,
        "peak_bytes": {name: found.peak_bytes for name, found in candidates.items()},
    }


class Prepared(NamedTuple):
    update: Update
    pairs: int
    peak_bytes: int  # of its first update, on a GPU


def _prepared(makers: dict[str, Maker], pairs: int, device: torch.device) -> dict[str, Prepared]:
    """Each with the largest batch that fits, `pairs` or a power of two less; the first update is done."""
    prepared = {}
    for name, make in makers.items():
        fitting = pairs
        while fitting:
            try:
                if device.type == "cuda":
                    torch.cuda.empty_cache()
                    torch.cuda.reset_peak_memory_stats(device)
                update = make(fitting)
                update()
                machine.wait(device)
            except torch.OutOfMemoryError:
                fitting //= 2
                continue
            peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
            prepared[name] = Prepared(update, fitting, peak)
            break
    return prepared


def _candidates(sizes: Sizes, system: str, device: torch.device) -> dict[str, Maker]:
    """From pairs to an update."""
    found: dict[str, Maker] = {"Leadwise, bf16": partial(leadwise, sizes, system, device, False)}
    if device.type == "cuda":
        found["Leadwise, bf16, compiled"] = partial(leadwise, sizes, system, device, True)
    if find_spec("transformers"):
        for name, dtype in (("bf16", torch.bfloat16), ("float32, its default", torch.float32)):
            found[f"transformers, {name}"] = partial(_peer, sizes, device, dtype)
    return found


def _drawn(sizes: Sizes, pairs: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """-> a batch [pairs, 2, samples, leads], and where its time masks begin [segments, spans]."""
    lots = torch.rand(2 * pairs, sizes.tokens(_SAMPLES) - SPAN + 1)
    starts = lots.argsort(1)[:, :SPANS].to(device)  # without replacement
    return torch.randn(pairs, 2, _SAMPLES, sizes.leads, device=device), starts


def _profiled(figures: dict[str, Any], matrix_rate: float, out: Path, device: torch.device) -> list[str]:
    """Of eager updates: of a compiled one the parts cannot be told. The trace lies beside the page."""
    size, system, segments = figures["size"], figures["system"], figures["segments"]["Leadwise, bf16"]
    learner, update = _learner(SIZES[size], system, device, False, segments // 2)
    with profiling.watched(learner):
        found = profiling.profile(update, 2, out / f"trace-step-{size}.json.gz", device)
    return profiling.lines(found, SIZES[size], segments, matrix_rate, SYSTEMS[system].local)


def leadwise(sizes: Sizes, system: str, device: torch.device, compiled: bool, pairs: int) -> Update:
    return _learner(sizes, system, device, compiled, pairs)[1]


def _learner(sizes: Sizes, system: str, device: torch.device, compiled: bool, pairs: int) -> tuple[Learner, Update]:
    batch, starts = _drawn(sizes, pairs, device)
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
        with profiling.part("optimizer"):
            optimizer.step()
        warm = True

    return learner, update


def _peer(sizes: Sizes, device: torch.device, dtype: torch.dtype, pairs: int) -> Update:
    from benchmarks.peer import Peer, negatives  # transformers is an extra

    batch, starts = _drawn(sizes, pairs, device)
    model = Peer(sizes).to(batch.device, dtype).train()
    optimizer = Optimizer(model)
    mask = time_mask(starts, sizes.tokens(_SAMPLES))
    drawn = negatives(time_mask(starts.cpu(), sizes.tokens(_SAMPLES))).to(batch.device)

    def update() -> None:
        model(batch, mask, drawn).backward()
        optimizer.step()

    return update


def _interleaved(candidates: dict[str, Update], updates: int, device: torch.device) -> dict[str, list[float]]:
    """Seconds of each update of each, turn by turn; of others half as many."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
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


def lines(figures: dict[str, Any]) -> list[str]:
    flops, peak, best = figures["flops_per_segment"], figures["datasheet_peak"], max(figures["matrix_rates"])
    before, after = (f"{rate / 1e9:,.0f}" for rate in figures["matrix_rates"])
    page = [
        f"{figures['system']}, {figures['size']}, dropout on, {flops / 1e9:.1f} GFLOP a segment; forward, losses,"
        " backward and AdamW on a batch that stays, without loader, telemetry and DeepSpeed (benchmark `train` has"
        f" these). The machine's bf16 matrix rate before and after: {before} and {after} GFLOP/s.",
        "",
        "| updates | segments each | segments/s | share of the matrix rate | of the datasheet | GiB at most"
        " | seconds a segment, Leadwise = 1 |",
        "|---|---|---|---|---|---|---|",
    ]
    each = {name: statistics.median(s) / figures["segments"][name] for name, s in figures["seconds"].items()}
    fastest = min(second for name, second in each.items() if name.startswith("Leadwise"))
    for name, seconds in figures["seconds"].items():
        segments = figures["segments"][name]
        rate = flops / each[name]
        speed = report.spread([segments / second for second in seconds], 2)
        memory = f"{figures['peak_bytes'][name] / 2**30:.1f}" if figures["peak_bytes"][name] else "-"
        of_peak = f"{rate / peak:.1%}" if peak else "-"
        cells = [name, str(segments), speed, f"{rate / best:.1%}", of_peak, memory, f"{each[name] / fastest:.2f}"]
        page.append(f"| {' | '.join(cells)} |")
    page += ["", "| positional convolution | precision | ms, forward and backward | error |", "|---|---|---|---|"]
    for row in figures["positional"]:
        page.append(f"| {row['form']} | {row['precision']} | {row['seconds'] * 1e3:.0f} | {row['error']:.1e} |")
    return [*page, "", "Error: the largest relative one of output and both gradients, against direct float64."]
