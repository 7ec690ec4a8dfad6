"""From measured times to the parameters of the model, by least squares of relative errors, none below zero."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.scaling.model import Given, Parameters, Split, Update, Work, update
from benchmarks.scaling.ranks import Cell
from engine.learner import Learner
from engine.methods import SYSTEMS
from engine.model.flops import training_flops
from engine.model.sizes import SIZES

HERE = "measured here"


@dataclass(frozen=True)
class Device:
    """What the updates of one rank that is alone have shown."""

    segment_seconds: Mapping[str, float]  # by size
    micro_step_seconds: Mapping[str, float]
    update_seconds: float
    parameter_seconds: float


@dataclass(frozen=True)
class Link:
    bandwidth: float
    latency: float


def work_of(size: str, **given: int) -> Work:
    sizes = SIZES[size]
    learner = Learner(SYSTEMS["w2v_cmsc_rlm"], sizes)
    count = sum(p.numel() for p in learner.parameters() if p.requires_grad)
    return Work(count, sizes.dim, sizes.code_groups * sizes.codes, **given)


def device(measured: Sequence[tuple[Cell, float]]) -> Device:
    """T = update + parameters * each + micro-steps * (start + segments * each); start and segments by size."""
    names = list(dict.fromkeys(cell.size for cell, _ in measured))
    counts = {name: work_of(name).parameters for name in names}
    several = len(names) > 1  # one size cannot tell what each parameter takes
    rows = []
    for cell, _ in measured:
        row = np.zeros(2 * len(names) + 2)
        place = 2 * names.index(cell.size)
        row[place : place + 2] = cell.micro_steps * 2 * cell.micro_batch, cell.micro_steps
        row[-2:] = not several, counts[cell.size]
        rows.append(row)
    found = _solved(rows, [seconds for _, seconds in measured])
    of_sizes = found[:-2].reshape(-1, 2)
    return Device(
        {name: float(each) for name, each in zip(names, of_sizes[:, 0], strict=True)},
        {name: float(start) for name, start in zip(names, of_sizes[:, 1], strict=True)},
        float(found[-2]),
        float(found[-1]),
    )


def link(measured: Sequence[Mapping[str, Any]], ranks: int) -> Link:
    """From `collective`, `bytes` and `seconds`, as the worker reports them."""
    passes = [2 if one["collective"] == "all-reduce" else 1 for one in measured]
    steps = int(np.ceil(np.log2(ranks)))
    rows = [
        np.array([times * steps, times * (ranks - 1) / ranks * one["bytes"]])
        for times, one in zip(passes, measured, strict=True)
    ]
    latency, second_a_byte = _solved(rows, [statistics.median(one["seconds"]) for one in measured])
    return Link(1 / max(float(second_a_byte), 1e-15), float(latency))


def _solved(rows: Sequence[np.ndarray], seconds: Sequence[float]) -> np.ndarray:
    matrix = np.array(rows) / np.array(seconds)[:, None]
    scale = matrix.max(0)  # or a parameter a billion times smaller than another is lost
    scale[scale == 0] = 1
    solution: np.ndarray = nnls(matrix / scale, np.ones(len(seconds)))[0]
    found: np.ndarray = solution / scale
    return found


def fitted(p: Parameters, size: str, of: Device, to: Link | None) -> Parameters:
    """`p` with what was measured on this machine; a `size` that was not takes the rate of the largest."""
    each, start = of.segment_seconds, of.micro_step_seconds
    largest = max(each, key=lambda name: training_flops(SIZES[name]))
    if size in each:
        segment, from_ = each[size], HERE
    else:
        segment = each[largest] * training_flops(SIZES[size]) / training_flops(SIZES[largest])
        from_ = f"FLOPs of {size} at the rate of {largest}"
    p = replace(
        p,
        segment_seconds=Given(segment, from_),
        micro_step_seconds=Given(start.get(size, start[largest]), HERE),
        update_seconds=Given(of.update_seconds, HERE),
        parameter_seconds=Given(of.parameter_seconds, HERE),
    )
    if to is None:
        return p
    return replace(p, node_bandwidth=Given(to.bandwidth, HERE), node_latency=Given(to.latency, HERE))


def of_cell(p: Parameters, cell: Cell, ranks: int) -> Update:
    """What the model says of such an update: all ranks in one pool, which is a micro-step."""
    pool = cell.micro_batch * ranks
    work = work_of(cell.size, batch=pool * cell.micro_steps, pool=pool, stage=cell.stage)
    return update(p, work, ranks, of=Split(cell.micro_batch, cell.micro_steps, ranks))
