"""What a grid costs, before it is begun: runs, segments, and hours by a short measurement."""

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.paper import queue, sizes
from benchmarks.paper.cells import Cells
from benchmarks.paper.grid import TABLES, Cell, Pretrain
from benchmarks.paper.worker import Order
from engine.config.pretraining import PretrainConfig
from engine.data.dataset import open_dataset

_FORWARD = 3  # a forward alone costs a third of a training step


@dataclass(frozen=True)
class Cost:
    trained: int  # segments
    seen: int  # in validations and tests


def lines(order: Order, workers: int) -> Iterator[str]:
    listed, cells, size = order.selection.cells(), Cells(Path(order.out) / "cells"), sizes.read(order.size)
    for number in order.selection.tables:
        rows = ", ".join(TABLES[number].rows[row] for row in order.selection.rows_of(number))
        yield f"Table {number}, {TABLES[number].title}: {rows}"
    selection = order.selection
    yield f"x leads {', '.join(map(str, selection.leads))} x {', '.join(selection.tasks)} x {selection.seeds} seeds"
    yield ""
    found = _measured(order, workers)
    yield "| | runs | done | segments of training to go | of validation and test | hours of one worker |"
    yield "|---|---|---|---|---|---|"
    seconds = 0.0
    for kind in found:
        of_kind = [cell for cell in listed if isinstance(cell, Pretrain) == (kind == "pre-training")]
        left = [cell for cell in of_kind if not cells.done(cell)]
        costs = [_cost(cell, size, order) for cell in left]
        trained, seen = sum(cost.trained for cost in costs), sum(cost.seen for cost in costs)
        rate, setup = (statistics.mean(one[name] for one in found[kind]) for name in ("rate", "setup"))
        of_them = (trained + seen / _FORWARD) / rate + len(left) * setup
        seconds += of_them
        done = len(of_kind) - len(left)
        yield f"| {kind} | {len(of_kind)} | {done} | {trained:,} | {seen:,} | {of_them / 3600:.2f} |"
    yield ""
    yield f"To go: {seconds / workers / 3600:.2f} hours with {workers} workers, if no fine-tuning ends early."
    yield ""
    for kind, each in found.items():
        rates = " and ".join(f"{one['rate']:,.1f}" for one in each)
        yield (
            f"Measured here, {workers} at a time: {kind}, {each[0]['steps']} updates of {each[0]['samples']} samples:"
            f" {rates} segments/s, {statistics.mean(one['setup'] for one in each):.1f} s before the first."
        )
    yield f"Validation and test are taken at {_FORWARD} times that rate."


def _measured(order: Order, workers: int) -> dict[str, list[dict[str, Any]]]:
    """By kind, of each of so many processes at the same time."""
    found = [json.loads(text.splitlines()[-1]) for text in queue.outputs("benchmarks.paper.measure", order, workers)]
    return {kind: [one[kind] for one in found] for kind in found[0]}


def _cost(cell: Cell, size: sizes.Size, order: Order) -> Cost:
    config = sizes.config(cell, size, order.data, Path(order.out) / "cells")
    pairs = isinstance(config, PretrainConfig)
    if isinstance(config, PretrainConfig):
        view, valid, tests = "pretrain", "pretrain-valid", []
        samples = _samples(order.data, view, config.system.sample == "crop")
        of_valid = _samples(order.data, valid, config.system.sample == "crop")
    else:
        task = config.train.task
        view, valid = f"{task}-train", f"{task}-valid"
        tests = ["diagnosis-valid", "diagnosis-test"] if task == "diagnosis" else [f"{task}-gallery", f"{task}-probe"]
        samples, of_valid = _samples(order.data, view, False), _samples(order.data, valid, False)
    train, segments = config.train, 2 if pairs else 1
    epochs = -(-train.epochs * samples // train.batch)
    updates = min(epochs, train.updates or epochs)
    validations = -(-updates // (config.run.validate_every or -(-samples // train.batch)))
    tested = sum(_samples(order.data, test, False) for test in tests)
    return Cost(updates * train.batch * segments, validations * of_valid * segments + tested)


@cache
def _samples(data: tuple[str, ...], view: str, pairs: bool) -> int:
    """0 where a small dataset has nothing to spare for it."""
    try:
        return len(open_dataset(data, view, pairs=pairs))
    except ValueError:
        return 0
