"""What the loop trains, as it sees it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from engine.config.common import Config
from engine.data.pipeline import Batch, Batches
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
    constants: Mapping[str, float]  # logged with every report, for whoever reads its values

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
    def validation(self, micro_batch: int) -> Batches:
        """What is judged, in batches of about that size."""

    @abstractmethod
    def judge(self, engine: nn.Module, batch: Batch, update: int) -> Any:
        """What `scores` has to know of a batch."""

    @abstractmethod
    def scores(self, judged: Sequence[Any]) -> dict[str, float]:
        """Of all batches of all ranks."""

    @abstractmethod
    def remarks(self, values: Mapping[str, float]) -> Iterator[str]:
        """What is alarming about the values of a report."""

    @abstractmethod
    def release(self, folder: Path, weights: Mapping[str, Tensor], about: Mapping[str, Any]) -> None: ...
