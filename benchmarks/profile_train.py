"""engine/pretrain.py with the profiler around some of its updates, from outside: deepspeed benchmarks/profile_train.py

The trace goes to the file that the environment names, from the first rank.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from torch.profiler import ProfilerActivity
from torch.profiler import profile as torch_profile

from benchmarks import profile
from engine.config.pretraining import PretrainConfig
from engine.training import command, runs
from engine.training.loop import Training
from engine.training.pretraining import Pretraining

TRACE = "LEADWISE_TRACE"
_SKIPPED, _PROFILED = 3, 3
UPDATES = _SKIPPED + _PROFILED + 1


class Profiled(Training):
    """Ranges around its parts, and the profiler around a few updates."""

    def _build(self) -> str:
        said = super()._build()
        engine = self._zero.engine
        self._watched = profile.watched(engine.module)
        self._watched.__enter__()
        engine.step = _ranged("optimizer", engine.step)
        engine.backward = _ranged("backward, unattributed", engine.backward)
        gpu = self._ranks.device.type == "cuda"
        self._profiler = torch_profile(activities=[ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if gpu else []))
        return said

    def _one_update(self, batches: Any) -> str | None:
        if self._ranks.first and self.update == _SKIPPED:
            self._profiler.start()
        self._whole = profile.part(profile.UPDATE)
        self._whole.__enter__()
        return super()._one_update(_ranged_batches(batches))

    def _after_update(self) -> None:
        super()._after_update()
        if self._ranks.device.type == "cuda":
            torch.cuda.synchronize(self._ranks.device)
        self._whole.__exit__(None, None, None)
        if self._ranks.first and self.update == _SKIPPED + _PROFILED:
            self._profiler.stop()
            trace = Path(os.environ[TRACE])
            trace.parent.mkdir(parents=True, exist_ok=True)
            self._profiler.export_chrome_trace(str(trace))


def _ranged(name: str, function: Any) -> Any:
    def inside(*arguments: Any, **named: Any) -> Any:
        with profile.part(name):
            return function(*arguments, **named)

    return inside


def _ranged_batches(batches: Any) -> Iterator[Any]:
    while True:
        with profile.part("data"):
            batch = next(batches)
        yield batch


if __name__ == "__main__":
    vars(runs)["Training"] = Profiled  # in its place
    command.main(__doc__, PretrainConfig, Pretraining)
