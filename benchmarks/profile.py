"""Where the time of whole updates goes, by parts that add up to all of it, and a trace for https://ui.perfetto.dev.

Ranges are put around the parts from outside, by hooks: the model knows nothing of them. A forward operation belongs to
the innermost range around it; autograd numbers operations, and its backward belongs to the part of the same number.
On a GPU the time is the device's: of each kernel, by the operation that launched it.
"""

import gzip
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.profiler import ProfilerActivity, record_function
from torch.profiler import profile as torch_profile

from engine.learner import Learner
from engine.model.attention import Layer
from engine.model.flops import forward_flops
from engine.model.sizes import Sizes

Event = Mapping[str, Any]

UPDATE = "update"
_RANGE = "part: "  # in front of the names of our ranges
# Parts of a forward, and of its backward. "other" is what lies between them: masks, norms, dropout.
LAYERS = ("convolutions", "projection", "positional", "attention", "feed-forward", "other")
LOSSES = "quantizer, losses"
PARTS = ("data", *LAYERS, LOSSES, *(f"{part}, backward" for part in (*LAYERS, LOSSES)))
REST = ("backward, unattributed", "optimizer", "communication")


class Profile(NamedTuple):
    updates: int
    device: str  # whose time it is: cpu or cuda
    seconds: dict[str, float]  # of one update, by part; together the whole
    trace: Path


@contextmanager
def part(name: str) -> Iterator[None]:
    """A range of this name; without a profiler, nothing."""
    with record_function(_RANGE + name):
        yield


@contextmanager
def watched(learner: nn.Module) -> Iterator[None]:
    """Ranges around the parts of `learner`, while the with block runs."""
    open_ranges: list[Any] = []
    handles = []

    def begin(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            entered = record_function(_RANGE + name)
            entered.__enter__()
            open_ranges.append(entered)

        return hook

    def end(*_: Any) -> None:
        open_ranges.pop().__exit__(None, None, None)

    for name, first, last in _spans(learner):
        handles.append(first.register_forward_pre_hook(begin(name)))
        handles.append(last.register_forward_hook(end))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _spans(learner: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """Name, the module a part begins with, and the one it ends with."""
    assert isinstance(learner, Learner)
    encoder = learner.encoder
    yield LOSSES, learner, learner  # what is in no other part of it
    yield "other", encoder, encoder
    yield "convolutions", encoder.convolutions, encoder.convolutions
    yield "projection", encoder.feature_norm, encoder.projection
    yield "positional", encoder.positional, encoder.positional
    for layer in encoder.layers:
        assert isinstance(layer, Layer)
        yield "attention", layer.attention, layer.attention
        yield "feed-forward", layer.expand, layer.contract


def profile(update: Callable[[], None], updates: int, trace: Path, device: torch.device) -> Profile:
    """Of `updates` whole ones, after one that is left out. `trace`: a .json.gz."""
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    update()
    with torch_profile(activities=activities) as profiler:
        for _ in range(updates):
            with part(UPDATE):
                update()
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
    trace.parent.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(trace))
    return read(trace)


def read(trace: Path) -> Profile:
    """Of a trace with ranges of whole updates."""
    with gzip.open(trace, "rt") as file:
        events = json.load(file)["traceEvents"]
    seconds, device = parts(events)
    count = sum(_name(event) == UPDATE for event in events if event.get("cat") == "user_annotation")
    return Profile(count, device, {name: value / count for name, value in seconds.items()}, trace)


def parts(events: Sequence[Event]) -> tuple[dict[str, float], str]:
    """-> seconds of each part inside the updates, which add up to all of their time; whose time it is."""
    whole = [event for event in events if event.get("ph") == "X"]
    named = [event for event in whole if event.get("cat") == "user_annotation"]
    updates = [_span(event) for event in named if _name(event) == UPDATE]
    if not updates:
        raise ValueError("this trace has no ranges of whole updates")
    main = next(event["tid"] for event in named if _name(event) == UPDATE)
    operations = [event for event in whole if event.get("cat") == "cpu_op"]
    ranges = [event for event in named if _part(event) not in (None, UPDATE)]
    part_of = _of_operations(operations, ranges, main)
    kernels = [event for event in whole if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    if kernels:
        spans: list[Any] = [(*_span(kernel), *_of_kernel(kernel, part_of)) for kernel in kernels]
        spans += [(*_span(event), 0, "data") for event in ranges if _part(event) == "data"]
        return _swept(spans, updates, "idle"), "cuda"
    spans = [(*_span(event), *_of_cpu(event, part_of[_external(event)])) for event in _outermost(operations, main)]
    spans += [(*_span(event), 1, "communication") for event in whole if str(event["name"]).startswith("gloo:")]
    spans += [(*_span(event), 0, _part(event)) for event in ranges if _part(event) in ("data", "optimizer")]
    return _swept(spans, updates, "host"), "cpu"


def _name(event: Event) -> str:
    return str(event["name"]).removeprefix(_RANGE)


def _part(event: Event) -> str | None:
    """Of a range: ours, or one that torch puts around every optimizer."""
    name = str(event["name"])
    if name.startswith(_RANGE):
        return name.removeprefix(_RANGE)
    return "optimizer" if name.startswith("Optimizer.") else None


def _span(event: Event) -> tuple[float, float]:
    return float(event["ts"]), float(event["ts"]) + float(event["dur"])


def _external(event: Event) -> int:
    return int(event.get("args", {}).get("External id", -1))


def _of_operations(operations: Sequence[Event], ranges: Sequence[Event], main: Any) -> dict[int, str]:
    """The part of each operation, by its external id."""
    inside = _innermost(ranges)
    found: dict[int, str] = {}
    forward: dict[int, str] = {}
    backward = sorted((event for event in operations if "evaluate_function" in event["name"]), key=_span)
    for event in operations:
        if event["tid"] == main:
            name = inside(float(event["ts"]))
            found[_external(event)] = name or "host"
            number = event.get("args", {}).get("Sequence number")
            if number is not None and name in (*LAYERS, LOSSES) and not event["args"].get("Fwd thread id"):
                forward.setdefault(int(number), name)
    nodes: dict[Any, list[tuple[float, float, str]]] = {}
    for event in backward:
        number = event.get("args", {}).get("Sequence number")
        of = forward.get(int(number)) if number is not None else None
        name = f"{of}, backward" if of else "backward, unattributed"
        nodes.setdefault(event["tid"], []).append((*_span(event), name))
    for event in operations:  # whatever runs inside a node of the backward, on whatever thread
        spans = nodes.get(event["tid"])
        if spans:
            place = bisect_right(spans, float(event["ts"]), key=lambda span: span[0]) - 1
            if place >= 0 and spans[place][1] >= _span(event)[1]:
                found[_external(event)] = spans[place][2]
    return found


def _innermost(ranges: Sequence[Event]) -> Callable[[float], str | None]:
    """-> from a time to the part whose range begins last before it and has not ended. Ranges are nested."""
    marks: list[tuple[float, str | None]] = []
    stack: list[tuple[float, str | None]] = []
    for event in sorted(ranges, key=lambda event: (float(event["ts"]), -float(event["dur"]))):
        begin, end = _span(event)
        while stack and stack[-1][0] <= begin:
            marks.append((stack.pop()[0], stack[-1][1] if stack else None))
        stack.append((end, _part(event)))
        marks.append((begin, stack[-1][1]))
    while stack:
        marks.append((stack.pop()[0], stack[-1][1] if stack else None))
    times = [time for time, _ in marks]

    def at(time: float) -> str | None:
        place = bisect_right(times, time) - 1
        return marks[place][1] if place >= 0 else None

    return at


def _outermost(operations: Sequence[Event], main: Any) -> Iterator[Event]:
    """Those of the main thread that are in no other."""
    end = 0.0
    for event in sorted((e for e in operations if e["tid"] == main), key=lambda e: (float(e["ts"]), -float(e["dur"]))):
        if float(event["ts"]) >= end:
            end = _span(event)[1]
            yield event


def _of_cpu(event: Event, name: str) -> tuple[int, str]:
    return (2, "communication" if "c10d" in event["name"] else name)


def _of_kernel(kernel: Event, part_of: Mapping[int, str]) -> tuple[int, str]:
    """Work goes before communication, which goes before copies, where they overlap."""
    if "nccl" in str(kernel["name"]).lower():
        return 2, "communication"
    name = part_of.get(_external(kernel))
    return (1, "data") if name is None else (3, name)  # DALI's have no operation of torch's


def _swept(spans: Sequence[Any], updates: Sequence[tuple[float, float]], rest: str) -> dict[str, float]:
    """Every instant of the updates goes to the highest span over it, and to `rest` where there is none."""
    ends: list[tuple[float, int, int, str]] = []
    for begin, end, height, name in spans:
        for first, last in updates:
            if end > first and begin < last:
                ends += [(max(begin, first), 1, height, name), (min(end, last), -1, height, name)]
    for first, last in updates:
        ends += [(first, 1, -1, rest), (last, -1, -1, rest)]
    open_spans: Counter[tuple[int, str]] = Counter()
    seconds: dict[str, float] = {}
    before = 0.0
    for time, change, height, name in sorted(ends):
        if open_spans and time > before:
            highest = max(open_spans)[1]
            seconds[highest] = seconds.get(highest, 0.0) + (time - before) / 1e6
        before = time
        open_spans[height, name] += change
        if not open_spans[height, name]:
            del open_spans[height, name]
    return seconds


def part_flops(sizes: Sizes, local: bool = True) -> dict[str, float]:
    """Of one segment: forward parts, and their backward, which is twice as much."""
    given = forward_flops(sizes)
    of_attention = 4 * sizes.dim / (4 * sizes.dim + 2 * sizes.feedforward)
    forward = {name: given[name] for name in ("convolutions", "projection", "positional")}
    forward["attention"] = given["attention"] + of_attention * given["linears"]
    forward["feed-forward"] = (1 - of_attention) * given["linears"]
    forward[LOSSES] = given["local"] if local else 0.0
    return forward | {f"{name}, backward": 2 * flops for name, flops in forward.items()}


def lines(found: Profile, sizes: Sizes, segments: int, matrix_rate: float, local: bool = True) -> list[str]:
    """A table; `segments` of an update, of this rank."""
    flops = part_flops(sizes, local)
    whole = sum(found.seconds.values())
    table = [
        f"An update in parts, {found.updates} updates under the profiler, time of the {found.device}; trace:"
        f" `{found.trace.name}` (open it at https://ui.perfetto.dev).",
        "",
        "| part | ms | share | of the matrix rate |",
        "|---|---|---|---|",
    ]
    for name in [*PARTS, *REST, "host", "idle"]:
        seconds = found.seconds.get(name, 0.0)
        if seconds:
            rate = f"{flops[name] * segments / seconds / matrix_rate:.0%}" if flops.get(name) else "-"
            table.append(f"| {name} | {seconds * 1e3:,.1f} | {seconds / whole:.1%} | {rate} |")
    of_whole = sum(flops.values()) * segments / whole / matrix_rate
    return [*table, f"| whole update | {whole * 1e3:,.1f} | 100.0% | {of_whole:.0%} |"]
