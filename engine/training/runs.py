"""A run's folder: what it holds at the start, how it is gone on with, and how it ended.

RUN/
  config.yaml     every setting, defaults too
  status.json     running, finished, stopped or failed; why, and how far
  metrics.jsonl   a line each report and validation        tensorboard/
  checkpoints/    update-00000040/, ...
  model/          the weights of the end, to use elsewhere
  stop            make this file, and the run stops
  lock            held by the process that trains here
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Any, TypeVar, cast

import torch.distributed as dist
import yaml

from engine import settings
from engine.config.common import AnyConfig, Config
from engine.training import checkpoint
from engine.training.checkpoint import Checkpoint, write_json
from engine.training.job import Job
from engine.training.loop import Training
from engine.training.ranks import AllRanksError, Ranks, is_lost
from engine.training.stopping import Stopping

T = TypeVar("T")
JobOf = Callable[[AnyConfig, Ranks, dict[str, Any] | None], Job]  # the last: what a checkpoint says of its origin

STOPPED = 75  # exit code where nothing was wrong and there is more to do, but for signals: 128 and their number
# What a run may change when it goes on: where it runs, what it says, and how long.
FREE = {
    *("data.path", "data.verify", "data.cache", "data.cache_gb", "data.threads", "data.prefetch"),
    *("train.micro_batch", "train.epochs", "train.updates", "train.zero_stage", "train.offload", "train.compile"),
    *("train.max_bad_updates", "train.patience", "run.dir", "run.max_minutes", "run.log_every", "run.validate_every"),
    *("run.checkpoint_minutes", "run.keep_last", "run.keep_every", "log.to", "deepspeed"),
}


def train(job_of: JobOf[AnyConfig], config: AnyConfig, resume: str | None, ranks: Ranks) -> int:
    """-> the exit code."""
    run = Path(config.run.dir).expanduser()
    stopping = Stopping(ranks, run / "stop", config.run.max_minutes)
    try:
        with _alone_in(run, ranks):
            found = _found(config, run, resume, ranks)
            job = _together(ranks, lambda: job_of(config, ranks, found.state["origin"] if found else None))
            _same_data(job, found)
            return _train(job, run, found, stopping)
    finally:
        stopping.close()


def _train(job: Job, run: Path, found: Checkpoint | None, stopping: Stopping) -> int:
    training, ranks = None, job.ranks
    try:
        training = Training(job, run, found, stopping)
        del found  # three times the model
        if ranks.first:
            (run / "config.yaml").write_text(yaml.safe_dump(settings.plain(job.config), sort_keys=False))
            write_json(run / "status.json", {"status": "running", "host": os.uname().nodename, "pid": os.getpid()})
        stopped = training.run()
    except BaseException as failure:
        if training is not None and not ranks.first and _is_own(failure):
            print(f"error: rank {ranks.rank}: {failure}", file=sys.stderr, flush=True)
        if ranks.first and training is not None:
            lost = isinstance(failure, RuntimeError) and is_lost(failure)
            why = "another rank died" if lost else f"{type(failure).__name__}: {failure}"
            _report(run, {"status": "stopped" if lost else "failed", "reason": why, "update": training.update})
        raise
    if ranks.first:
        status = "finished" if stopped is None else "stopped"
        reason = stopped or ("no validation was better for long enough" if training.gave_up else "all updates are done")
        about = {"status": status, "reason": reason, "update": training.update, "updates": training.updates}
        _report(run, about)
        print(f"{status} at update {training.update} of {training.updates}: {reason}", flush=True)
    ranks.wait()
    if stopped is None:
        return 0
    return 128 + signal.Signals[stopped] if stopped in signal.Signals.__members__ else STOPPED


def _is_own(failure: BaseException) -> bool:
    """Of this rank alone: the first one cannot say it."""
    return isinstance(failure, (ValueError, OSError)) and not isinstance(failure, AllRanksError)


@contextmanager
def _alone_in(run: Path, ranks: Ranks) -> Iterator[None]:
    """No other process writes there: ranks that a killed launcher has left behind would."""
    lock = None

    def take() -> None:
        nonlocal lock
        if ranks.first:
            run.mkdir(parents=True, exist_ok=True)
            lock = open(run / "lock", "a")  # noqa: SIM115
            try:
                flock(lock, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"run.dir = {run}: another process is training there") from None
            (run / "stop").unlink(missing_ok=True)  # of the run before

    _together(ranks, take)
    try:
        yield
    finally:
        if lock is not None:
            lock.close()


def _together(ranks: Ranks, work: Callable[[], T]) -> T:
    """What went wrong on one rank is an error on all: none is left waiting."""
    result, failure = None, None
    try:
        result = work()
    except (ValueError, OSError) as found:
        failure = str(found)
    failures: list[str | None] = [None] * ranks.world
    dist.all_gather_object(failures, failure, ranks.control)
    said = [(rank, text) for rank, text in enumerate(failures) if text is not None]
    if said:
        rank, text = said[0]
        raise ValueError(text if rank == 0 else f"rank {rank}: {text}")
    return cast(T, result)


def _same_data(job: Job, found: Checkpoint | None) -> None:
    if found and job.feed.dataset.fingerprints != found.state["data"]:
        raise ValueError(
            f"data.path: these are not the datasets, or not in the order, that {found.folder} was trained on;"
            " give those, or begin a new run with model.from"
        )


def _report(run: Path, status: dict[str, Any]) -> None:
    with suppress(OSError):  # a full disk has been reported already
        write_json(run / "status.json", status)


def _found(config: Config, run: Path, resume: str | None, ranks: Ranks) -> Checkpoint | None:
    """The first rank looks; all read the same, or all stop."""
    own = _together(ranks, lambda: _look(run, resume) if ranks.first else None)
    chosen: list[Any] = [own and (str(own.folder.resolve()), own.manifest)]
    dist.broadcast_object_list(chosen, 0, ranks.control)
    if chosen[0] is None:
        return None
    folder, manifest = chosen[0]

    def read() -> Checkpoint:
        found = own or checkpoint.read(Path(folder))
        if found.manifest != manifest:
            raise ValueError(f"{folder} is another checkpoint here than on the first rank")
        _same_method(config, found)
        return found

    return _together(ranks, read)


def _look(run: Path, resume: str | None) -> Checkpoint | None:
    folder = run / "checkpoints"
    if resume is None:
        if checkpoint.updates(folder):
            raise ValueError(f"run.dir = {run} holds a run: --resume auto goes on with it; else choose another folder")
        return None
    if resume == "auto":
        return checkpoint.latest(folder, lambda line: print(line, flush=True))
    return checkpoint.read(Path(resume))


def _same_method(config: Config, found: Checkpoint) -> None:
    different = changed(found.state["config"], settings.plain(config), FREE)
    if different:
        raise ValueError(f"{found.folder} was trained with other settings: {'; '.join(different)}")


def changed(before: dict[str, Any], now: dict[str, Any], free: set[str]) -> list[str]:
    """What differs between the settings of two runs, but for those that are `free` to."""
    before, now = settings.flat(before), settings.flat(now)
    return [
        f"{key} = {now.get(key)} (was {before.get(key)})"
        for key in sorted(before | now)
        if before.get(key) != now.get(key) and key not in free and not key.startswith("deepspeed.")
    ]
