"""Measures this machine: python -m benchmarks NAME [--quick] [--out DIR]; benchmarks/README.md says what."""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

from benchmarks import believable, checkpoint, compare, finetune, index, loader, scaling, shard, step, track, train
from benchmarks.paper import command as paper
from benchmarks.processes import ROOT
from engine.model.sizes import SIZES


class Benchmark(Protocol):
    """A module; the first line of its text says what it measures."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, chosen: argparse.Namespace) -> Path:
        """-> what it wrote."""


# In the order of `all`.
SUITE: dict[str, Benchmark] = {
    "shard": shard,
    "loader": loader,
    "step": step,
    "train": train,
    "checkpoint": checkpoint,
    "finetune": finetune,
    "scaling": scaling,
}
_TOOLS: dict[str, Benchmark] = {"believable": believable, "index": index, "track": track}
_WITH_A_PAGE = (*SUITE, "believable")
_SIZED = ("step", "train", "checkpoint", "finetune")
_EPILOG = """examples:
  python -m benchmarks all --quick                                    minutes, the model at size small
  python -m benchmarks step --size base --pairs 8                     one of them, as large as the paper's model
  python -m benchmarks shard --large 94500 --source ARCHIVE           real recordings, the size of the paper's corpus
  python -m benchmarks compare --worktrees BEFORE AFTER               two commits in turns; exit code 1 on a loss
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="name", required=True)
    for name, module in (SUITE | _TOOLS).items():
        module.add_arguments(commands.add_parser(name, help=_first_line(module)))
    paper.add_arguments(commands.add_parser("paper", help="the paper's four tables, by a queue that can be resumed"))
    compare.add_arguments(commands.add_parser("compare", help=_first_line(compare)))
    _add_arguments_of_all(commands.add_parser("all", help=f"{', '.join(SUITE)}, one after the other"))
    chosen = parser.parse_args()
    try:
        code = _run(chosen)
    except (ValueError, OSError, subprocess.CalledProcessError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        code = 2
    sys.exit(code)


def _run(chosen: argparse.Namespace) -> int:
    if chosen.name == "paper":
        return paper.run(chosen)
    if chosen.name == "compare":
        return compare.run(chosen)
    if chosen.name == "all":
        return _all(chosen)
    written = (SUITE | _TOOLS)[chosen.name].run(chosen)
    print(written.read_text() if chosen.name in _WITH_A_PAGE else written)
    return 0


def _first_line(module: object) -> str:
    return (module.__doc__ or "").partition("\n")[0].replace("%", "%%")


def _add_arguments_of_all(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="each as quick as it can be: under 10 minutes on 2 cores")
    parser.add_argument("--size", choices=SIZES, help=f"of {', '.join(_SIZED)} (default: base; small with --quick)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")


def _all(chosen: argparse.Namespace) -> int:
    """Each in a process of its own, so that none has another's memory or threads; -> the exit code."""
    failed, begin = [], time.perf_counter()
    for name in SUITE:
        words = ["--out", str(chosen.out), *(["--quick"] if chosen.quick else [])]
        words += ["--size", chosen.size] if chosen.size and name in _SIZED else []
        since = time.perf_counter()
        code = subprocess.run([sys.executable, "-m", "benchmarks", name, *words], cwd=ROOT).returncode
        print(f"{name}: {time.perf_counter() - since:.0f} s\n", flush=True)
        if code:
            failed.append(name)
    print(f"all: {time.perf_counter() - begin:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    main()
