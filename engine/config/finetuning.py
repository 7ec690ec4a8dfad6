"""What a fine-tuning run is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.config.common import Config, TrainConfig, common_problems, size_problems
from engine.model.sizes import FINETUNING, Dropout, Recipe

Task = Literal["diagnosis", "identification"]
FRESH = "none"  # what model.from says where nothing is pre-trained


@dataclass(frozen=True)
class ModelConfig:
    """What is pre-trained brings its size and recipe with it; fresh weights are of size base and recipe paper."""

    from_: str = ""  # a pre-training run, a folder of released weights, or `none`
    size: str | None = None  # of fresh weights: tiny, small or base
    sizes: Mapping[str, int] = field(default_factory=dict)  # of fresh weights: what differs from it
    recipe: Recipe | None = None  # of fresh weights
    dropout: Dropout = FINETUNING  # by place
    # What stays as it is; none: nothing, and in recipe `reference` the convolutions. `encoder`: a linear probe.
    freeze: Literal["nothing", "convolutions", "encoder"] | None = None

    @property
    def fresh(self) -> bool:
        return self.from_ == FRESH


@dataclass(frozen=True)
class FinetuneTrainConfig(TrainConfig):
    """Samples are segments."""

    task: Task = "diagnosis"  # what the head learns: 26 classes, or who was recorded (ArcFace)
    batch: int = 128
    epochs: int = 100
    eps: float = 1e-8
    weight_decay: float = 0.0
    patience: int | None = None  # validations without a better one, after which it ends
    # Updates over which lr rises, stays and falls; none: it is constant, but in recipe `reference` for identification.
    tri_stage: int | None = None


@dataclass(frozen=True)
class FinetuneConfig(Config):
    model: ModelConfig = ModelConfig()
    train: FinetuneTrainConfig = FinetuneTrainConfig()

    @property
    def whole(self) -> str:
        return "equal parts for all ranks"

    def micro_batches(self, ranks: int) -> list[int]:
        batch = self.train.batch
        return [micro for micro in range(1, batch + 1) if batch % (micro * ranks) == 0]

    def problems(self) -> Iterator[str]:
        yield from common_problems(self)
        model, train = self.model, self.train
        if not model.from_:
            yield "model.from is missing: a pre-training run, a folder of released weights, or none for fresh ones"
        if model.dropout.features != FINETUNING.features:
            yield "model.dropout.features has no effect in fine-tuning: it is of what pre-training quantizes"
        for name, value in {"train.patience": train.patience, "train.tri_stage": train.tri_stage}.items():
            if value is not None and value < 1:
                yield f"{name} = {value} should be more than 0"
        if model.fresh:
            yield from size_problems(model.size or "base", model.sizes)
        elif model.size or model.sizes or model.recipe:
            yield "model.size, model.sizes and model.recipe come with the weights of model.from: leave them out"
