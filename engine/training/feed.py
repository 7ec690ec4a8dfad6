"""The batches of a run: which datasets, in which order, from which position."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from engine.config import Config
from engine.data.dataset import Dataset, open_dataset
from engine.data.order import Order, Plan, evaluation, training
from engine.data.pipeline import Batches, reading_ahead
from engine.training.ranks import Ranks


class Feed:
    """Opens what the run reads; raises ValueError before anything has begun."""

    def __init__(self, config: Config, ranks: Ranks) -> None:
        self._config, self._ranks = config, ranks
        self.dataset = self._open("pretrain")
        self.valid = self._open("pretrain-valid")
        weights = config.data.weights or (1.0,) * len(config.data.path)
        self.order = Order(self.dataset.counts, config.run.seed, config.data.window, self.dataset.of_files(weights))

    def _open(self, view: str) -> Dataset:
        data = self._config.data
        return open_dataset(
            data.path,
            view,
            pairs=self._config.system.sample == "crop",
            verify=data.verify and self._ranks.local_rank == 0 and view == "pretrain",
            window=data.window,
            cache=Path(data.cache),
            cache_bytes=int(data.cache_gb * 1e9),
        )

    def training(self, position: int, micro_batch: int) -> Batches:
        plans = training(self.order, position, micro_batch, self._ranks.rank, self._ranks.world)
        return self._batches(self.dataset, reading_ahead(plans, self.order, self.dataset))

    def validation_size(self, micro_batch: int) -> int:
        """Of a rank's batch, as near to `micro_batch` as leaves the fewest samples out: all batches are of one size."""
        return len(self.valid) // (self._validation_batches(micro_batch) * self._ranks.world)

    def validation(self, micro_batch: int) -> Batches:
        size, world = self.validation_size(micro_batch), self._ranks.world
        count = self._validation_batches(micro_batch) * world * size
        return self._batches(self.valid, evaluation(count, size, self._ranks.rank, world))

    def _validation_batches(self, micro_batch: int) -> int:
        return -(-len(self.valid) // (self._ranks.world * micro_batch))

    def _batches(self, dataset: Dataset, plans: Iterator[Plan]) -> Batches:
        config = self._config
        return Batches(
            dataset,
            plans,
            config.augmentations(),
            seed=config.run.seed,
            views=1 if config.system.sample == "crop" else 2,
            leads=config.data.leads,
            device=self._ranks.device,
            dtype=torch.float32 if config.train.precision == "fp32" else torch.float16,
            threads=config.data.threads,
            prefetch=config.data.prefetch,
        )

    def keys(self, position: int, count: int) -> list[str]:
        """Of the crops that stand at these positions."""
        return self.dataset.keys(self.order.samples(np.arange(position, position + count)))
