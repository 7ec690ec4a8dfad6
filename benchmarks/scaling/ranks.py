"""Runs the worker as several ranks of one run, or as neighbours that send nothing."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.processes import ROOT


class Cell(NamedTuple):
    """Whole updates of this kind."""

    size: str
    micro_batch: int  # pairs of one rank
    micro_steps: int
    updates: int  # that are timed
    stage: int = 1


def devices() -> int:
    """What there is to be a rank on: GPUs, or else cores."""
    return torch.cuda.device_count() or len(os.sched_getaffinity(0))


def measure(cells: Sequence[Cell], processes: int, together: bool, sizes: Sequence[int] = ()) -> list[dict[str, Any]]:
    """What each process has found. `together`: as ranks of one run, which also time collectives of so many bytes."""
    with tempfile.TemporaryDirectory() as folder:
        order = {
            "cells": [cell._asdict() for cell in cells],
            "bytes": list(sizes),
            "together": processes,
            "meet": f"{folder}/meet",
        }
        (Path(folder) / "order.json").write_text(json.dumps(order))
        ports = [_free_port() for _ in range(1 if together else processes)]
        started = [_start(Path(folder), place, processes, together, ports) for place in range(processes)]
        codes = [process.wait() for process in started]
        if any(codes):
            log = next((Path(folder) / f"{place}.log").read_text() for place, code in enumerate(codes) if code)
            raise RuntimeError(f"exit codes {codes} of the ranks; one says:\n{log}")
        return [json.loads((Path(folder) / f"{place}.json").read_text()) for place in range(processes)]


def _start(folder: Path, place: int, processes: int, together: bool, ports: list[int]) -> subprocess.Popen[bytes]:
    world = processes if together else 1
    given = {
        "RANK": place if together else 0,
        "WORLD_SIZE": world,
        "LOCAL_RANK": place,
        "LOCAL_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": ports[0 if together else place],
        "PLACE": place,
    }
    environment = os.environ | {name: str(value) for name, value in given.items()}
    command = [
        sys.executable,
        "-m",
        "benchmarks.scaling.worker",
        str(folder / "order.json"),
        str(folder / f"{place}.json"),
    ]
    with open(folder / f"{place}.log", "wb") as log:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
