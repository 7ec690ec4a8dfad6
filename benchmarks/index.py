"""The list of results in README.md: made from their files, by every run, and by python -m benchmarks index."""

import argparse
import os
from pathlib import Path

from benchmarks.processes import ROOT
from benchmarks.result import Result, all_of
from benchmarks.wording import scaled

_BEGIN, _END = "<!-- results: written by `python -m benchmarks index` -->", "<!-- end of results -->"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks" / "README.md")


def run(chosen: argparse.Namespace) -> Path:
    return write(chosen.out, chosen.page)


def write(results: Path, page: Path) -> Path:
    """Between its two marks; raises ValueError where they are not there."""
    before, begin, rest = page.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{page} should hold the lines {_BEGIN} and {_END}")
    folder = os.path.relpath(results, page.parent)
    table = "\n".join(lines(all_of(results), folder))
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}")
    return page


def lines(results: list[Result], folder: str) -> list[str]:
    table = ["| result | hardware | commit | first figure | median (spread) | share of its nearest limit |"]
    table.append("|---|---|---|---|---|---|")
    for result in results:
        name = f"[{result.benchmark}, {result.date}]({folder}/{result.stem}.md)"
        table.append(f"| {name} | {result.slug} | {result.commit} | {' | '.join(_first(result))} |")
    return table


def _first(result: Result) -> list[str]:
    if not result.measures:
        return ["-", "-", "-"]
    measure = result.measures[0]
    shares = result.shares(measure)
    nearest = max(shares, key=lambda name: shares[name], default=None)
    share = f"{shares[nearest]:.1%} of the {nearest}" if nearest else "-"
    return [measure.name, scaled(measure.repetitions, measure.unit), share]
