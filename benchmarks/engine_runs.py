"""`engine/pretrain.py` and `engine/finetune.py` themselves, under the launcher, and what they say of each update."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import processes

SKIPPED = 2  # updates at the start: memory is allocated, graphs are compiled
_QUIET = ("run.log_every=1", "run.validate_every=1000000", "run.checkpoint_minutes=1000")


def run(
    program: str,
    config: str,
    folder: Path,
    given: Sequence[str],
    ranks: int = 1,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """`program` with configs/<config>.yaml and settings; -> its updates, and the pauses of checkpoints."""
    launcher = str(Path(sys.executable).parent / "deepspeed")
    command = [launcher, "--num_gpus", str(ranks), "--master_port", str(_free_port()), str(processes.ROOT / program)]
    command += ["--config", str(processes.ROOT / "configs" / f"{config}.yaml")]
    for setting in (*_QUIET, f"run.dir={folder}", *given):
        command += ["--set", setting]
    around = os.environ | {"PATH": f"{Path(launcher).parent}:{os.environ['PATH']}"} | dict(environment or {})
    printed = subprocess.run(command, env=around, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    reported = [line for line in lines if line["kind"] == "train"][SKIPPED:]
    pauses = [float(line.rpartition(" paused ")[2].split()[0]) for line in printed.splitlines() if " paused " in line]
    return {"updates": reported, "checkpoint_pauses": pauses}


def _free_port() -> int:
    """DeepSpeed's own choice is always the same, and another run may have it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def speeds(run: dict[str, Any]) -> list[float]:
    return [line["segments_per_second"] for line in run["updates"]]


def waits(run: dict[str, Any]) -> list[float]:
    """The part of each update in which nothing but data was waited for, in percent."""
    return [100 * line.get("data_share", 0.0) for line in run["updates"]]


def memory(run: dict[str, Any]) -> float:
    """GB, of the first rank."""
    return float(max(line["memory_gb"] for line in run["updates"]))
