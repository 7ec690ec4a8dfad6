"""Samples a second over commits: every result that was ever committed, and those of the folder, as a plot."""

import argparse
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.processes import ROOT
from benchmarks.result import Result, all_of, parse


class Point(NamedTuple):
    commit: str
    at: datetime
    series: str  # benchmark and hardware
    name: str  # of the figure
    unit: str
    median: float
    low: float
    high: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "track.png")


def run(chosen: argparse.Namespace) -> Path:
    found = [*_committed(chosen.results), *all_of(chosen.results)]
    drawn = points(found, _times({one.commit for one in found}))
    if not drawn:
        raise ValueError(f"{chosen.results} has no result with a figure of speed")
    draw(drawn, chosen.out)
    return Path(chosen.out)


def points(found: Sequence[Result], times: dict[str, datetime]) -> list[Point]:
    """Of the first figure of each result, which is the one it is about; each commit's newest, by time."""
    newest: dict[tuple[str, str, str], Point] = {}
    for result in found:
        if not result.measures:
            continue
        measure, series = result.measures[0], f"{result.benchmark}, {result.slug}"
        at = times.get(result.commit, datetime.fromisoformat(result.date).replace(tzinfo=UTC))
        low, high = min(measure.repetitions), max(measure.repetitions)
        point = Point(result.commit, at, series, measure.name, measure.unit, measure.median, low, high)
        newest[result.commit, series, measure.name] = point
    return sorted(newest.values(), key=lambda point: (point.series, point.at))


def draw(drawn: Sequence[Point], path: Path) -> None:
    series = list(dict.fromkeys(point.series for point in drawn))
    rows = -(-len(series) // 2)
    figure, axes = plt.subplots(rows, 2, figsize=(11, 2.4 * rows), layout="constrained", squeeze=False)
    for axis, name in zip(axes.flat, series, strict=False):
        _panel(axis, [point for point in drawn if point.series == name])
        axis.set_title(name, fontsize="small")
    for axis in axes.flat[len(series) :]:
        axis.set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _panel(axis: Axes, drawn: Sequence[Point]) -> None:
    commits = list(dict.fromkeys(point.commit for point in drawn))
    for name in dict.fromkeys(point.name for point in drawn):
        line = [point for point in drawn if point.name == name]
        errors = [[p.median - p.low for p in line], [p.high - p.median for p in line]]
        places = [commits.index(point.commit) for point in line]
        axis.errorbar(places, [p.median for p in line], errors, marker="o", capsize=3, label=name)
    axis.set_xticks(range(len(commits)), commits, fontsize="x-small", rotation=20)
    axis.set_ylabel("seconds" if drawn[0].unit == "s" else drawn[0].unit, fontsize="small")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize="x-small", frameon=False)
    axis.grid(alpha=0.3)


def _committed(folder: Path) -> Iterator[Result]:
    """Oldest first; those of the format that came before are passed over."""
    if not folder.resolve().is_relative_to(ROOT):
        return
    place = str(folder.resolve().relative_to(ROOT))
    for commit in _git("log", "--reverse", "--format=%h", "--", place).split():
        for name in _git("ls-tree", "-r", "--name-only", commit, "--", f"{place}/").splitlines():
            if name.endswith(".json"):
                try:
                    yield parse(_git("show", f"{commit}:{name}"), f"{commit}:{name}")
                except ValueError:
                    continue


def _times(commits: set[str]) -> dict[str, datetime]:
    found = {}
    for commit in commits:
        said = _git("show", "-s", "--format=%ct", commit.removesuffix("+changes"))
        if said.strip().isdigit():
            found[commit] = datetime.fromtimestamp(int(said), UTC)
    return found


def _git(*arguments: str) -> str:
    """What it says; nothing where it knows of nothing."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout
