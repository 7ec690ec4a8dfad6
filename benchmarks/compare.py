"""Two results, two folders of them, or two worktrees in turns: ratios with their spread; exit code 1 on a real loss."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import result as results
from benchmarks import turns
from benchmarks.judging import Judgement, apart, drift
from benchmarks.result import Measure, Result
from engine.model.sizes import SIZES

_FLOOR = 0.05  # by so much two runs of the same code on the same machine may differ
_HEAD = ["| figure | speed, new : old | share of its limit | judgement |", "|---|---|---|---|"]


class Line(NamedTuple):
    name: str
    speed: Judgement
    share: Judgement | None
    judged: Judgement  # the one of the two that counts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="*", type=Path, metavar="OLD NEW", help="result files, or folders of them")
    parser.add_argument("--worktrees", nargs=2, type=Path, metavar=("A", "B"), help="measure both now, in turns")
    parser.add_argument("--turns", type=int, default=80, help="of each worktree: an update of benchmark `step`")
    parser.add_argument("--size", choices=SIZES, default="small", help="of the model in the worktrees")
    parser.add_argument("--pairs", type=int, default=2, help="of an update in the worktrees")


def run(chosen: argparse.Namespace) -> int:
    if chosen.worktrees:
        if chosen.results:
            raise ValueError("OLD NEW and --worktrees are two ways to compare: give one")
        return turns.compare(chosen.worktrees[0], chosen.worktrees[1], chosen.size, chosen.pairs, chosen.turns)
    if len(chosen.results) != 2:
        raise ValueError(f"compare takes two results, OLD and NEW, not {len(chosen.results)}; or --worktrees A B")
    old, new = (_read(path) for path in chosen.results)
    both = [(old[name], new[name]) for name in old if name in new]
    if not both:
        raise ValueError(f"{chosen.results[0]} and {chosen.results[1]} have no benchmark in common")
    lost = 0
    for before, after in both:
        lines = judge(before, after)
        lost += sum(line.judged.is_loss for line in lines)
        print("\n".join(page(before, after, lines)), flush=True)
    for path, more in ((chosen.results[0], old.keys() - new.keys()), (chosen.results[1], new.keys() - old.keys())):
        if more:
            print(f"only in {path}: {', '.join(sorted(more))}")
    print(f"{lost} losses" if lost != 1 else "1 loss")
    return int(lost > 0)


def _read(path: Path) -> dict[str, Result]:
    """By benchmark; of a folder the newest of each that has figures of speed. A file alone may have any name."""
    if not path.exists():
        raise ValueError(f"{path}: there is no such result")
    found = results.all_of(path) if path.is_dir() else [results.read(path)]
    return {one.benchmark: one for one in found if one.measures}


def judge(old: Result, new: Result) -> list[Line]:
    """Of our own figures that both have. Where a figure has a limit, its share counts: a slower machine is no loss, and
    on other hardware nothing else can be compared."""
    before = {(measure.name, measure.unit): measure for measure in old.measures if measure.ours}
    found = []
    for measure in new.measures:
        was = before.get((measure.name, measure.unit))
        if was is not None:
            found.append(_line(old, new, was, measure))
    return [line for line in found if line is not None]


def _line(old: Result, new: Result, was: Measure, now: Measure) -> Line | None:
    speed = apart(_speeds(was), _speeds(now), _FLOOR)
    limit = next((name for name in now.costs if name in was.costs and name in old.limits and name in new.limits), None)
    if limit is None:
        return Line(now.name, speed, None, speed) if old.slug == new.slug else None
    before, after = old.limits[limit], new.limits[limit]
    floor = max(_FLOOR, drift((before.readings, after.readings)))
    share = apart(_shares(was, limit, before.best), _shares(now, limit, after.best), floor)
    return Line(now.name, speed, share, share)


def _shares(measure: Measure, limit: str, best: float) -> list[float]:
    return [measure.rate_of(limit, value) / best for value in measure.repetitions]


def _speeds(measure: Measure) -> list[float]:
    return [1 / value for value in measure.repetitions] if measure.is_time else list(measure.repetitions)


def page(old: Result, new: Result, lines: Sequence[Line]) -> list[str]:
    about = [f"{one.commit}, {one.slug}, {one.date}" for one in (old, new)]
    table = [f"## {new.benchmark}: {about[0]} -> {about[1]}", "", *_HEAD]
    for line in lines:
        share = spoken(line.share) if line.share else "-"
        word = f"{line.judged.word} (floor {line.judged.floor:.0%})"
        table.append(f"| {line.name} | {spoken(line.speed)} | {share} | {word} |")
    return [*table, ""]


def spoken(judgement: Judgement) -> str:
    return f"{judgement.ratio:.3f} ({judgement.low:.3f} to {judgement.high:.3f})"
