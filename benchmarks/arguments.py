"""What most benchmarks are asked for in the same words."""

import argparse
from pathlib import Path

from benchmarks.processes import ROOT
from engine.methods import SYSTEMS
from engine.model.sizes import SIZES


def add_common(parser: argparse.ArgumentParser, quick: str) -> None:
    """`quick`: what is smaller then."""
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--scratch", type=Path, help="folder to work in (default: the system's temporary one)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")


def add_size(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", choices=SIZES, help="of the model (default: base; small with --quick)")


def add_system(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", default="w2v_cmsc_rlm", choices=[n for n in SYSTEMS if n != "random_init"])


def add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile", action="store_true", help="also where an update's time goes, with a trace for ui.perfetto.dev"
    )


def size(chosen: argparse.Namespace) -> str:
    return str(chosen.size or ("small" if chosen.quick else "base"))


def named(name: str, chosen: argparse.Namespace) -> str:
    """The name of the result: that of a quick run is not in the way of a whole one."""
    return f"{name}-quick" if chosen.quick else name


def command(words: str, chosen: argparse.Namespace) -> str:
    source = " --source ARCHIVE" if getattr(chosen, "source", None) else ""  # whose place is nobody's business
    return f"python -m benchmarks {words}{source}{' --quick' if chosen.quick else ''}"
