"""What runs have said of themselves as they trained, beside what chance would do."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from engine.config.common import sizes_of
from engine.folders.metrics import Lines
from engine.folders.runs import Run
from engine.reporting.markup import folded, paragraph, table, tag
from engine.reporting.plots import COLOURS, Series, Style, legend, plot

Points = list[tuple[float, float]]
Chance = Callable[[Run, Mapping[str, Any]], float | None]  # at a report


@dataclass(frozen=True)
class Panel:
    metric: str
    title: str
    chance: Chance | None = None
    from_zero: bool = False
    percent: bool = False


def _reported(metric: str) -> Chance:
    return lambda _, line: line.get(f"{metric}_chance")


def _one_of_all(loss: str) -> Chance:
    """A loss by chance is the logarithm of how many there are to choose from."""
    return lambda _, line: math.exp(-line[f"{loss}_chance"]) if line.get(f"{loss}_chance") is not None else None


def _all_codes(run: Run, _: Mapping[str, Any]) -> float | None:
    model = run.config["model"]
    try:
        sizes = sizes_of(model["size"], model["sizes"])
    except (KeyError, TypeError, ValueError):
        return None
    return float(sizes.codes * sizes.code_groups)


def _level(value: float) -> Chance:
    return lambda _, __: value


_PANELS = (
    Panel("loss", "Loss, all terms"),
    Panel("local", "Local loss", _reported("local")),
    Panel("global", "Global loss", _reported("global")),
    Panel("diversity", "Diversity loss", from_zero=True),
    Panel("feature_penalty", "Feature penalty", from_zero=True),
    Panel("local_accuracy", "Local accuracy", _one_of_all("local"), from_zero=True, percent=True),
    Panel("pair_retrieval", "Pair retrieval", _one_of_all("global"), from_zero=True, percent=True),
    Panel("accuracy", "Accuracy, people of the training data", from_zero=True, percent=True),
    Panel("score", "CinC score, validation (0: always normal)", _level(0.0), from_zero=True),
    Panel("rank1", "Rank-1, validation", from_zero=True, percent=True),
    Panel("rank5", "Rank-5, validation", from_zero=True, percent=True),
    Panel("equal_error_rate", "Equal error rate, validation", _level(0.5), from_zero=True, percent=True),
    Panel("code_perplexity", "Perplexity of the codes chosen", _all_codes, from_zero=True),
    Panel("probability_perplexity", "Perplexity of their probabilities", _all_codes, from_zero=True),
    Panel("segments_per_second", "Segments a second", from_zero=True),
    Panel("data_share", "Time spent waiting for data", from_zero=True, percent=True),
    Panel("mfu", "Model FLOPs utilisation", from_zero=True, percent=True),
    Panel("memory_gb", "Memory of the first rank, GB", from_zero=True),
    Panel("gradient_norm", "Norm of the gradient", from_zero=True),
    Panel("lr", "Learning rate", from_zero=True),
)
_STYLES: dict[str, Style] = {"by chance": "level", "training": "line", "validation": "points"}


def section(runs: Sequence[Run]) -> list[Element]:
    reported = [run for run in runs if run.metrics.train]
    if not reported:
        raise ValueError("no update has been reported yet")
    parts = [
        paragraph(
            "Lines: training, the mean since the report before. Discs: validation. Dotted: by chance; for codes, if"
            " all were in use alike. Where a line stands for many reports, a band goes from the lowest to the highest."
        )
    ]
    for kind in dict.fromkeys(run.kind for run in reported):
        parts += [tag("h3", kind.capitalize()), *_of_kind([run for run in reported if run.kind == kind])]
    return parts + [paragraph(line) for run in runs for line in _remarks(run)]


def _of_kind(runs: Sequence[Run]) -> Iterator[Element]:
    if len(runs) > 1:
        names: list[tuple[str, int | None]] = [(run.name, number) for number, run in enumerate(runs[:COLOURS])]
        if len(runs) > COLOURS:
            names.append((f"{len(runs) - COLOURS} more", None))
        yield legend(names)
    panels = [panel for panel in _PANELS if _worth_it(panel, runs)]
    yield tag("div", *(_plot(panel, runs) for panel in panels), class_="plots")
    yield folded("The same in numbers", _numbers(panels, runs))


def _worth_it(panel: Panel, runs: Sequence[Run]) -> bool:
    """A learning rate that stands still is a setting."""
    values = [y for run in runs for lines in run.metrics[:2] for _, y in _points(lines, panel.metric)]
    return bool(values) and (panel.metric != "lr" or min(values) < max(values))


def _points(lines: Lines, metric: str) -> Points:
    """null: it was no number."""
    return [(line["update"], line[metric]) for line in lines if line.get(metric) is not None]


def _by_chance(run: Run, panel: Panel) -> Points:
    if panel.chance is None:
        return []
    lines = [line for lines in run.metrics[:2] for line in lines if line.get(panel.metric) is not None]
    if run.metrics.train and panel.metric in run.metrics.train[-1]:
        lines = run.metrics.train  # validation may have another number of candidates
    found = [(line["update"], panel.chance(run, line)) for line in sorted(lines, key=lambda line: line["update"])]
    return [(update, value) for update, value in found if value is not None]


def _plot(panel: Panel, runs: Sequence[Run]) -> Element:
    series, said = [], []
    for number, run in enumerate(runs):
        prefix = f"{run.name}, " if len(runs) > 1 else ""
        colour = number if number < COLOURS else None
        train, valid = (_points(lines, panel.metric) for lines in run.metrics[:2])
        chance = _by_chance(run, panel)
        for name, points in {"by chance": chance, "training": train, "validation": valid}.items():
            if points:
                x, y = zip(*points, strict=True)
                series.append(Series(prefix + name, x, y, colour, _STYLES[name]))
        said.append(prefix + _told(train or valid, chance))
    told = "; ".join(said)
    return plot(panel.title, series, described=told, from_zero=panel.from_zero, percent=panel.percent)


def _told(points: Points, chance: Points) -> str:
    if not points:
        return "not reported"
    (first, begin), (last, end) = points[0], points[-1]
    by_chance = f", by chance {chance[-1][1]:.3g}" if chance else ""
    return f"from {begin:.3g} at update {first:,.0f} to {end:.3g} at update {last:,.0f}{by_chance}"


def _numbers(panels: Sequence[Panel], runs: Sequence[Run]) -> Element:
    several = len(runs) > 1
    head = [*(["run"] if several else []), "", "first", "last", "last validation", "by chance"]
    rows = [[*([run.name] if several else []), *_row(panel, run)] for panel in panels for run in runs]
    return table("First and last report, and last validation", head, rows, names=1 + several)


def _row(panel: Panel, run: Run) -> list[str]:
    train, valid = (_points(lines, panel.metric) for lines in run.metrics[:2])
    values = [points[at][1] if points else None for points, at in ((train, 0), (train, -1), (valid, -1))]
    chance = _by_chance(run, panel)
    values.append(chance[-1][1] if chance else None)
    return [panel.title, *("-" if value is None else spoken(value, panel.percent) for value in values)]


def spoken(value: float, percent: bool = False) -> str:
    return f"{value:.2%}".replace("%", " %") if percent else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _remarks(run: Run) -> Iterator[str]:
    if not run.metrics.train:
        yield f"{run.name} has not reported an update yet."
    elif skipped := run.metrics.train[-1].get("skipped"):
        yield f"{run.name}: {skipped:.0f} updates were skipped, for a loss or gradient that was no number."
    if run.metrics.unread:
        yield f"{run.name}: {run.metrics.unread} lines of metrics.jsonl cannot be read, as of a run that was killed."
