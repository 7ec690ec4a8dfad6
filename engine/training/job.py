"""What the loop trains, as it sees it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from engine.config.common import Config
from engine.data.pipeline import Batch
from engine.training.feed import Feed
from engine.training.ranks import Ranks


class Job(ABC):
    """Pre-training, or fine-tuning."""

    config: Config
    ranks: Ranks
    feed: Feed
    title: str  # for the first line that is said
    segments: int  # of an update
    flops: float  # of a segment, forward and backward
    metric: str  # of a validation: it tells the best weights
    higher_is_better: bool
    releases_best: bool  # else the last weights
    patience: int | None  # validations without a better one, after which it ends
    origin: dict[str, Any]  # what the first weights were: kept in checkpoints, so that a resume need not look again
    report: Mapping[str, float]  # what belongs beside the values of each report

    @abstractmethod
    def build(self, micro_batch: int) -> tuple[nn.Module, dict[str, Tensor], str]:
        """-> what is trained; those of its weights that were given, in full precision; what is to be said of them.

        Its forward returns `total`, which is minimised, and `metrics`, scalars that are watched."""

    @abstractmethod
    def example(self, samples: int) -> tuple[nn.Module, tuple[Any, ...]]:
        """Such a module with such inputs, on which it is measured what a micro-step needs."""

    @abstractmethod
    def validates(self, micro_batch: int) -> bool:
        """Whether there is enough to validate on."""

    @abstractmethod
    def inputs(self, batch: Batch, update: int) -> tuple[Any, ...]:
        """Of the forward."""

    @abstractmethod
    def learning_rate(self, update: int) -> float: ...

    @abstractmethod
    def validate(
        self,
        engine: nn.Module,
        update: int,
        micro_batch: int,
        seed: Callable[[int], None],
        stopped: Callable[[], object],
    ) -> dict[str, float] | None:
        """None: it was stopped. `seed` is called with the number of each batch."""

    @abstractmethod
    def remarks(self, values: Mapping[str, float]) -> Iterator[str]:
        """What is alarming about the values of a report."""

    @abstractmethod
    def release(self, folder: Path, weights: Mapping[str, Tensor], about: Mapping[str, Any]) -> None: ...
