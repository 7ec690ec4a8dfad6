"""How fast one worker of a grid trains: a few updates of pre-training and of fine-tuning, in a process of its own.

Started by benchmarks.paper.plan; prints what it finds as JSON on its last line."""

import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.paper import sizes
from benchmarks.paper.grid import Cell, Finetune, Pretrain
from benchmarks.paper.worker import Order, obey_parent
from engine.config.finetuning import FinetuneConfig
from engine.config.pretraining import PretrainConfig
from engine.training import ranks
from engine.training.finetuning import Finetuning
from engine.training.job import Job
from engine.training.loop import Training
from engine.training.pretraining import Pretraining
from engine.training.ranks import Ranks
from engine.training.stopping import Stopping

_SECONDS = 6.0
_LEAST = 4  # micro-steps
_SMALL = 8  # samples, to begin with: a micro-step of the whole method may take minutes
_PATIENCE = 10.0  # seconds that one may take
_NEVER = 10**9


class _Counting(Stopping):
    """Asks to stop when enough micro-steps have been seen."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def reason(self) -> str | None:
        self.times.append(time.perf_counter())
        return "measured" if len(self.times) > _LEAST and self.times[-1] - self.times[0] > _SECONDS else None


def main() -> None:
    order = Order.read(sys.argv[1])
    obey_parent(order.parent)
    together = ranks.start()
    listed = order.selection.cells()
    found: dict[str, Any] = {}
    pretrain = next((cell for cell in reversed(listed) if isinstance(cell, Pretrain)), None)
    if pretrain:
        found["pre-training"] = _measured(pretrain, order, together)
    finetune = next(cell for cell in listed if isinstance(cell, Finetune))
    fresh = dataclasses.replace(finetune, pretrained=None)  # what it begins with does not change what it takes
    found["fine-tuning"] = _measured(fresh, order, together)
    print(json.dumps(found), flush=True)
    os._exit(0)  # torch's own exit may wait


def _measured(cell: Cell, order: Order, together: Ranks) -> dict[str, Any]:
    """At a small micro-step, and, where that is quick enough, at the method's own."""
    with tempfile.TemporaryDirectory() as folder:
        config = sizes.config(cell, sizes.read(order.size), order.data, Path(folder))
        whole = config.contrast_pool if isinstance(config, PretrainConfig) else config.train.batch
        found = _rate(config, min(_SMALL, whole), Path(folder) / "small", together)
        segments = whole * (2 if isinstance(config, PretrainConfig) else 1)
        if whole > _SMALL and segments / found["rate"] < _PATIENCE:
            found = _rate(config, whole, Path(folder) / "whole", together)
        return found


def _rate(config: PretrainConfig | FinetuneConfig, samples: int, run: Path, together: Ranks) -> dict[str, Any]:
    """-> segments a second in micro-steps of so many samples, and the seconds before the first."""
    run.mkdir()
    begin, counting = time.perf_counter(), _Counting()
    Training(_job(config, samples, together), run, None, counting).run()
    steps = [later - earlier for earlier, later in zip(counting.times[1:], counting.times[2:], strict=False)]
    segments = samples * (2 if isinstance(config, PretrainConfig) else 1)
    return {
        "rate": segments / statistics.median(steps),
        "samples": samples,
        "steps": len(steps),
        "setup": counting.times[0] - begin,
    }


def _job(config: PretrainConfig | FinetuneConfig, samples: int, together: Ranks) -> Job:
    quiet: dict[str, Any] = {"validate_every": _NEVER, "log_every": _NEVER, "checkpoint_minutes": _NEVER}
    changed: dict[str, Any] = {"batch": samples, "micro_batch": samples, "updates": None, "epochs": _NEVER}
    if isinstance(config, PretrainConfig):
        of_pool = dataclasses.replace(config.train, contrast_pool=samples, **changed)
        run = dataclasses.replace(config.run, **quiet)
        return Pretraining(dataclasses.replace(config, run=run, train=of_pool), together)
    train, of_run = dataclasses.replace(config.train, **changed), dataclasses.replace(config.run, **quiet)
    return Finetuning(dataclasses.replace(config, run=of_run, train=train), together)


if __name__ == "__main__":
    main()
