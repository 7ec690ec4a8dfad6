"""A run's folder: what it holds at the start, how it is gone on with, and how it ended.

RUN/
  config.yaml     every setting, defaults too
  status.json     running, finished, stopped or failed; why, and how far
  metrics.jsonl   a line each report and validation        tensorboard/
  checkpoints/    update-00000040/, ...
  model/          the weights of the end, to use elsewhere
  stop            make this file, and the run stops
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from engine import settings
from engine.config import Config
from engine.training import checkpoint
from engine.training.checkpoint import Checkpoint, write_json
from engine.training.loop import FINISHED, Pretraining
from engine.training.ranks import Ranks

STOPPED = 75  # exit code where nothing was wrong and there is more to do, but for signals: 128 and their number
# What a run may change when it goes on: where it runs, what it says, and how long.
_FREE = {
    *("data.path", "data.verify", "data.cache", "data.cache_gb", "data.threads", "data.prefetch", "model.from"),
    *("train.micro_batch", "train.epochs", "train.updates", "train.zero_stage", "train.offload", "train.compile"),
    *("train.max_bad_updates", "run.dir", "run.max_minutes", "run.log_every", "run.validate_every"),
    *("run.checkpoint_minutes", "run.keep_last", "run.keep_every", "log.to", "deepspeed"),
}


def pretrain(config: Config, resume: str | None, ranks: Ranks) -> int:
    """-> the exit code."""
    run = Path(config.run.dir)
    found = _found(run, resume, ranks)
    if found:
        _same_method(config, found)
    if ranks.first:
        run.mkdir(parents=True, exist_ok=True)
        (run / "config.yaml").write_text(yaml.safe_dump(settings.plain(config), sort_keys=False))
        write_json(run / "status.json", {"status": "running", "host": os.uname().nodename, "pid": os.getpid()})
    training = None
    try:
        training = Pretraining(config, ranks, run, found)
        reason = training.run()
    except BaseException as failure:
        if ranks.first:
            why = f"{type(failure).__name__}: {failure}"
            _report(run, {"status": "failed", "reason": why, "update": training.update if training else None})
        raise
    if ranks.first:
        status = "finished" if reason == FINISHED else "stopped"
        about = {"status": status, "reason": reason, "update": training.update, "updates": training.updates}
        _report(run, about)
        print(f"{status} at update {training.update} of {training.updates}: {reason}", flush=True)
    ranks.wait()
    if reason == FINISHED:
        return 0
    return 128 + signal.Signals[reason] if reason in signal.Signals.__members__ else STOPPED


def _report(run: Path, status: dict[str, Any]) -> None:
    with suppress(OSError):  # a full disk has been reported already
        write_json(run / "status.json", status)


def _found(run: Path, resume: str | None, ranks: Ranks) -> Checkpoint | None:
    folder = run / "checkpoints"
    if resume is None:
        if checkpoint.updates(folder):
            raise ValueError(f"run.dir = {run} holds a run: --resume auto goes on with it; else choose another folder")
        return None
    if resume == "auto":
        return checkpoint.latest(folder, lambda line: print(line, flush=True) if ranks.first else None)
    return checkpoint.read(Path(resume))


def _same_method(config: Config, found: Checkpoint) -> None:
    before, now = _flat(found.state["config"]), _flat(settings.plain(config))
    changed = [
        f"{key} = {now.get(key)} (was {before.get(key)})"
        for key in sorted(before | now)
        if before.get(key) != now.get(key) and key not in _FREE and not key.startswith("deepspeed.")
    ]
    if changed:
        raise ValueError(f"{found.folder} was trained with other settings: {'; '.join(changed)}")


def _flat(values: dict[str, Any], where: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{where}{key}.")
        else:
            flat[f"{where}{key}"] = value
    return flat
