"""Score against lead set: a line for each system, a panel for each task."""

import os
from collections.abc import Sequence
from math import nan
from pathlib import Path

import matplotlib

matplotlib.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.paper.grid import FRESH, ROWS, Table
from benchmarks.paper.tables import Figure

_SCORES = {"diagnosis": "CinC score", "identification": "rank-1 accuracy"}
_MARKERS = "osD^vP<>Xh*pd8"
_ASIDE = 0.03  # of a lead set: error bars that stand on each other cannot be read


def draw(table: Table, found: Sequence[Figure], path: Path) -> None:
    tasks = list(dict.fromkeys(figure.task for figure in found))
    figure, axes = plt.subplots(1, len(tasks), figsize=(5.2 * len(tasks), 4.6), layout="constrained", squeeze=False)
    for axis, task in zip(axes[0], tasks, strict=True):
        _panel(axis, table, [one for one in found if one.task == task])
        axis.set_title(task)
        axis.set_ylabel(_SCORES[task])
    handles, labels = axes[0][0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(f"{table.title}: mean and 95 % interval over seeds", fontsize="medium")
    whole = path.with_suffix(".tmp.png")
    figure.savefig(whole, dpi=120)
    plt.close(figure)
    os.replace(whole, path)


def _panel(axis: Axes, table: Table, found: Sequence[Figure]) -> None:
    places = {leads: place for place, leads in enumerate(dict.fromkeys(one.leads for one in found))}
    rows = list(dict.fromkeys(one.row for one in found))
    for number, row in enumerate(rows):
        # A place that is not done is a gap of the line.
        intervals = [one.interval or (nan, None) for one in found if one.row == row]
        aside = _ASIDE * (number - (len(rows) - 1) / 2)
        color = "0.45" if row == FRESH else f"C{(ROWS.index(row) - 1) % 10}"
        axis.errorbar(
            [place + aside for place in places.values()],
            [mean for mean, _ in intervals],
            [half or 0.0 for _, half in intervals],
            label=table.rows[row],
            color=color,
            marker=_MARKERS[ROWS.index(row)],
            markersize=5,
            capsize=3,
            linewidth=1.5,
            linestyle="--" if row == FRESH else "-",
        )
    axis.set_xticks(list(places.values()), [f"{leads}" for leads in places])
    axis.set_xlim(-0.3, len(places) - 0.7)
    axis.set_xlabel("leads")
    axis.grid(axis="y", alpha=0.3)
