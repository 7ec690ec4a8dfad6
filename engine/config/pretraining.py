"""What a pre-training run is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite

from engine.config.common import Config, RunConfig, TrainConfig, common_problems, size_problems, sizes_of
from engine.data.chance import LEADS, Augmentation
from engine.methods import POOL, SYSTEMS, System
from engine.model.sizes import PRETRAINING, Dropout, Recipe, Sizes


@dataclass(frozen=True)
class ModelConfig:
    size: str = "base"  # tiny, small or base
    sizes: Mapping[str, int] = field(default_factory=dict)  # what differs from it
    recipe: Recipe = "paper"  # where the paper and its public code differ (docs/method.md)
    dropout: Dropout = PRETRAINING  # by place
    from_: str | None = None  # a folder of released weights to go on from, with a fresh optimizer


@dataclass(frozen=True)
class AugmentationConfig:
    """Amplitudes in mV; 0: off."""

    mask_leads: float | None = None  # the chance of each lead; none: 0.5 where the system has RLM, else 0
    powerline: float = 0.0  # 50 Hz on all leads
    emg: float = 0.0  # white noise, of each lead
    wander: float = 0.0  # of the baseline: three slow waves
    shift: float = 0.0  # of the baseline: a step up or down for a fifth of a segment


@dataclass(frozen=True)
class PretrainTrainConfig(TrainConfig):
    """Samples are pairs."""

    system: str = "w2v_cmsc_rlm"  # one of the six that are pre-trained (docs/method.md)
    contrast_pool: int | None = None  # pairs that contrast with each other; none: 512, recipe reference 64


@dataclass(frozen=True)
class PretrainRunConfig(RunConfig):
    validate_every: int | None = 185  # updates: an epoch of the paper


@dataclass(frozen=True)
class PretrainConfig(Config):
    model: ModelConfig = ModelConfig()
    augmentation: AugmentationConfig = AugmentationConfig()
    train: PretrainTrainConfig = PretrainTrainConfig()
    run: PretrainRunConfig = PretrainRunConfig()

    @property
    def system(self) -> System:
        return SYSTEMS[self.train.system]

    @property
    def contrast_pool(self) -> int:
        return self.train.contrast_pool or (64 if self.model.recipe == "reference" else POOL)

    @property
    def sizes(self) -> Sizes:
        return sizes_of(self.model.size, self.model.sizes)

    @property
    def whole(self) -> str:
        return f"whole pools of {self.contrast_pool} pairs"

    def micro_batches(self, ranks: int) -> list[int]:
        """A pool is what one rank holds, or what several hold together."""
        pool, batch = self.contrast_pool, self.train.batch
        parts = range(1, pool + 1) if self.model.recipe == "paper" else [pool]  # the reference's is never shared
        return [
            micro
            for micro in parts
            if pool % micro == 0 and ranks % (pool // micro) == 0 and batch % (micro * ranks) == 0
        ]

    def augmentations(self) -> Augmentation:
        chosen = self.augmentation
        return Augmentation(
            mask_leads=self.system.mask_leads if chosen.mask_leads is None else chosen.mask_leads,
            powerline=chosen.powerline,
            emg=chosen.emg,
            wander=chosen.wander,
            shift=chosen.shift,
            vectorcardiogram=self.system.augmentation == "3kg",
            recipe=self.model.recipe,
        )

    def problems(self) -> Iterator[str]:
        yield from common_problems(self)
        if self.train.contrast_pool is not None and self.train.contrast_pool < 1:
            yield f"train.contrast_pool = {self.train.contrast_pool} should be more than 0"
        of_model = [*size_problems(self.model.size, self.model.sizes), *_of_system(self)]
        yield from of_model or _of_augmentation(self)


def _of_system(config: PretrainConfig) -> Iterator[str]:
    if config.train.system not in SYSTEMS or config.train.system == "random_init":
        trained = ", ".join(name for name in SYSTEMS if name != "random_init")
        yield f"train.system = {config.train.system} should be one of {trained}"
    elif not config.system.local and config.model.dropout.features != PRETRAINING.features:
        yield f"model.dropout.features has no effect on train.system = {config.train.system}, which has no local loss"


def _of_augmentation(config: PretrainConfig) -> Iterator[str]:
    train, chosen = config.train, config.augmentation
    noisy = any((chosen.powerline, chosen.emg, chosen.wander, chosen.shift))
    if config.system.sample == "segment" and noisy:
        yield f"train.system = {train.system} takes no noise: its two views are made by its own augmentation"
        return
    if train.system == "3kg" and chosen.mask_leads:
        yield "train.system = 3kg takes no augmentation.mask_leads: its views are turned vectorcardiograms"
        return
    drawn = config.augmentations()
    if not 0 <= drawn.mask_leads < 1:
        yield f"augmentation.mask_leads = {drawn.mask_leads} should be from 0 to below 1"
    for name in ("powerline", "emg", "wander", "shift"):
        if not (getattr(chosen, name) >= 0 and isfinite(getattr(chosen, name))):
            yield f"augmentation.{name} = {getattr(chosen, name)} is an amplitude in mV: 0 or more"
    if train.system == "3kg" and set(config.data.leads) != set(LEADS):
        yield "train.system = 3kg needs all twelve data.leads: a vectorcardiogram cannot be seen from a few of them"
    if train.system == "simclr_rlm" and len(config.data.leads) == 1:
        yield "train.system = simclr_rlm needs more than one of data.leads: RLM tells its two views apart"
    elif train.system == "simclr_rlm" and not drawn.mask_leads:
        yield "train.system = simclr_rlm needs augmentation.mask_leads: without it its two views are one"
    elif len(config.data.leads) == 1 and drawn.mask_leads:
        yield "augmentation.mask_leads would hide all of a single lead: there is no RLM at one lead (set it to 0)"
    if train.batch % config.contrast_pool:
        yield (
            f"train.batch = {train.batch} pairs are no whole pools of train.contrast_pool = {config.contrast_pool}:"
            " an update may take several pools, and never a part of one"
        )
