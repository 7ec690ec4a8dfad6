"""DIR/tables/table<k>.md, .csv and .png."""

import csv
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from benchmarks.paper import plot, tables
from benchmarks.paper.cells import Cells
from benchmarks.paper.grid import TABLES, Selection, Table
from benchmarks.paper.tables import Figure
from engine.scoring.published import decimals, spoken

_SCORES = {
    "diagnosis": "Diagnosis: CinC score of segments at the threshold 0.5",
    "identification": "Identification: rank-1 accuracy",
}


def write(out: Path, selection: Selection) -> list[Path]:
    """Of each table, as far as it is done; -> the pages."""
    folder, cells = out / "tables", Cells(out / "cells")
    about = json.loads((out / "paper.json").read_text())
    folder.mkdir(exist_ok=True)
    return [_table(folder / f"table{number}", number, selection, cells, about) for number in selection.tables]


def _table(stem: Path, number: int, selection: Selection, cells: Cells, about: dict[str, Any]) -> Path:
    found = tables.figures(number, selection, cells)
    with open(stem.with_suffix(".csv.tmp"), "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(tables.rows(found, number))
    os.replace(stem.with_suffix(".csv.tmp"), stem.with_suffix(".csv"))
    lines = [
        f"# Table {number}: {TABLES[number].title}",
        "",
        *_about(about),
        "",
        *_body(TABLES[number], selection, found),
        f"![score against lead set]({stem.name}.png)",
        "",
    ]
    page = stem.with_suffix(".md")
    page.with_suffix(".md.tmp").write_text("\n".join(lines))
    os.replace(page.with_suffix(".md.tmp"), page)
    plot.draw(TABLES[number], found, stem.with_suffix(".png"))
    return page


def _about(about: dict[str, Any]) -> Iterator[str]:
    starts = about["starts"]
    for name in ("hardware", "commit", "command"):
        values = list(dict.fromkeys(start[name] for start in starts))
        yield f"- {name}: " + "; ".join(f"`{value}`" if name == "command" else value for value in values)
    yield f"- size: {about['size']}"
    for folder in about["data"]:
        known = f"{folder['records']:,} recordings, {folder['patients']:,} patients whose name is known"
        used = ", ".join(folder["views"])
        yield f"- data: {folder['path']}, {known}; dataset.json sha256 {folder['sha256'][:16]}; views {used}"


def _body(table: Table, selection: Selection, found: Sequence[Figure]) -> Iterator[str]:
    yield _what_stands_here(selection.seeds)
    for task in selection.tasks:
        of_task = [figure for figure in found if figure.task == task]
        yield from ["", f"## {_SCORES[task]}", "", *_scores(table, selection, of_task), ""]
        widths = [width for figure in of_task for width in figure.widths]
        if widths:
            yield (
                f"One model's own 95 % interval over the patients of the test set (bootstrap) is"
                f" {decimals(min(widths))} to {decimals(max(widths))} wide."
            )
            yield ""
        yield from [*_differences(table, selection, of_task), ""]


def _what_stands_here(seeds: int) -> str:
    interval = (
        f" ± half the width of its 95 % interval, Student's t with n - 1 = {seeds - 1} degrees of freedom"
        f" (t = {stdtrit(seeds - 1, 0.975):.3f})"
        if seeds > 1
        else " which has no interval"
    )
    return (
        f"`here`: the mean over n = {seeds} seeds, each of pre-training and of fine-tuning,{interval}. Where fewer are"
        " done it says so, and n is theirs. `paper`: as printed there, three seeds, on its own data."
    )


def _scores(table: Table, selection: Selection, found: Sequence[Figure]) -> Iterator[str]:
    yield from _head(["pre-training", ""], selection)
    for row in dict.fromkeys(figure.row for figure in found):
        of_row = [figure for figure in found if figure.row == row]
        yield f"| {table.rows[row]} | here | {' | '.join(map(_ours, of_row))} |"
        yield f"| | paper | {' | '.join(spoken(figure.published) for figure in of_row)} |"


def _differences(table: Table, selection: Selection, found: Sequence[Figure]) -> Iterator[str]:
    """Each row beside what it is to be better than."""
    at = {(figure.row, figure.leads): figure for figure in found}
    here = dict.fromkeys(figure.row for figure in found)
    pairs = [(row, base) for row in here for base in table.against.get(row, ()) if base in here]
    if not pairs:
        return
    yield "Differences: **bold** where the two intervals do not overlap, `none` where they do."
    yield ""
    yield from _head(["pre-training", "against"], selection)
    for row, base in pairs:
        said = [_difference(at[row, leads], at[base, leads]) for leads in selection.leads]
        yield f"| {table.rows[row]} | {table.rows[base]} | {' | '.join(said)} |"


def _head(names: Sequence[str], selection: Selection) -> Iterator[str]:
    columns = [*names, *(f"{leads} lead{'s' if leads > 1 else ''}" for leads in selection.leads)]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"


def _ours(figure: Figure) -> str:
    if not figure.exists:
        return "-"
    if not figure.values:
        return "failed" if figure.failed else "not done"
    said = spoken(figure.interval)
    return said if len(figure.values) == figure.seeds else f"{said} ({len(figure.values)} of {figure.seeds} seeds)"


def _difference(ours: Figure, base: Figure) -> str:
    if not ours.exists or not base.exists:
        return "-"
    found = tables.compare(ours, base)
    if found is None:
        return "not done"
    signed = f"{'+' if found.difference >= 0 else ''}{decimals(found.difference)}"
    if found.overlap is None:
        return f"{signed}, no interval"
    return f"none ({signed})" if found.overlap else f"**{signed}**"
