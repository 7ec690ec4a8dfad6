"""A result as a picture: a bar for each figure, a panel for each unit."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.result import Measure, Result

_BAR = 0.34  # inches


def draw(result: Result, path: Path) -> None:
    units = list(dict.fromkeys(measure.unit for measure in result.measures))
    of_unit = {unit: [measure for measure in result.measures if measure.unit == unit] for unit in units}
    heights = [len(of_unit[unit]) for unit in units]
    size = (8.0, 0.6 + _BAR * sum(heights) + 0.7 * len(units))
    figure, axes = plt.subplots(len(units), 1, figsize=size, height_ratios=heights, layout="constrained", squeeze=False)
    for axis, unit in zip(axes[:, 0], units, strict=True):
        _panel(axis, result, of_unit[unit])
        axis.set_xlabel("seconds" if unit == "s" else unit)
    figure.suptitle(f"{result.benchmark}, {result.slug}, {result.date}, commit {result.commit}", fontsize="medium")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _panel(axis: Axes, result: Result, measures: list[Measure]) -> None:
    medians = [measure.median for measure in measures]
    below = [measure.median - min(measure.repetitions) for measure in measures]
    above = [max(measure.repetitions) - measure.median for measure in measures]
    colors = ["C0" if measure.ours else "0.6" for measure in measures]
    names = [measure.name for measure in measures]
    axis.barh(names, medians, xerr=[below, above], color=colors, height=0.7, capsize=2, ecolor="0.3")
    for place, measure in enumerate(measures):
        shares = result.shares(measure)
        if shares:
            nearest = max(shares, key=lambda name: shares[name])
            axis.annotate(f" {shares[nearest]:.0%} of {nearest}", (0, place), va="center", fontsize="x-small")
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)
