"""Pre-training as a job of the loop."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from engine import released
from engine.config.pretraining import PretrainConfig
from engine.data.chance import LEADS, SEGMENT
from engine.data.pipeline import Batch, Batches
from engine.learner import Draws, Learner
from engine.methods import SPAN, SPANS
from engine.model.flops import training_flops
from engine.model.quantizer import gumbel_temperature
from engine.training.feed import Feed, Reading
from engine.training.job import Job
from engine.training.ranks import Ranks
from engine.training.telemetry import Sums


class Pretraining(Job):
    metric, higher_is_better, releases_best, patience = "loss", False, False, None

    def __init__(self, config: PretrainConfig, ranks: Ranks, origin: dict[str, Any] | None = None) -> None:
        self.config: PretrainConfig = config
        self.ranks = ranks
        given = None if origin else config.model.from_  # a checkpoint's weights follow
        self._pretrained = None if given is None else released.find(Path(given).expanduser(), "model.from = ")
        before = self._pretrained and released.origin(released.describe(self._pretrained))
        self.origin = origin or {"pretrained": before}
        pairs = config.system.sample == "crop"
        views = Reading("pretrain", "pretrain-valid", pairs, 1 if pairs else 2, config.augmentations())
        self.feed = Feed(config, ranks, views)
        _check_pool(config, len(self.feed.dataset))
        self.title = f"{config.train.system}, pairs in pools of {config.contrast_pool}"
        self.segments = 2 * config.train.batch
        self.flops = training_flops(config.sizes, local=config.system.local)
        self.constants = {"pool": config.contrast_pool}
        self._temperature = torch.empty((), device=ranks.device)

    def build(self, micro_batch: int) -> tuple[nn.Module, dict[str, Tensor], str]:
        config = self.config
        pool_ranks = share_pools(config.contrast_pool, micro_batch, self.ranks)
        torch.manual_seed(config.run.seed)
        learner = Learner(config.system, config.sizes, config.model.recipe, config.model.dropout, pool_ranks)
        if self._pretrained is None:
            return learner, {}, ""
        fresh = released.load_into(learner, self._pretrained, config.model.recipe, config.sizes)
        given = {name: parameter.detach().clone() for name, parameter in learner.named_parameters()}
        return learner, given, f"weights of {config.model.from_}, fresh: {', '.join(fresh) or 'nothing'}"

    def example(self, samples: int) -> tuple[nn.Module, tuple[Any, ...]]:
        config, device = self.config, self.ranks.device
        learner = Learner(config.system, config.sizes, config.model.recipe, config.model.dropout)
        starts = torch.arange(SPANS, device=device).repeat(2 * samples, 1) * SPAN
        return learner, (
            torch.zeros(samples, 2, SEGMENT, len(LEADS), device=device),
            torch.arange(samples, device=device),
            starts if config.system.time_mask else None,
            torch.tensor(2.0, device=device),
        )

    def validates(self, micro_batch: int) -> bool:
        return self.feed.validation_batch(micro_batch) >= 2  # else nothing to contrast with

    def inputs(self, batch: Batch, update: int) -> tuple[Any, ...]:
        self._temperature.fill_(gumbel_temperature(update))
        starts = batch.mask_starts.flatten(0, 1) if self.config.system.time_mask else None
        lots = batch.mask_lots.flatten(0, 1) if self.config.model.recipe == "reference" else None
        return batch.signal, batch.identity, starts, self._temperature, Draws(lots=lots)

    def learning_rate(self, update: int) -> float:
        return self.config.train.lr

    def validation(self, micro_batch: int) -> Batches:
        return self.feed.validation(micro_batch)

    def judge(self, engine: nn.Module, batch: Batch, update: int) -> Mapping[str, Tensor]:
        """The losses of pre-training itself, under the masks and draws of the validation's own positions."""
        metrics: Mapping[str, Tensor] = engine(*self.inputs(batch, update)).metrics
        return metrics

    def scores(self, judged: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
        sums = Sums()
        for metrics in judged:
            sums.add(metrics)
        return sums.read(self.ranks.world)

    def remarks(self, values: Mapping[str, float]) -> Iterator[str]:
        used = values.get("code_perplexity")
        if used is not None and used < 0.02 * self.config.sizes.codes * self.config.sizes.code_groups:
            yield f"warning: the codebook is collapsing: {used:.1f} codes in use"

    def release(self, folder: Path, weights: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        config = self.config
        about = {
            "system": config.train.system,
            "contrast_pool": config.contrast_pool,
            "trained_leads": list(config.data.leads),
            "data": self.feed.dataset.fingerprints,
            "pretrained": self.origin["pretrained"],
            **about,
        }
        released.save(folder, weights, config.model.recipe, config.sizes, about)


def _check_pool(config: PretrainConfig, samples: int) -> None:
    """No sample meets itself in a pool as if it were another's, nor twice in an update."""
    batch, pool = config.train.batch, config.contrast_pool
    if config.system.contrast == "none" or samples >= batch:
        return
    if samples < 2:
        raise ValueError("data.path has a single sample for pre-training: there is nothing to contrast it with")
    most = min(pool, 1 << samples.bit_length() - 1)
    raise ValueError(
        f"data.path has {samples} samples, and an update takes train.batch = {batch} in pools of train.contrast_pool = "
        f"{pool}: with so few, at most train.batch={samples // most * most} train.contrast_pool={most}"
    )


def share_pools(pool: int, micro_batch: int, ranks: Ranks) -> dist.ProcessGroup | None:
    """Who fills this rank's pools with it; None: it does so alone."""
    together = pool // micro_batch
    if together == 1:
        return None
    groups = [dist.new_group(list(range(first, first + together))) for first in range(0, ranks.world, together)]
    group: dist.ProcessGroup = groups[ranks.rank // together]
    return group
