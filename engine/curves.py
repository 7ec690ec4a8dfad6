"""python -m engine.curves RUN: the losses of a run beside their chance levels, as RUN/curves.png and a table."""

import argparse
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from engine.reporting import metrics
from engine.reporting.metrics import Metrics

_PANELS = {
    "loss": ("local", "global"),
    "right answers": ("local_accuracy", "pair_retrieval"),
    "codes in use (perplexity)": ("code_perplexity", "probability_perplexity"),
    "segments a second": ("segments_per_second",),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m engine.curves", description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="the run.dir of a pre-training")
    run = parser.parse_args().run
    if not (run / "metrics.jsonl").is_file():
        sys.exit(f"error: {run} is no run: it has no metrics.jsonl")
    lines = metrics.read(run)
    if not lines.train:
        sys.exit(f"error: {run} has not reported an update yet")
    draw(lines, run / "curves.png")
    print("\n".join(table(lines)))
    print(f"drawn in {run / 'curves.png'}")


def draw(lines: Metrics, path: Path) -> None:
    figure, axes = plt.subplots(1, len(_PANELS), figsize=(4.5 * len(_PANELS), 4), layout="constrained")
    for axis, (title, names) in zip(axes, _PANELS.items(), strict=True):
        axis.set_title(title)
        axis.set_xlabel("update")
        for number, name in enumerate(names):
            _curve(axis, lines, name, f"C{number}")
        axis.set_ylim(bottom=0)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(loc="upper left", bbox_to_anchor=(0, -0.18), ncols=2, fontsize=8)  # below, over no curve
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _curve(axis: Axes, lines: Metrics, name: str, color: str) -> None:
    """Training as a line, validation as points, chance dotted."""
    label = name.replace("_", " ")
    for of, style, suffix in ((name, "-", ""), (f"{name}_chance", ":", ", by chance")):
        points = [(line["update"], line[of]) for line in lines.train if line.get(of) is not None]
        if points:
            axis.plot(*zip(*points, strict=True), style, color=color, label=label + suffix)
    points = [(line["update"], line[name]) for line in lines.valid if line.get(name) is not None]
    if points:
        axis.plot(*zip(*points, strict=True), "o", color=color, markersize=4, label=f"{label}, validation")


def table(lines: Metrics) -> list[str]:
    """The first and the last report, and the last validation."""
    first, last = lines.train[0], lines.train[-1]
    valid = lines.valid[-1] if lines.valid else {}
    rows = [f"{'':24}{'update':>8} {first['update']:<6}{'update':>8} {last['update']:<6}{'validation':>14}"]
    for name in (name for names in _PANELS.values() for name in names):
        if name in last:
            cells = [_cell(values, name) for values in (first, last, valid)]
            rows.append(f"{name.replace('_', ' '):24}" + "".join(f"{cell:>15}" for cell in cells))
    return rows


def _cell(values: dict[str, Any], name: str) -> str:
    if values.get(name) is None:
        return "-"
    chance = values.get(f"{name}_chance")
    return f"{values[name]:.4g}" + (f" ({chance:.3g})" if chance is not None else "")


if __name__ == "__main__":
    main()
