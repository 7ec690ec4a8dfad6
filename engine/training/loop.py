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


class Pretraining:
    """Everything is opened and checked here; `run` trains."""

    def __init__(self, config: Config, ranks: Ranks, run: Path, found: Checkpoint | None) -> None:
        self._config, self._ranks, self._run = config, ranks, run
        self._feed = Feed(config, ranks)
        if found:
            _same_data(self._feed.dataset.fingerprints, found)
        self._micro_batch = memory.micro_batch(config, ranks)
        self._micro_steps = accumulation(config, self._micro_batch, ranks.world)
        pool, pool_ranks = _pool(config.contrast_pool, self._micro_batch, ranks)
        everyone = dist.group.WORLD if ranks.world > 1 else None
        torch.manual_seed(config.run.seed)
        learner = Learner(
            config.system, config.sizes, config.model.recipe, config.model.dropout, pool, pool_ranks, everyone
        )
        begun: dict[str, Tensor] = {}
        if config.model.from_ and not found:
            fresh = released.load_into(learner, Path(config.model.from_), config.model.recipe, config.sizes)
            begun = {name: parameter.detach().clone() for name, parameter in learner.named_parameters()}
        learner.to(ranks.device)
        if config.train.compile is True or (config.train.compile == "auto" and ranks.device.type == "cuda"):
            learner.compile(fullgraph=True)
        self._zero = Zero(config, learner, self._micro_batch, self._micro_steps)
        if begun:  # DeepSpeed has made its float32 masters of weights of low precision
            self._zero.set_weights(begun)
        self._temperature = torch.empty((), device=ranks.device)
        self.update = self._skipped = self._bad_in_a_row = 0
        self._best: tuple[float, int] | None = None
        if found:
            self._restore(found)
        epoch = self._feed.order.epoch_length
        self.updates = min(-(-config.train.epochs * epoch // config.train.batch), config.train.updates or math.inf)
        self._stopping = Stopping(ranks, run / "stop", config.run.max_minutes)
        self._saver = Saver(run / "checkpoints", config.run.keep_last, config.run.keep_every) if ranks.first else None
        self._saved_at, self._saved_update = time.monotonic(), self.update if found else -1
        self._telemetry = Telemetry(
            run,
            ranks,
            config.log.to,
            settings.plain(config),
            updates=int(self.updates),
            start=self.update,
            segments=2 * config.train.batch,
            flops=training_flops(config.sizes, local=config.system.local),
        )
        self._telemetry.say(
            f"{config.train.system}: {len(self._feed.dataset):,} samples, {int(self.updates):,} updates of"
            f" {config.train.batch} pairs in pools of {config.contrast_pool}: {ranks.world} ranks x {self._micro_batch}"
            f" pairs x {self._micro_steps} micro-steps"
        )
        if begun:
            self._telemetry.say(f"weights of {config.model.from_}; fresh: {', '.join(fresh) or 'nothing'}")
        if self._feed.validation_size(self._micro_batch) < 2:
            self._telemetry.say(f"no validation: the view pretrain-valid has {len(self._feed.valid)} samples")

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
            self._stopping.close()
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
        config, norm = self._config, self._zero.gradient_norm()
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
        minutes = (time.monotonic() - self._saved_at) / 60
        kept = config.run.keep_every and self.update % config.run.keep_every == 0
        if self._ranks.agree(int(minutes > config.run.checkpoint_minutes or bool(kept))):
            self._save()

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
        raise ValueError(
            f"{self._bad_in_a_row} updates in a row were not finite; the crops of the last one are in"
            f" {self._run / 'bad_update.json'}: look at them, or lower train.lr; weights and moments are those of"
            f" update {self.update - self._bad_in_a_row}"
        )

    def _report(self, norm: float) -> None:
        more = {"gradient_norm": norm, "lr": self._config.train.lr, "skipped": float(self._skipped)}
        values = self._telemetry.report(self.update, self._position() / self._feed.order.epoch_length, more)
        used = values.get("code_perplexity")
        if used is not None and used < 0.02 * self._config.sizes.codes * self._config.sizes.code_groups:
            self._telemetry.say(f"warning: the codebook is collapsing: {used:.1f} codes in use")
        gc.collect()

    @torch.no_grad()
    def _validate(self) -> None:
        if self._feed.validation_size(self._micro_batch) < 2:
            return
        sums = Sums()
        self._zero.engine.eval()
        with self._feed.validation(self._micro_batch) as batches:
            for number, batch in enumerate(batches):
                self._seed(number)
                sums.add(self._zero.engine(*self._inputs(batch)).metrics)
        self._zero.engine.train()
        values = sums.read(self._ranks.world)
        self._telemetry.log("valid", self.update, values)
        if self._best is None or values["loss"] < self._best[0]:
            self._best = (values["loss"], self.update)
            self._save()

    def _position(self) -> int:
        return self.update * self._config.train.batch

    def _save(self, wait: bool = False) -> None:
        """All ranks gather; the first one keeps and writes. The pause is the copy to the host alone."""
        if self._saved_update != self.update:
            begin = time.perf_counter()
            saver = self._saver
            weights = _to_host(self._zero.weights(), keep=saver is not None)
            moments = {which: _to_host(self._zero.moments(which), keep=saver is not None) for which in MOMENTS}
            if saver is not None:
                saver.save(weights, moments, self._state())
                self._telemetry.say(f"checkpoint {self.update}: paused {time.perf_counter() - begin:.2f} s")
            self._saved_update, self._saved_at = self.update, time.monotonic()
        if wait and self._saver is not None:
            self._saver.wait()
        self._ranks.wait()

    def _release(self) -> None:
        weights = _to_host(self._zero.weights(), keep=self._ranks.first)
        if self._ranks.first:
            about = {"system": self._config.train.system, "update": self.update}
            released.save(self._run / "model", weights, self._config.model.recipe, self._config.sizes, about)

    def _state(self) -> dict[str, Any]:
        return {
            "update": self.update,
            "applied": self.update - self._skipped,
            "position": self._position(),
            "best": self._best[1] if self._best else None,
            "best_loss": self._best[0] if self._best else None,
            "data": self._feed.dataset.fingerprints,
            "config": settings.plain(self._config),
        }

    def _restore(self, found: Checkpoint) -> None:
        state = found.state
        self.update, self._skipped = state["update"], state["update"] - state["applied"]
        if state["best"] is not None:
            self._best = (state["best_loss"], state["best"])
        if state["applied"]:
            self._zero.set_weights(found.weights)
            self._zero.set_moments(found.moments, state["applied"])


def _to_host(tensors: Any, keep: bool) -> dict[str, Tensor]:
    return {name: value.to("cpu", copy=True).contiguous() for name, value in tensors if keep}


def _pool(pool: int, micro_batch: int, ranks: Ranks) -> tuple[int, dist.ProcessGroup | None]:
    """-> pairs of this rank in one pool, and who shares it."""
    if micro_batch >= pool:
        return pool, None
    together = pool // micro_batch
    groups = [dist.new_group(list(range(first, first + together))) for first in range(0, ranks.world, together)]
    return micro_batch, groups[ranks.rank // together]


def _same_data(fingerprints: list[str], found: Checkpoint) -> None:
    if fingerprints != found.state["data"]:
        raise ValueError(
            f"data.path: these are not the datasets, or not in the order, that {found.folder} was trained on;"
            " give those, or begin a new run with model.from"
        )
