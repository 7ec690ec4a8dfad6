"""From tensors and time to numbers worth reading: one place for training and benchmarks."""

import hashlib
import importlib
import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO

import torch
import torch.distributed as dist
from torch import Tensor
from tqdm import tqdm

from engine.hardware import datasheet_peak
from engine.training.ranks import Ranks


class Sums:
    """Means over micro-steps and ranks of scalars that stay on the device until they are read."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._count = 0

    def add(self, metrics: Mapping[str, Tensor]) -> None:
        for name, value in metrics.items():
            value = value.detach().float()
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._count += 1

    def read(self, world: int) -> dict[str, float]:
        """The one place that waits for the device."""
        if not self._count:
            return {}
        together = torch.stack(list(self._sums.values())) / (self._count * world)
        if world > 1:
            dist.all_reduce(together)
        means = dict(zip(self._sums, together.tolist(), strict=True))
        self._sums, self._count = {}, 0
        return means


class Clock:
    """Seconds of the loop by what they went to."""

    def __init__(self) -> None:
        self._parts: dict[str, float] = {}
        self._apart = 0.0
        self._begin = time.perf_counter()

    @contextmanager
    def apart(self, part: str) -> Iterator[None]:
        """What is no part of training, and of its rate."""
        begin = time.perf_counter()
        with self.time(part):
            yield
        self._apart += time.perf_counter() - begin

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self._parts[part] = self._parts.get(part, 0.0) + time.perf_counter() - begin

    def read(self) -> tuple[float, dict[str, float]]:
        """-> seconds of training since the last reading, and the share of each part in all of the time."""
        now = time.perf_counter()
        seconds = now - self._begin
        shares = {f"{part}_share": spent / seconds for part, spent in self._parts.items()}
        training = seconds - self._apart
        self._begin, self._parts, self._apart = now, {}, 0.0
        return training, shares


class Tracker(Protocol):
    def log(self, values: Mapping[str, float], update: int) -> None: ...

    def close(self) -> None: ...


class _TensorBoard:
    def __init__(self, run: Path, _: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(run / "tensorboard")

    def log(self, values: Mapping[str, float], update: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, update)

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        self._run = importlib.import_module("wandb").init(
            project="leadwise", name=run.name, dir=str(run), id=_identity(run), resume="allow", config=config
        )

    def log(self, values: Mapping[str, float], update: int) -> None:
        self._run.log(dict(values), step=update)

    def close(self) -> None:
        self._run.finish()


class _Mlflow:
    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        self._mlflow = importlib.import_module("mlflow")
        self._mlflow.set_experiment("leadwise")
        self._mlflow.start_run(run_name=run.name)
        self._mlflow.log_dict(dict(config), "config.json")

    def log(self, values: Mapping[str, float], update: int) -> None:
        self._mlflow.log_metrics(dict(values), step=update)

    def close(self) -> None:
        self._mlflow.end_run()


class _Trackio:
    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        self._run = importlib.import_module("trackio").init(project="leadwise", name=run.name, config=dict(config))

    def log(self, values: Mapping[str, float], update: int) -> None:
        self._run.log(dict(values), step=update)

    def close(self) -> None:
        self._run.finish()


def _identity(run: Path) -> str:
    """The same when the run goes on."""
    return hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:16]


_TRACKERS: dict[str, Callable[[Path, Mapping[str, Any]], Tracker]] = {
    "tensorboard": _TensorBoard,
    "wandb": _Wandb,
    "mlflow": _Mlflow,
    "trackio": _Trackio,
}


def trackers(names: Sequence[str], run: Path, config: Mapping[str, Any]) -> list[Tracker]:
    """Raises ValueError where a package is missing."""
    made: list[Tracker] = []
    for name in names:
        try:
            made.append(_TRACKERS[name](run, config))
        except ImportError as failure:
            raise ValueError(f"log.to has {name}, which is not installed: pip install {name}") from failure
    return made


class Telemetry:
    """Speaks on the first rank only: a line, RUN/metrics.jsonl, trackers, and on a terminal a bar."""

    def __init__(
        self,
        run: Path,
        ranks: Ranks,
        to: Sequence[str],
        config: Mapping[str, Any],
        *,
        updates: int,
        start: int,
        segments: int,
        flops: float | None,
    ) -> None:
        """`segments` of an update, over all ranks; `flops` of one, None: no MFU; `updates` of the whole run."""
        self._ranks = ranks
        self._updates, self._last = updates, start
        self._segments, self._flops = segments, flops
        self._peak = datasheet_peak(ranks.device)
        self.sums, self.clock = Sums(), Clock()
        self._trackers = trackers(to, run, config) if ranks.first else []
        self._file = _behind_whole_lines(run / "metrics.jsonl") if ranks.first else None
        on_terminal = ranks.first and sys.stderr.isatty()
        self._bar = tqdm(total=updates, initial=start, unit="update", disable=not on_terminal)

    def progress(self) -> None:
        self._bar.update()

    def report(self, update: int, epoch: float, more: Mapping[str, float]) -> dict[str, float]:
        """Since the last report."""
        metrics = self.sums.read(self._ranks.world)
        seconds, shares = self.clock.read()
        rate = self._segments * (update - self._last) / seconds
        values = {"epoch": epoch, **metrics, **more, "segments_per_second": rate, **shares, "memory_gb": self._memory()}
        if self._peak and self._flops:
            values["mfu"] = rate * self._flops / (self._peak * self._ranks.world)
        values["hours_left"] = (self._updates - update) * self._segments / rate / 3600 if rate else 0.0
        self._last = update
        self.log("train", update, values)
        return values

    def log(self, kind: str, update: int, values: Mapping[str, float]) -> None:
        if self._file is None:
            return
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}  # JSON has no nan
        self._file.write(json.dumps({"kind": kind, "update": update, **finite}) + "\n")
        self._file.flush()
        for tracker in self._trackers:
            tracker.log({f"{kind}/{name}": value for name, value in values.items()}, update)
        self.say(f"{kind} {update}/{self._updates}  " + "  ".join(_spoken(values)))

    def say(self, line: str) -> None:
        if self._ranks.first:
            self._bar.write(line, file=sys.stdout)
            sys.stdout.flush()

    def close(self) -> None:
        self._bar.close()
        for tracker in self._trackers:
            tracker.close()
        if self._file is not None:
            self._file.close()

    def _memory(self) -> float:
        if self._ranks.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._ranks.device) / 1e9
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _behind_whole_lines(path: Path) -> TextIO:
    """To go on writing; a last line that a kill has torn is taken back."""
    if path.exists():
        text = path.read_bytes()
        os.truncate(path, text.rfind(b"\n") + 1)
    return open(path, "a")


def _spoken(values: Mapping[str, float]) -> Iterator[str]:
    """Each loss with its chance level beside it."""
    for name, value in values.items():
        if name.endswith("_share"):
            yield f"{name.removesuffix('_share')} {value:.1%}"
        elif name == "mfu":
            yield f"mfu {value:.1%}"
        elif not name.endswith(("_chance", "_counted")):
            chance = values.get(f"{name}_chance")
            yield f"{name} {value:.4g}" + (f" (chance {chance:.4g})" if chance is not None else "")
