"""Training from the first update, or from a checkpoint, to the last one, or to a reason to stop."""

import gc
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import settings
from engine.config.common import accumulation
from engine.data.philox import Purpose, bits
from engine.training import checkpoint, memory
from engine.training.checkpoint import Checkpoint, Saver, write_json
from engine.training.job import Job
from engine.training.ranks import AllRanksError
from engine.training.stopping import Stopping
from engine.training.telemetry import Telemetry
from engine.training.zero import MOMENTS, Zero

_AGAIN = 2  # a checkpoint that has failed
_PAUSE = 1.0  # minutes before that, at most: a disk that is full may stay so


class Training:
    """Everything is built here; `run` trains."""

    def __init__(self, job: Job, run: Path, found: Checkpoint | None, stopping: Stopping) -> None:
        self._job, self._config, self._ranks, self._feed = job, job.config, job.ranks, job.feed
        self._run, self._stopping = run, stopping
        self._micro_batch = memory.micro_batch(job, found.state["micro_batch"] if found else None)
        self._micro_steps = accumulation(job.config, self._micro_batch, job.ranks.world)
        of_weights = self._build()
        self.update = self._skipped = self._bad_in_a_row = self._validated = 0
        self._best: tuple[float, int] | None = None
        if found:
            self._restore(found)
        batch, train = job.config.train.batch, job.config.train
        epochs = -(-train.epochs * job.feed.order.epoch_length // batch)
        self.updates = min(epochs, train.updates or epochs)
        self._validate_every = job.config.run.validate_every or -(-job.feed.order.epoch_length // batch)
        self._saver = None
        if job.ranks.first:
            begun = self.update if found else None
            self._saver = Saver(run / "checkpoints", job.config.run.keep_last, job.config.run.keep_every, begun)
        self._saved_at, self._saved_update = time.monotonic(), self.update if found else -1
        self._telemetry = Telemetry(
            run,
            job.ranks,
            job.config.log.to,
            settings.plain(job.config),
            updates=self.updates,
            start=self.update,
            segments=job.segments,
            flops=None if train.precision == "fp32" else job.flops,
        )
        going_on = f"on from update {self.update}" if found else of_weights
        self._telemetry.say(
            f"{job.title}: {len(job.feed.dataset):,} samples, {self.updates:,} updates of {batch}:"
            f" {job.ranks.world} ranks x {self._micro_batch} x {self._micro_steps} micro-steps"
            f"{'; ' if going_on else ''}{going_on}"
        )
        if not job.validates(self._micro_batch):
            self._telemetry.say(f"no validation: its view has {job.feed.valid_samples} samples")
        self._forget_lost_best("the best from here on are released")

    def _build(self) -> str:
        """The module under DeepSpeed; -> what is to be said of its weights."""
        module, given, said = self._job.build(self._micro_batch)
        module.to(self._ranks.device)
        chosen = self._config.train.compile
        if chosen is True or (chosen == "auto" and self._compile_pays()):
            # The forward alone: DeepSpeed's hooks around it are no graph.
            module.forward = torch.compile(module.forward, fullgraph=True)
        self._zero = Zero(self._config, module, self._micro_batch, self._micro_steps)
        if given:  # DeepSpeed has made its float32 masters of weights of low precision
            self._zero.set_weights(given)
        return said

    def _compile_pays(self) -> bool:
        return self._ranks.device.type == "cuda" and self._config.train.zero_stage < 3

    def run(self) -> str | None:
        """-> why it was stopped; None: it is finished."""
        gc.collect()
        gc.freeze()
        gc.disable()  # it would stop the host at any moment; `_report` collects
        try:
            with self._feed.training(self._position(), self._micro_batch) as batches:
                reason = self._validate()  # where a stop has kept the run before from it
                while reason is None and self.update < self.updates and not self.gave_up:
                    reason = self._one_update(batches) or self._after_update()
            self._save(wait=True)
            if reason is None:
                self._release()
        finally:
            gc.enable()
            gc.unfreeze()
            self._telemetry.close()
        return reason

    def _one_update(self, batches: Any) -> str | None:
        """-> a reason to stop: what has been accumulated is dropped then."""
        self._zero.set_learning_rate(self._job.learning_rate(self.update))
        clock = self._telemetry.clock
        for micro_step in range(self._micro_steps):
            reason = self._stopping.reason()
            if reason:
                return reason
            with clock.time("data"):
                batch = next(batches)
            self._seed(micro_step)
            with clock.time("compute"):
                losses = self._zero.micro_step(*self._job.inputs(batch, self.update))
            self._telemetry.sums.add(losses.metrics)
        return None

    def _seed(self, micro_step: int) -> None:
        """Dropout, Gumbel noise and drawn negatives are functions of (seed, update, micro-step, rank)."""
        place = (self.update << 24) + micro_step
        high, low = bits(self._config.run.seed, Purpose.TORCH, place, self._ranks.rank, 2).tolist()
        torch.manual_seed((high << 32 | low) >> 1)

    def _after_update(self) -> str | None:
        """-> a reason to stop."""
        with self._telemetry.clock.time("compute"):  # the one place where the host waits for the device
            norm = self._zero.gradient_norm()
        self.update += 1
        if math.isfinite(norm):
            self._bad_in_a_row = 0
        else:
            self._skip()
        self._telemetry.progress()
        if self.update % self._config.run.log_every == 0 or self.update == self.updates:
            self._report(norm)
        reason = self._validate()
        due = self._ranks.agree(self._due())
        if due == _AGAIN and self._best and self._best[1] == self._saved_update:
            self._best = None  # its weights are lost
        if due:
            self._save(again=due == _AGAIN)
        return reason

    def _due(self) -> int:
        """Whether there is to be a checkpoint: the first rank says."""
        if self._saver is None:
            return 0
        run = self._config.run
        minutes = (time.monotonic() - self._saved_at) / 60
        if self._saver.failed():
            if minutes < min(run.checkpoint_minutes, _PAUSE):
                return 0
            self._telemetry.say("the last checkpoint could not be written; trying again")
            return _AGAIN
        return int(
            minutes > run.checkpoint_minutes or (run.keep_every is not None and self.update % run.keep_every == 0)
        )

    @property
    def gave_up(self) -> bool:
        """No validation has been better for long enough."""
        patience, best = self._job.patience, self._best
        return bool(patience and best and self.update - best[1] >= patience * self._validate_every)

    def _skip(self) -> None:
        self._skipped += 1
        self._bad_in_a_row += 1
        self._telemetry.say(f"update {self.update}: loss or gradient is not finite; skipped on all ranks")
        if self._bad_in_a_row < self._config.train.max_bad_updates:
            return
        batch = self._config.train.batch
        if self._ranks.first:
            keys = self._feed.keys((self.update - 1) * batch, batch)
            write_json(self._run / "bad_update.json", {"update": self.update, "crops": keys})
        self._save(wait=True)
        raise AllRanksError(
            f"{self._bad_in_a_row} updates in a row were not finite; the crops of the last one are in"
            f" {self._run / 'bad_update.json'}: look at them, or lower train.lr; weights and moments, which are saved,"
            f" are those of update {self.update - self._bad_in_a_row}"
        )

    def _report(self, norm: float) -> None:
        lr = self._job.learning_rate(self.update - 1)
        more = {"gradient_norm": norm, "lr": lr, "skipped": self._skipped, **self._job.constants}
        values = self._telemetry.report(self.update, self._position() / self._feed.order.epoch_length, more)
        for remark in self._job.remarks(values):
            self._telemetry.say(remark)
        gc.collect()

    def _validate(self) -> str | None:
        """Where one is due; -> a reason to stop, which leaves it due."""
        job = self._job
        at_its_time = self.update and (self.update % self._validate_every == 0 or self.update == self.updates)
        if not at_its_time or self._validated == self.update or not job.validates(self._micro_batch):
            return None
        with self._telemetry.clock.apart("validation"):
            judged = self._judge()
            if judged is None:
                return self._stopping.reason()
            values = job.scores(judged)
        self._validated = self.update
        self._telemetry.log("valid", self.update, values)
        value = values[job.metric]
        if math.isfinite(value) and (self._best is None or self._is_better(value, self._best[0])):
            self._best = (value, self.update)
            self._save()
        return None

    @torch.no_grad()
    def _judge(self) -> list[Any] | None:
        """Batch after batch; None: it was stopped."""
        job, engine, judged = self._job, self._zero.engine, []
        engine.eval()
        try:
            with job.validation(self._micro_batch) as batches:
                for number, batch in enumerate(batches):
                    if self._stopping.reason():
                        return None
                    self._seed(number)
                    judged.append(job.judge(engine, batch, self.update - 1))
        finally:
            engine.train()
        return judged

    def _forget_lost_best(self, instead: str) -> None:
        """They are in the folder that the run has come from, or could not be written."""
        if self._best is None or not self._job.releases_best:
            return
        here = (self._run / "checkpoints" / f"update-{self._best[1]:08d}" / "manifest.json").is_file()
        if self._ranks.agree(int(self._ranks.first and not here)):
            self._telemetry.say(f"the best weights so far are not in this folder: {instead}")
            self._best = None

    def _is_better(self, value: float, than: float) -> bool:
        return value > than if self._job.higher_is_better else value < than

    def _position(self) -> int:
        return self.update * self._config.train.batch

    def _save(self, wait: bool = False, again: bool = False) -> None:
        """All ranks gather; the first one keeps and writes. The pause is the copy to the host alone."""
        if self._saved_update != self.update or again:
            with self._telemetry.clock.apart("checkpoint"):
                self._copy_and_write()
        if wait and self._saver is not None:
            self._saver.wait()
        self._ranks.wait()

    def _copy_and_write(self) -> None:
        begin, keep = time.perf_counter(), self._saver is not None
        weights = to_host(self._zero.weights(), keep)
        moments = {which: to_host(self._zero.moments(which), keep) for which in MOMENTS}
        if self._saver is not None:
            self._saver.save(weights, moments, self._state())
            self._telemetry.say(f"checkpoint {self.update}: paused {time.perf_counter() - begin:.2f} s")
        self._saved_update, self._saved_at = self.update, time.monotonic()

    def _release(self) -> None:
        """The best weights or the last ones, for others to use."""
        self._forget_lost_best("the last ones are released")
        best = self._best if self._job.releases_best else None
        update = best[1] if best else self.update
        weights = to_host(self._zero.weights(), keep=self._ranks.first)
        if not self._ranks.first:
            return
        about: dict[str, Any] = {"update": update}
        if best:
            about |= {"validation": {self._job.metric: best[0]}}
            if update != self.update:
                weights = checkpoint.read(self._run / "checkpoints" / f"update-{update:08d}").weights
        self._job.release(self._run / "model", weights, about)

    def _state(self) -> dict[str, Any]:
        return {
            "update": self.update,
            "applied": self.update - self._skipped,
            "position": self._position(),
            "best": self._best[1] if self._best else None,
            "best_value": self._best[0] if self._best else None,
            "validated": self._validated,
            "bad_in_a_row": self._bad_in_a_row,
            "micro_batch": self._micro_batch,
            "loss_scale": self._zero.loss_scale(),
            "data": self._feed.dataset.fingerprints,
            "config": settings.plain(self._config),
            "origin": self._job.origin,
            **self._job.constants,
        }

    def _restore(self, found: Checkpoint) -> None:
        state = found.state
        self.update, self._skipped = state["update"], state["update"] - state["applied"]
        if state["best"] is not None:
            self._best = (state["best_value"], state["best"])
        self._bad_in_a_row, self._validated = state["bad_in_a_row"], state["validated"]
        self._zero.set_weights(found.weights)
        self._zero.set_moments(found.moments, state["applied"])
        self._zero.set_loss_scale(state["loss_scale"])


def to_host(tensors: Any, keep: bool) -> dict[str, Tensor]:
    return {name: value.to("cpu", copy=True).contiguous() for name, value in tensors if keep}
