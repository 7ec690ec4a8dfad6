"""A command as a whole process: its time and memory, by the operating system's own account."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Cost(NamedTuple):
    seconds: float
    cpu_seconds: float
    peak_mb: float  # of the largest single process


def python(*arguments: str | Path) -> Cost:
    """Runs `python *arguments` from the repository's root, after the disk has caught up."""
    os.sync()
    command = [sys.executable, *map(str, arguments)]
    begin = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def output(*arguments: str | Path) -> str:
    """What `python *arguments` prints."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
