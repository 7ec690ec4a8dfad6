"""What the evaluations of runs say, beside the paper's figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from engine.reporting.markup import folded, paragraph, table, tag
from engine.reporting.plots import COLOURS, Series, legend, plot
from engine.reporting.rows import Evaluated
from engine.scoring.intervals import mean_interval
from engine.scoring.leads import LEAD_SETS
from engine.scoring.names import FIGURES, OF_CLASS, with_interval
from engine.scoring.published import Interval, decimals, score_of, spoken

_SCORES = {"diagnosis": "CinC score of segments at the threshold 0.5", "identification": "Rank-1 accuracy"}
_ASIDE = 0.04  # of a lead set: intervals that stand on each other cannot be read
_FEW = 6  # evaluations whose figures are not in the way


@dataclass(frozen=True)
class Place:
    """Of the table: the runs of one row and lead set, which differ in their seeds."""

    evaluations: Sequence[Evaluated]

    @property
    def values(self) -> list[float]:
        found = (score_of(one.figures)["value"] for one in self.evaluations)
        return [value for value in found if value is not None]

    @property
    def interval(self) -> Interval | None:
        return mean_interval(self.values) if self.values else None

    @property
    def published(self) -> tuple[int, Interval] | None:
        return self.evaluations[0].published()

    def ends(self) -> tuple[float, float] | None:
        """Over the seeds; of a single run, over the patients of its test set."""
        if self.interval is None:
            return None
        mean, half = self.interval
        if half is not None:
            return mean - half, mean + half
        score = next(score for one in self.evaluations if (score := score_of(one.figures))["value"] is not None)
        return None if score["low"] is None else (score["low"], score["high"])


Grid = dict[str, dict[str, Place]]  # by label, by lead set


def grid(evaluations: Sequence[Evaluated], task: str) -> Grid:
    """Of what was fine-tuned for this task and these leads."""
    found: dict[str, dict[str, list[Evaluated]]] = {}
    for one in evaluations:
        if one.task == task and one.in_table:
            found.setdefault(one.label, {}).setdefault(one.leads, []).append(one)
    return {label: {leads: Place(ones) for leads, ones in row.items()} for label, row in found.items()}


def section(evaluations: Sequence[Evaluated]) -> list[Element]:
    if not evaluations:
        raise ValueError(
            "no evaluation.json lies beside these runs; python -m engine.evaluate --model RUN ... --json"
            " RUN/evaluation.json writes one, and --compare names fine-tuned runs of a pre-training"
        )
    parts: list[Element] = []
    for task, score in _SCORES.items():
        of_task = [one for one in evaluations if one.task == task]
        if of_task:
            parts += [tag("h3", task.capitalize()), *_beside_the_paper(grid(of_task, task), score), _each(of_task)]
    return [*parts, *_by_class(evaluations)]


def _beside_the_paper(found: Grid, score: str) -> Iterator[Element]:
    if not found:
        return
    columns = lead_sets(found)
    seeds = {len(place.values) for row in found.values() for place in row.values()}
    rows: list[list[str]] = []
    for label, row in found.items():
        places = [row.get(leads) for leads in columns]
        rows.append([label, "here", *(_ours(place, several=len(seeds) > 1) for place in places)])
        theirs = [place.published if place else None for place in places]
        if any(theirs):
            rows.append(["", "paper", *(spoken(each[1]) if each else "-" for each in theirs)])
    yield table(f"{score}, by leads", ["pre-training", "", *columns], rows, names=2)
    numbers = sorted({each[0] for row in found.values() for place in row.values() if (each := place.published)})
    printed = f" Paper: as printed in its table {' and '.join(map(str, numbers))}, on its own data." if numbers else ""
    said = (
        "one run"
        if seeds == {1}
        else f"the mean of {max(seeds)} runs ± half the width of its 95 % interval (Student's t)"
    )
    yield paragraph(f"Here: {said}.{printed}")


def lead_sets(found: Grid) -> list[str]:
    """The paper's from twelve down, then others."""
    there = {leads for row in found.values() for leads in row}
    usual = [str(leads) for leads in LEAD_SETS if str(leads) in there]
    return usual + sorted(there - set(usual))


def _ours(place: Place | None, *, several: bool) -> str:
    if place is None or place.interval is None:
        return "-"
    return spoken(place.interval) + (f" (n = {len(place.values)})" if several else "")


def _each(evaluations: Sequence[Evaluated]) -> Element:
    """Every evaluation with its own intervals."""
    names = list(dict.fromkeys(name for one in evaluations for name in _figures(one)))
    rows = []
    for one in evaluations:
        figures = _figures(one)
        rows.append(
            [one.run.name + _remark(one), one.leads, *(with_interval(figures.get(name), decimals) for name in names)]
        )
    head = ["run", "leads", *(FIGURES.get(name, name) for name in names)]
    what = table("Each run, with its 95 % interval over the patients of the test set", head, rows, names=2)
    if len(evaluations) > _FEW:
        what = folded(f"Each of the {len(evaluations)} evaluations, with more figures", what)
    chance = {f"1 in {one.figures['gallery']:,}" for one in evaluations if one.task == "identification"}
    said = paragraph(f"Rank-1 by chance: {', '.join(sorted(chance))}.") if chance else None
    return tag("div", what, said)


def _figures(one: Evaluated) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = (one.figures["segments"] if one.task == "diagnosis" else one.figures)["figures"]
    return found


def _remark(one: Evaluated) -> str:
    if one.in_table:
        return ""
    trained = one.figures["model"].get("task")
    if trained != one.task:
        return f" (fine-tuned for {trained})" if trained else " (only pre-trained)"
    return " (trained with other leads)"


def _by_class(evaluations: Sequence[Evaluated]) -> Iterator[Element]:
    tables = [
        folded(
            f"{one.run.name}, leads {one.leads}",
            table("Segments, by class", ["class", "positives", *(FIGURES[name] for name in OF_CLASS)], _classes(one)),
        )
        for one in evaluations
        if one.task == "diagnosis"
    ]
    if tables:
        yield folded("Diagnosis by class", *tables)


def _classes(one: Evaluated) -> Iterator[list[str]]:
    for name, of in one.figures["segments"]["classes"].items():
        values = (of[figure] for figure in OF_CLASS)
        yield [name, f"{of['positives']:,}", *("-" if v is None else decimals(v) for v in values)]


def against_leads(evaluations: Sequence[Evaluated]) -> list[Element]:
    """A plot for each task: a line for each row, and the paper's dashed."""
    grids = {task: grid(evaluations, task) for task in _SCORES}
    drawn = {task: found for task, found in grids.items() if len(lead_sets(found)) > 1}
    if not drawn:
        raise ValueError("evaluations of fine-tuned runs with more than one lead set are needed (--compare)")
    labels = list(dict.fromkeys(label for found in drawn.values() for label in found))
    plots = [_against(task, found, labels) for task, found in drawn.items()]
    return [
        legend((label, number % COLOURS) for number, label in enumerate(labels)),
        paragraph(
            "Full lines: here, with 95 % intervals: over the seeds, or of a single run over the patients of its test"
            " set. Dashed: the paper's, on its own data."
        ),
        tag("div", *plots, class_="plots"),
    ]


def _against(task: str, found: Grid, labels: Sequence[str]) -> Element:
    columns = lead_sets(found)
    series, said = [], []
    for number, (label, row) in enumerate(found.items()):
        colour = labels.index(label) % COLOURS
        aside = _ASIDE * (number - (len(found) - 1) / 2)
        ours = [(at, place) for at, leads in enumerate(columns) if (place := row.get(leads)) and place.interval]
        theirs = [(at + aside, each[1][0]) for at, place in ours if (each := place.published)]
        if theirs:
            x, y = zip(*theirs, strict=True)
            series.append(Series(f"{label}, paper", x, y, colour, "paper"))
        if ours:
            means = [place.interval[0] for _, place in ours if place.interval]
            ends = [place.ends() or (mean, mean) for (_, place), mean in zip(ours, means, strict=True)]
            low, high = zip(*ends, strict=True)
            series.append(Series(label, [at + aside for at, _ in ours], means, colour, "intervals", low, high))
        said.append(f"{label}: " + ", ".join(f"lead set {columns[at]} {spoken(place.interval)}" for at, place in ours))
    title = f"{task.capitalize()}: {'CinC score' if task == 'diagnosis' else 'rank-1 accuracy'}"
    return plot(title, series, described="; ".join(said), x_label="leads", x_names=columns, from_zero=True)
