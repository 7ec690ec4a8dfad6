"""From evaluations to the figures of a table, with the paper's beside them: arithmetic alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.paper.cells import Cells
from benchmarks.paper.grid import TABLES, Selection
from engine.config.finetuning import Task
from engine.scoring import published
from engine.scoring.intervals import mean_interval
from engine.scoring.published import Interval


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
        score = published.score_of(evaluation)
        if score["value"] is None:  # not defined on this test set
            failed += 1
            continue
        values.append(score["value"])
        if score["low"] is not None:
            widths.append(score["high"] - score["low"])
    of_paper = published.figures()[number, row, task, leads]
    return Figure(row, task, leads, exists, tuple(values), seeds, failed, tuple(widths), of_paper)


def compare(ours: Figure, base: Figure) -> Comparison | None:
    """None: one of them is not there."""
    if ours.interval is None or base.interval is None:
        return None
    (mean, half), (other, other_half) = ours.interval, base.interval
    overlap = None if half is None or other_half is None else abs(mean - other) <= half + other_half
    return Comparison(mean - other, overlap)


def rows(found: Sequence[Figure], number: int) -> Iterator[list[Any]]:
    """Of the CSV."""
    yield ["table", "row", "task", "leads", "mean", "half_width", "seeds", "values", "paper_mean", "paper_half_width"]
    for figure in found:
        mean, half = figure.interval or (None, None)
        label, values = TABLES[number].rows[figure.row], " ".join(map(str, figure.values))
        of_paper = figure.published or (None, None)
        yield [number, label, figure.task, figure.leads, mean, half, len(figure.values), values, *of_paper]
