"""A benchmark's results with all that is needed to judge and repeat them: JSON for machines, Markdown for people."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT

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


def hardware() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in cpuinfo.open() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB"


def _versions() -> dict[str, str]:
    """Of the packages that are there: those of an extra may not be."""
    found = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+changes" if git("status", "--porcelain", "--", "*.py") else "")


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median (least to most)."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def write(out: Path, name: str, command: str, figures: dict[str, Any], lines: Sequence[str]) -> Path:
    """`out`/<name>-<cores>-<date>.json and .md; -> the latter."""
    about = {
        "benchmark": name,
        "date": date.today().isoformat(),
        "command": command,
        "commit": commit(),
        "hardware": hardware(),
        "python": platform.python_version(),
        "versions": _versions(),
    }
    out.mkdir(parents=True, exist_ok=True)
    stem = out / f"{name}-{os.cpu_count()}cpu-{about['date']}"
    stem.with_suffix(".json").write_text(json.dumps(about | {"figures": figures}, indent=1) + "\n")
    head = [f"# {name}", "", f"{about['hardware']}; commit {about['commit']}; {about['date']}", "", f"`{command}`", ""]
    page = stem.with_suffix(".md")
    page.write_text("\n".join([*head, *lines, ""]))
    return page
