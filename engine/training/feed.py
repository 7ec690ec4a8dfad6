"""The batches of a run: which datasets, in which order, from which position."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from engine.config.common import Config
from engine.data.chance import Augmentation
from engine.data.dataset import Dataset, open_dataset
from engine.data.order import Order, Plan, evaluation, training
from engine.data.pipeline import Batches, reading_ahead
from engine.training.ranks import Ranks


@dataclass(frozen=True)
class Reading:
    """What a run reads of its datasets."""

    view: str
    valid: str
    pairs: bool  # a sample is a crop with its two segments; else one segment
    views: int  # of a sample
    augmentation: Augmentation


class Feed:
    """Opens what the run reads; raises ValueError before anything has begun."""

    def __init__(self, config: Config, ranks: Ranks, reading: Reading) -> None:
        self._config, self._ranks, self._reading = config, ranks, reading
        self.dataset = self._open(reading.view, config.data.path)
        # A small dataset may have nothing to spare for it.
        folders = zip(config.data.path, self.dataset.folders, strict=True)
        with_valid = [path for path, folder in folders if reading.valid in folder.views]
        self.valid = self._open(reading.valid, with_valid) if with_valid else None
        weights = config.data.weights or (1.0,) * len(config.data.path)
        self.order = Order(self.dataset.counts, config.run.seed, config.data.window, self.dataset.of_files(weights))

    def _open(self, view: str, paths: Sequence[str]) -> Dataset:
        data = self._config.data
        return open_dataset(
            paths,
            view,
            pairs=self._reading.pairs,
            verify=data.verify and self._ranks.local_rank == 0 and view == self._reading.view,
            window=data.window,
            cache=Path(data.cache),
            cache_bytes=int(data.cache_gb * 1e9),
        )

    def training(self, position: int, micro_batch: int) -> Batches:
        plans = training(self.order, position, micro_batch, self._ranks.rank, self._ranks.world)
        return self._batches(self.dataset, reading_ahead(plans, self.order, self.dataset))

    @property
    def valid_samples(self) -> int:
        return len(self.valid) if self.valid else 0

    def validation_batch(self, micro_batch: int) -> int:
        """Of a rank's batch, as near to `micro_batch` as leaves the fewest samples out: all batches are of one size."""
        if not self.valid:
            return 0
        return self.valid_samples // (self._validation_batches(micro_batch) * self._ranks.world)

    def validation(self, micro_batch: int) -> Batches:
        """Full batches, and a rest is left out: their losses depend on how many are together."""
        size, world = self.validation_batch(micro_batch), self._ranks.world
        assert self.valid
        count = self._validation_batches(micro_batch) * world * size
        return self._batches(self.valid, evaluation(count, size, self._ranks.rank, world))

    def whole_validation(self, micro_batch: int) -> Batches:
        """Every sample; the last batch is filled up, which its plan says."""
        assert self.valid
        ranks = self._ranks
        return self._batches(self.valid, evaluation(len(self.valid), micro_batch, ranks.rank, ranks.world))

    def _validation_batches(self, micro_batch: int) -> int:
        return -(-self.valid_samples // (self._ranks.world * micro_batch))

    def _batches(self, dataset: Dataset, plans: Iterator[Plan]) -> Batches:
        config, reading = self._config, self._reading
        return Batches(
            dataset,
            plans,
            reading.augmentation,
            seed=config.run.seed,
            views=reading.views,
            leads=config.data.leads,
            device=self._ranks.device,
            dtype=torch.float32 if config.train.precision == "fp32" else torch.float16,
            threads=config.data.threads,
            prefetch=config.data.prefetch,
        )

    def keys(self, position: int, count: int) -> list[str]:
        """Of the crops that stand at these positions."""
        return self.dataset.keys(self.order.samples(np.arange(position, position + count)))
