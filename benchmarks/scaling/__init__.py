"""python -m benchmarks scaling: what is measured over ranks and dataset sizes, and a model of what is not at hand."""

import argparse
from pathlib import Path

from benchmarks.processes import ROOT

_RESULTS = ROOT / "benchmarks" / "results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", type=float, help="segments/s of one GPU, as `step` measures it (default: the goal)")
    parser.add_argument("--stage", type=int, default=1, choices=(0, 1, 2, 3), help="of ZeRO, in the predictions")
    parser.add_argument("--scratch", type=Path, help="folder to work in: 25 GB, quick 0.5 GB (default: the system's)")
    parser.add_argument("--quick", action="store_true", help="under two minutes: tiny updates, 2,000 crops at most")
    parser.add_argument("--out", type=Path, default=_RESULTS)


def run(arguments: argparse.Namespace) -> Path:
    """-> SCALING.md: in benchmarks/ if this is the whole benchmark and its results go there, else beside them."""
    from benchmarks.scaling import command  # torch and DeepSpeed are of no use to --help

    out: Path = arguments.out
    whole = out.resolve() == _RESULTS and not arguments.quick
    return command.run(arguments, _RESULTS.parent if whole else out)
