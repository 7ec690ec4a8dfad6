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


# A process counts the memory of the one it was forked from as its own: so it is started from a small one.
_LAUNCHER = """
import os, sys
_, status, usage = os.wait4(os.spawnv(os.P_NOWAIT, sys.executable, sys.argv[1:]), 0)
print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
"""


def python(*arguments: str | Path) -> Cost:
    """Runs `python *arguments` from the repository's root, after the disk has caught up."""
    os.sync()
    command = [sys.executable, *map(str, arguments)]
    begin = time.perf_counter()
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    printed = subprocess.run(launcher, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    seconds = time.perf_counter() - begin
    code, cpu, peak = printed.splitlines()[-1].split()
    if code != "0":
        raise RuntimeError(f"{' '.join(command)}: exit code {code}")
    return Cost(seconds, float(cpu), int(peak) / 1024)


def output(*arguments: str | Path) -> str:
    """What `python *arguments` prints."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
