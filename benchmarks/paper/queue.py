"""The queue: a worker for each device, until every run of the grid is done. The state is in the folders of the runs:
whatever is killed, the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from benchmarks.paper.cells import Cells
from benchmarks.paper.grid import Cell
from benchmarks.paper.worker import Order
from benchmarks.processes import ROOT

Process = subprocess.Popen[bytes]

_LOOK = 0.5  # seconds
_REMIND = 2.0  # seconds: a signal can meet a worker that is just between two runs
# Several workers on one machine: threads that wait should not take the time of those that work.
_QUIET = {"OMP_WAIT_POLICY": "passive"}
_OF_LAUNCHERS = ("RANK", "LOCAL_RANK", "LOCAL_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_STEP_ID")


def devices() -> list[str]:
    """Names of the CUDA devices that may be used; none on a machine without."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not torch.cuda.is_available():
        return []
    return given.split(",") if given else [str(number) for number in range(torch.cuda.device_count())]


def work(order: Order, workers: int, finished: Callable[[Cell], None]) -> int:
    """-> the exit code: 0 if all runs are done, 1 if some are not, 128 and the signal that stopped it."""
    cells, listed = Cells(Path(order.out) / "cells"), order.selection.cells()
    left = [cell for cell in listed if not cells.done(cell)]
    running = {number: _start(order, number, workers) for number in range(workers if left else 0)}
    left_at = dict.fromkeys(running, len(left))  # when it began
    with _heard() as signals:
        while running:
            time.sleep(_LOOK)
            ended = {number: code for number, process in running.items() if (code := process.poll()) is not None}
            for cell in [cell for cell in left if cells.done(cell) or cells.failure(cell)]:
                left.remove(cell)
                finished(cell)
            for number, code in ended.items():
                del running[number]
                if code == 0 or signals:
                    continue
                print(f"worker {number} ended with exit code {code}: {_log(order, number)}", file=sys.stderr)
                if len(left) < left_at[number]:  # else another would end like it
                    running[number], left_at[number] = _start(order, number, workers), len(left)
            if signals:
                _pass_on(signals[0], running)
    if signals:
        return 128 + signals[0]
    return 0 if all(cells.done(cell) for cell in listed) else 1


def outputs(module: str, order: Order, workers: int) -> list[str]:
    """What so many processes print that run `module` at the same time, each as a worker would."""
    pipe = subprocess.PIPE
    processes = [_process(module, order, number, workers, pipe, pipe) for number in range(workers)]
    printed = []
    for process in processes:
        out, errors = process.communicate()
        if process.returncode:
            raise ValueError(f"{module}: {(errors.decode().strip() or 'no word').splitlines()[-1]}")
        printed.append(out.decode())
    return printed


def _start(order: Order, number: int, workers: int) -> Process:
    with open(_log(order, number), "ab") as log:
        return _process("benchmarks.paper.worker", order, number, workers, log, log)


def _process(module: str, order: Order, number: int, workers: int, out: Any, errors: Any) -> Process:
    names = devices()
    environment = {name: value for name, value in os.environ.items() if name not in _OF_LAUNCHERS}
    environment |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", **_QUIET}
    # Threads and memory of the host are shared by all.
    environment["LOCAL_WORLD_SIZE"] = str(workers)
    if names:
        environment["CUDA_VISIBLE_DEVICES"] = names[number % len(names)]
    return subprocess.Popen(
        [sys.executable, "-m", module, order.text()],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=errors,
        start_new_session=True,  # a Ctrl-C of the terminal reaches it once, by way of its parent
    )


def _log(order: Order, number: int) -> Path:
    return Path(order.out) / f"worker{number}.log"


@contextmanager
def _heard() -> Iterator[list[int]]:
    """The signals that have come."""
    heard: list[int] = []

    def hear(number: int, _: FrameType | None) -> None:
        heard.append(number)

    before = {one: signal.signal(one, hear) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield heard
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _pass_on(number: int, running: dict[int, Process]) -> None:
    """Until they have ended: one that has just begun or ended a run does not hear the first."""
    for process in running.values():
        process.send_signal(number)
    end = time.monotonic() + _REMIND
    while time.monotonic() < end and any(process.poll() is None for process in running.values()):
        time.sleep(0.1)
