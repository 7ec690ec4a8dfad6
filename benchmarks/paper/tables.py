"""From evaluations to the figures of a table, with the paper's beside them: arithmetic alone."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.paper.cells import Cells
from benchmarks.paper.grid import TABLES, Selection
from engine.config.finetuning import Task
from engine.scoring.intervals import mean_interval

Interval = tuple[float, float | None]  # mean, half width; one seed has none


@dataclass(frozen=True)
class Figure:
    """One place of a table."""

    row: str
    task: Task
    leads: int
    exists: bool  # in the paper's grid
    values: tuple[float, ...]  # of the seeds that are done
    seeds: int
    failed: int
    widths: tuple[float, ...]  # of each value's own interval, over the patients of the test set
    published: Interval | None

    @property
    def interval(self) -> Interval | None:
        return mean_interval(self.values) if self.values else None


@dataclass(frozen=True)
class Comparison:
    difference: float
    overlap: bool | None  # of the two intervals; None: one of them has none


def figures(number: int, selection: Selection, cells: Cells) -> list[Figure]:
    return [
        _figure(number, row, task, leads, selection.seeds, cells)
        for task in selection.tasks
        for row in selection.rows_of(number)
        for leads in selection.leads
    ]


def _figure(number: int, row: str, task: Task, leads: int, seeds: int, cells: Cells) -> Figure:
    table, values, widths, failed = TABLES[number], [], [], 0
    exists = table.has(row, leads)
    for seed in range(seeds if exists else 0):
        cell = table.cell(row, task, leads, seed)
        evaluation = cells.evaluation(cell)
        if evaluation is None:
            failed += cells.hopeless(cell)
            continue
        score = score_of(evaluation)
        if score["value"] is None:  # not defined on this test set
            failed += 1
            continue
        values.append(score["value"])
        if score["low"] is not None:
            widths.append(score["high"] - score["low"])
    published = _published()[number, row, task, leads]
    return Figure(row, task, leads, exists, tuple(values), seeds, failed, tuple(widths), published)


def score_of(evaluation: dict[str, Any]) -> dict[str, Any]:
    """What the paper reports: the CinC score of segments at the threshold 0.5, or rank-1 accuracy."""
    of_task = evaluation["segments"] if evaluation["task"] == "diagnosis" else evaluation
    score: dict[str, Any] = of_task["figures"]["score" if evaluation["task"] == "diagnosis" else "rank1"]
    return score


def compare(ours: Figure, base: Figure) -> Comparison | None:
    """None: one of them is not there."""
    if ours.interval is None or base.interval is None:
        return None
    (mean, half), (other, other_half) = ours.interval, base.interval
    overlap = None if half is None or other_half is None else abs(mean - other) <= half + other_half
    return Comparison(mean - other, overlap)


@cache
def _published() -> dict[tuple[int, str, str, int], Interval | None]:
    """published.csv: what the paper reports, mean and half width over three seeds."""
    found: dict[tuple[int, str, str, int], Interval | None] = {}
    with open(Path(__file__).with_name("published.csv")) as lines:
        for line in csv.DictReader(lines):
            table, row, task = int(line.pop("table")), line.pop("row"), line.pop("task")
            for leads, text in line.items():
                mean, _, half = text.partition(" ± ")
                found[table, row, task, int(leads)] = None if text == "-" else (float(mean), float(half))
    return found


def rows(found: Sequence[Figure], number: int) -> Iterator[list[Any]]:
    """Of the CSV."""
    yield ["table", "row", "task", "leads", "mean", "half_width", "seeds", "values", "paper_mean", "paper_half_width"]
    for figure in found:
        mean, half = figure.interval or (None, None)
        label, values = TABLES[number].rows[figure.row], " ".join(map(str, figure.values))
        of_paper = figure.published or (None, None)
        yield [number, label, figure.task, figure.leads, mean, half, len(figure.values), values, *of_paper]
