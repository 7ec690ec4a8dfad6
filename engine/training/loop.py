"""Pre-training from the first update, or from a checkpoint, to the last one, or to a reason to stop."""

import gc
import math
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from engine import released, settings
from engine.config import Config, accumulation
from engine.data.philox import Purpose, bits
from engine.data.pipeline import Batch
from engine.learner import Draws, Learner
from engine.model.flops import training_flops
from engine.model.quantizer import gumbel_temperature
from engine.training import memory
from engine.training.checkpoint import Checkpoint, Saver, write_json
from engine.training.feed import Feed
from engine.training.ranks import Ranks
from engine.training.stopping import Stopping
from engine.training.telemetry import Sums, Telemetry
from engine.training.zero import MOMENTS, Zero

FINISHED = "finished"
_AGAIN = 2  # a checkpoint that has failed


class Pretraining:
    """Everything is built here; `run` trains."""

    def __init__(
        self, config: Config, ranks: Ranks, run: Path, feed: Feed, found: Checkpoint | None, stopping: Stopping
    ) -> None:
        self._config, self._ranks, self._run = config, ranks, run
        self._feed, self._stopping = feed, stopping
        self._micro_batch = memory.micro_batch(config, ranks)
        self._micro_steps = accumulation(config, self._micro_batch, ranks.world)
        begun_with = self._build()
        self._temperature = torch.empty((), device=ranks.device)
        self.update = self._skipped = self._bad_in_a_row = 0
        self._best: tuple[float, int] | None = None
        if found:
            self._restore(found)
        epochs = -(-config.train.epochs * feed.order.epoch_length // config.train.batch)
        self.updates = min(epochs, config.train.updates or epochs)
        self._saver = None
        if ranks.first:
            begun = self.update if found else None
            self._saver = Saver(run / "checkpoints", config.run.keep_last, config.run.keep_every, begun)
        self._saved_at, self._saved_update = time.monotonic(), self.update if found else -1
        self._telemetry = Telemetry(
            run,
            ranks,
            config.log.to,
            settings.plain(config),
            updates=self.updates,
            start=self.update,
            segments=2 * config.train.batch,
            flops=None if config.train.precision == "fp32" else training_flops(config.sizes, local=config.system.local),
        )
        self._telemetry.say(
            f"{config.train.system}: {len(feed.dataset):,} samples, {self.updates:,} updates of {config.train.batch}"
            f" pairs in pools of {config.contrast_pool}: {ranks.world} ranks x {self._micro_batch} pairs"
            f" x {self._micro_steps} micro-steps{begun_with if not found else f'; on from update {self.update}'}"
        )
        if feed.validation_size(self._micro_batch) < 2:
            self._telemetry.say(f"no validation: the view pretrain-valid has {feed.valid_samples} samples")

    def _build(self) -> str:
        """The learner under DeepSpeed; -> what is to be said of its weights."""
        config, ranks = self._config, self._ranks
        pool_ranks = _share_pools(config.contrast_pool, self._micro_batch, ranks)
        torch.manual_seed(config.run.seed)
        learner = Learner(config.system, config.sizes, config.model.recipe, config.model.dropout, pool_ranks)
        released_weights: dict[str, Tensor] = {}
        said = ""
        if config.model.from_:
            fresh = released.load_into(learner, Path(config.model.from_), config.model.recipe, config.sizes)
            released_weights = {name: parameter.detach().clone() for name, parameter in learner.named_parameters()}
            said = f"; weights of {config.model.from_}, fresh: {', '.join(fresh) or 'nothing'}"
        learner.to(ranks.device)
        if config.train.compile is True or (config.train.compile == "auto" and _compile_pays(config, ranks)):
            # The forward alone: DeepSpeed's hooks around it are no graph.
            learner.forward = torch.compile(learner.forward, fullgraph=True)  # type: ignore[method-assign]
        self._zero = Zero(config, learner, self._micro_batch, self._micro_steps)
        if released_weights:  # DeepSpeed has made its float32 masters of weights of low precision
            self._zero.set_weights(released_weights)
        return said

    def run(self) -> str:
        """-> why it ended."""
        reason = FINISHED
        gc.collect()
        gc.freeze()
        gc.disable()  # it would stop the host at any moment; `_report` collects
        try:
            with self._feed.training(self._position(), self._micro_batch) as batches:
                while self.update < self.updates:
                    stopped = self._one_update(batches)
                    if stopped:
                        reason = stopped
                        break
                    self._after_update()
            self._save(wait=True)
            if reason == FINISHED:
                self._release()
        finally:
            gc.enable()
            self._telemetry.close()
        return reason

    def _one_update(self, batches: Any) -> str | None:
        """-> a reason to stop: what has been accumulated is dropped then."""
        self._temperature.fill_(gumbel_temperature(self.update))
        clock = self._telemetry.clock
        for micro_step in range(self._micro_steps):
            reason = self._stopping.reason()
            if reason:
                return reason
            with clock.time("data"):
                batch = next(batches)
            self._seed(micro_step)
            with clock.time("compute"):
                losses = self._zero.micro_step(*self._inputs(batch))
            self._telemetry.sums.add(losses.metrics)
        return None

    def _inputs(self, batch: Batch) -> tuple[Any, ...]:
        system = self._config.system
        starts = batch.mask_starts.flatten(0, 1) if system.time_mask else None
        lots = batch.mask_lots.flatten(0, 1) if self._config.model.recipe == "reference" else None
        return batch.signal, batch.identity, starts, self._temperature, Draws(lots=lots)

    def _seed(self, micro_step: int) -> None:
        """Dropout, Gumbel noise and drawn negatives are functions of (seed, update, micro-step, rank)."""
        place = (self.update << 24) + micro_step
        high, low = bits(self._config.run.seed, Purpose.TORCH, place, self._ranks.rank, 2).tolist()
        torch.manual_seed((high << 32 | low) >> 1)

    def _after_update(self) -> None:
        config = self._config
        with self._telemetry.clock.time("optimizer"):  # the one place where the host waits for the device
            norm = self._zero.gradient_norm()
        self.update += 1
        if math.isfinite(norm):
            self._bad_in_a_row = 0
        else:
            self._skip()
        self._telemetry.progress()
        if self.update % config.run.log_every == 0 or self.update == self.updates:
            self._report(norm)
        if self.update % config.run.validate_every == 0 or self.update == self.updates:
            self._validate()
        due = self._ranks.agree(self._due())
        if due:
            self._save(again=due == _AGAIN)

    def _due(self) -> int:
        """Whether there is to be a checkpoint."""
        if self._saver is not None and self._saver.failed():
            self._telemetry.say("the last checkpoint could not be written; trying again")
            return _AGAIN
        run = self._config.run
        minutes = (time.monotonic() - self._saved_at) / 60
        return int(
            minutes > run.checkpoint_minutes or (run.keep_every is not None and self.update % run.keep_every == 0)
        )

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
        raise ValueError(
            f"{self._bad_in_a_row} updates in a row were not finite; the crops of the last one are in"
            f" {self._run / 'bad_update.json'}: look at them, or lower train.lr; weights and moments, which are saved,"
            f" are those of update {self.update - self._bad_in_a_row}"
        )

    def _report(self, norm: float) -> None:
        config = self._config
        more = {"gradient_norm": norm, "lr": config.train.lr, "skipped": self._skipped, "pool": config.contrast_pool}
        values = self._telemetry.report(self.update, self._position() / self._feed.order.epoch_length, more)
        used = values.get("code_perplexity")
        if used is not None and used < 0.02 * self._config.sizes.codes * self._config.sizes.code_groups:
            self._telemetry.say(f"warning: the codebook is collapsing: {used:.1f} codes in use")
        gc.collect()

    @torch.no_grad()
    def _validate(self) -> None:
        if self._feed.validation_size(self._micro_batch) < 2:
            return
        sums, values = Sums(), None
        self._zero.engine.eval()
        with self._telemetry.clock.apart("validation"), self._feed.validation(self._micro_batch) as batches:
            for number, batch in enumerate(batches):
                if self._stopping.reason():  # the loop asks again, and stops
                    break
                self._seed(number)
                sums.add(self._zero.engine(*self._inputs(batch)).metrics)
            else:
                values = sums.read(self._ranks.world)
        self._zero.engine.train()
        if values is None:
            return
        self._telemetry.log("valid", self.update, values)
        if math.isfinite(values["loss"]) and (self._best is None or values["loss"] < self._best[0]):
            self._best = (values["loss"], self.update)
            self._save()

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
        weights = _to_host(self._zero.weights(), keep)
        moments = {which: _to_host(self._zero.moments(which), keep) for which in MOMENTS}
        if self._saver is not None:
            self._saver.save(weights, moments, self._state())
            self._telemetry.say(f"checkpoint {self.update}: paused {time.perf_counter() - begin:.2f} s")
        self._saved_update, self._saved_at = self.update, time.monotonic()

    def _release(self) -> None:
        weights = _to_host(self._zero.weights(), keep=self._ranks.first)
        if self._ranks.first:
            config = self._config
            about = {"system": config.train.system, "contrast_pool": config.contrast_pool, "update": self.update}
            released.save(self._run / "model", weights, config.model.recipe, config.sizes, about)

    def _state(self) -> dict[str, Any]:
        return {
            "update": self.update,
            "applied": self.update - self._skipped,
            "position": self._position(),
            "best": self._best[1] if self._best else None,
            "best_loss": self._best[0] if self._best else None,
            "bad_in_a_row": self._bad_in_a_row,
            "contrast_pool": self._config.contrast_pool,
            "micro_batch": self._micro_batch,
            "data": self._feed.dataset.fingerprints,
            "config": settings.plain(self._config),
        }

    def _restore(self, found: Checkpoint) -> None:
        state = found.state
        self.update, self._skipped = state["update"], state["update"] - state["applied"]
        if state["best"] is not None:
            self._best = (state["best_loss"], state["best"])
        self._bad_in_a_row = state["bad_in_a_row"]
        self._zero.set_weights(found.weights)
        self._zero.set_moments(found.moments, state["applied"])


def _to_host(tensors: Any, keep: bool) -> dict[str, Tensor]:
    return {name: value.to("cpu", copy=True).contiguous() for name, value in tensors if keep}


def _share_pools(pool: int, micro_batch: int, ranks: Ranks) -> dist.ProcessGroup | None:
    """Who fills this rank's pools with it; None: it does so alone."""
    together = pool // micro_batch
    if together == 1:
        return None
    groups = [dist.new_group(list(range(first, first + together))) for first in range(0, ranks.world, together)]
    group: dist.ProcessGroup = groups[ranks.rank // together]
    return group


def _compile_pays(config: Config, ranks: Ranks) -> bool:
    return ranks.device.type == "cuda" and config.train.zero_stage < 3
