"""A benchmark's results with all that is needed to judge and repeat them: JSON for machines, Markdown for people."""

import os
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from benchmarks import index, limits, plots
from benchmarks.processes import ROOT
from benchmarks.result import Limit, Measure, Result
from benchmarks.wording import scaled

RESULTS = ROOT / "benchmarks" / "results"
_PACKAGES = (
    "deepspeed",
    "nvidia-dali-cuda130",
    "nvidia-dali-cuda120",
    "numpy",
    "pyarrow",
    "scipy",
    "torch",
    "transformers",
    "wfdb",
    "webdataset",
    "zarr",
)
_NOT_A_NAME = re.compile(r"\(r\)|\(tm\)|\bprocessor\b|\bcpu\b|@.*|\d+-core", re.IGNORECASE)


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def devices() -> list[str]:
    """The GPUs, by name."""
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def hardware() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpus = [f"{devices().count(name)} x {name}" for name in dict.fromkeys(devices())]
    return ", ".join([processor(), f"{os.cpu_count()} cores", f"{memory:.0f} GiB", *gpus])


def slug(processor: str, cores: int, gpus: Sequence[str]) -> str:
    """A short name of the hardware, for files: amd-epyc-2cpu, nvidia-h200, 8x-nvidia-h200."""
    name = gpus[0] if gpus else _NOT_A_NAME.sub(" ", processor)
    short = "-".join(re.findall(r"[a-z0-9]+", name.lower()))
    if gpus:
        return short if len(gpus) == 1 else f"{len(gpus)}x-{short}"
    return f"{short}-{cores}cpu"


def driver() -> str | None:
    """Of the GPUs, by nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0].strip()
    return None


def _versions() -> dict[str, str]:
    """Of the packages that are there: those of an extra may not be."""
    found = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def commit(of: Path = ROOT) -> str:
    """`+changes`: what was measured is not quite what that commit holds. `unknown`: a copy without its history."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=of, capture_output=True, text=True, check=True).stdout.strip()

    with suppress(OSError, subprocess.CalledProcessError):
        return git("rev-parse", "--short", "HEAD") + ("+changes" if git("status", "--porcelain", "--", "*.py") else "")
    return "unknown"


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median (least to most)."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def write(
    out: Path,
    name: str,
    command: str,
    figures: Mapping[str, Any],
    lines: Sequence[str],
    measures: Sequence[Measure] = (),
    limits: Mapping[str, Limit] | None = None,
) -> Path:
    """`out`/<name>-<hardware>-<date>.json, .md and .png; -> the Markdown page."""
    result = Result(
        benchmark=name,
        date=date.today().isoformat(),
        command=command,
        commit=commit(),
        slug=slug(processor(), os.cpu_count() or 1, devices()),
        hardware=hardware(),
        driver=driver(),
        python=platform.python_version(),
        versions=_versions(),
        limits=limits or {},
        measures=tuple(measures),
        figures=figures,
    )
    return keep(out, result, lines)


def keep(out: Path, result: Result, lines: Sequence[str]) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    stem = str(out / result.stem)  # a processor's name may hold a dot
    Path(f"{stem}.json").write_text(result.text())
    page = Path(f"{stem}.md")
    page.write_text("\n".join([*page_lines(result, lines), ""]))
    if result.measures:
        plots.draw(result, Path(f"{stem}.png"))
    if out.resolve() == RESULTS.resolve():
        index.write(RESULTS, ROOT / "benchmarks" / "README.md")
    return page


def page_lines(result: Result, lines: Sequence[str]) -> list[str]:
    about = [result.hardware, *([f"driver {result.driver}"] if result.driver else [])]
    head = f"{', '.join(about)}; commit {result.commit}; {result.date}"
    page = [f"# {result.benchmark}", "", head, "", f"`{result.command}`", "", *lines]
    if result.measures:
        page += ["", *_of_limits(result), "", f"![]({result.stem}.png)", "", limits.of_result(result)]
    return page


def _of_limits(result: Result) -> list[str]:
    """Every figure as a share of each limit, and the limits themselves, before and after."""
    names = [name for name in result.limits if any(name in measure.costs for measure in result.measures)]
    table = [f"| figure | median (spread) | {' | '.join(f'share of the {name}' for name in names)} |"]
    table.append("|---|---|" + "---|" * len(names))
    for measure in result.measures:
        shares = result.shares(measure)
        cells = [f"{shares[name]:.1%}" if name in shares else "-" for name in names]
        table.append(f"| {measure.name} | {scaled(measure.repetitions, measure.unit)} | {' | '.join(cells)} |")
    if result.limits:
        table += ["", "| limit of the machine | before, ..., after |", "|---|---|"]
    for name, limit in result.limits.items():
        table.append(f"| {name} | {', '.join(scaled([reading], limit.unit) for reading in limit.readings)} |")
    return table
