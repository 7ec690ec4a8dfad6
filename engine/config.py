"""What a pre-training run is, and which settings go together."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from engine import settings
from engine.data.chance import LEADS, Augmentation
from engine.methods import POOL, SYSTEMS, System
from engine.model.sizes import PRETRAINING, SIZES, Dropout, Recipe, Sizes

Tracker = Literal["tensorboard", "wandb", "mlflow", "trackio"]


@dataclass(frozen=True)
class DataConfig:
    path: tuple[str, ...] = ()  # dataset folders, or addresses of an object store
    weights: tuple[float, ...] = ()  # how often an epoch takes each sample of each folder; none: once
    leads: tuple[str, ...] = LEADS  # those the model may see
    window: int = 8  # files that are shuffled among each other
    verify: bool = False  # contents before the start, not only sizes
    cache: str = "~/.cache/leadwise"
    cache_gb: float = 64.0
    threads: int = 2
    prefetch: int = 2  # batches


@dataclass(frozen=True)
class ModelConfig:
    size: str = "base"
    sizes: Mapping[str, int] = field(default_factory=dict)  # what differs from it
    recipe: Recipe = "paper"
    dropout: Dropout = PRETRAINING
    from_: str | None = None  # a folder of released weights to go on from, with a fresh optimizer


@dataclass(frozen=True)
class AugmentationConfig:
    """Amplitudes in mV; 0: off."""

    mask_leads: float | None = None  # the chance of each lead; none: 0.5 where the system has RLM, else 0
    powerline: float = 0.0
    emg: float = 0.0
    wander: float = 0.0
    shift: float = 0.0


@dataclass(frozen=True)
class TrainConfig:
    system: str = "w2v_cmsc_rlm"
    batch: int = 512  # pairs of one update
    contrast_pool: int | None = None  # pairs that contrast with each other; none: 512, recipe reference 64
    micro_batch: int | Literal["auto"] = "auto"  # pairs of one rank at a time
    epochs: int = 200
    updates: int | None = None  # stop there, if that is sooner
    lr: float = 5e-5
    betas: tuple[float, ...] = (0.9, 0.98)
    eps: float = 1e-6
    weight_decay: float = 0.01
    clip: float = 0.0  # of the gradient's norm; 0: none
    precision: Literal["bf16", "fp16", "fp32"] = "bf16"
    zero_stage: Literal[0, 1, 2, 3] = 1
    offload: Literal["none", "cpu"] = "none"
    compile: bool | Literal["auto"] = "auto"
    max_bad_updates: int = 10  # in a row, with a loss or gradient that is no number


@dataclass(frozen=True)
class RunConfig:
    dir: str = ""
    seed: int = 0
    max_minutes: float | None = None
    log_every: int = 10  # updates
    validate_every: int = 185  # updates: an epoch of the paper
    checkpoint_minutes: float = 10.0
    keep_last: int = 2
    keep_every: int | None = None  # updates


@dataclass(frozen=True)
class LogConfig:
    to: tuple[Tracker, ...] = ("tensorboard",)


@dataclass(frozen=True)
class Config:
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    augmentation: AugmentationConfig = AugmentationConfig()
    train: TrainConfig = TrainConfig()
    run: RunConfig = RunConfig()
    log: LogConfig = LogConfig()
    deepspeed: Mapping[str, Any] = field(default_factory=dict)  # passed through

    @property
    def system(self) -> System:
        return SYSTEMS[self.train.system]

    @property
    def contrast_pool(self) -> int:
        return self.train.contrast_pool or (64 if self.model.recipe == "reference" else POOL)

    @property
    def sizes(self) -> Sizes:
        return dataclasses.replace(SIZES[self.model.size], **self.model.sizes)

    def augmentations(self) -> Augmentation:
        chosen = self.augmentation
        rlm = 0.5 if self.system.augmentation == "rlm" else 0.0
        return Augmentation(
            mask_leads=rlm if chosen.mask_leads is None else chosen.mask_leads,
            powerline=chosen.powerline,
            emg=chosen.emg,
            wander=chosen.wander,
            shift=chosen.shift,
            vectorcardiogram=self.system.augmentation == "3kg",
            recipe=self.model.recipe,
        )


def load(path: Path, given: Sequence[str]) -> Config:
    """The file, and `a.b=c` over it; raises ValueError."""
    config = settings.read(Config, path, given)
    for problem in problems(config):
        raise ValueError(problem)
    return config


def problems(config: Config) -> Iterator[str]:
    """What is wrong with values that are each of the right type."""
    data, train = config.data, config.train
    if not data.path:
        yield "data.path is missing: a dataset folder, as data_tools.shard makes them"
    if data.weights and len(data.weights) != len(data.path):
        yield f"data.weights has {len(data.weights)} values for {len(data.path)} datasets"
    if len(data.weights) == 1:
        yield "data.weights has no effect on a single dataset"
    if (data.cache, data.cache_gb) != (DataConfig.cache, DataConfig.cache_gb) and not any(
        "://" in p for p in data.path
    ):
        yield "data.cache and data.cache_gb have no effect on datasets of this machine"
    if len(set(data.path)) < len(data.path) or not all(data.path):
        yield f"data.path = {list(data.path)} should be datasets, each once"
    if len(set(config.log.to)) < len(config.log.to):
        yield f"log.to = {list(config.log.to)} names one twice"
    if not config.run.dir:
        yield "run.dir is missing: the folder this run is to be kept in"
    for name, value in _positive(config):
        if not (value > 0 and isfinite(value)):
            yield f"{name} = {value} should be more than 0"
    for name, value in {"train.clip": train.clip, "train.weight_decay": train.weight_decay}.items():
        if not (value >= 0 and isfinite(value)):
            yield f"{name} = {value} should be 0 or more"
    if not 0 <= config.run.seed < 2**63:
        yield f"run.seed = {config.run.seed} should be from 0 to below 2**63"
    if len(train.betas) != 2 or not all(0 <= beta < 1 for beta in train.betas):
        yield f"train.betas = {list(train.betas)} should be two numbers from 0 to below 1"
    if train.precision != "fp32" and not train.zero_stage:
        yield f"train.zero_stage = 0 accumulates {train.precision} gradients wrongly in DeepSpeed: 1 costs no more"
    if train.compile is True and train.zero_stage == 3:
        yield "train.compile = true cannot see through train.zero_stage = 3, which gathers weights layer by layer"
    if train.offload != "none" and not train.zero_stage:
        yield "train.offload has no effect with train.zero_stage = 0: choose 1, 2 or 3"
    yield from _of_model(config)
    yield from _of_leads(config)
    if not any(True for _ in _of_model(config)):
        yield from _of_system(config)


def _positive(config: Config) -> Iterator[tuple[str, float]]:
    for part, names in (
        ("data", ("window", "cache_gb", "threads", "prefetch")),
        ("train", ("batch", "epochs", "lr", "eps", "max_bad_updates")),
        ("run", ("log_every", "validate_every", "checkpoint_minutes", "keep_last")),
    ):
        for name in names:
            yield f"{part}.{name}", getattr(getattr(config, part), name)
    optional = {
        "train.updates": config.train.updates,
        "train.contrast_pool": config.train.contrast_pool,
        "run.max_minutes": config.run.max_minutes,
        "run.keep_every": config.run.keep_every,
    }
    yield from ((name, value) for name, value in optional.items() if value is not None)
    if config.train.micro_batch != "auto":
        yield "train.micro_batch", config.train.micro_batch
    for weight in config.data.weights:
        yield "data.weights", weight


def _of_model(config: Config) -> Iterator[str]:
    if config.model.size not in SIZES:
        yield f"model.size = {config.model.size} should be one of {', '.join(SIZES)}"
        return
    if config.train.system not in SYSTEMS or config.train.system == "random_init":
        trained = ", ".join(name for name in SYSTEMS if name != "random_init")
        yield f"train.system = {config.train.system} should be one of {trained}"
        return
    # Twelve leads, and tokens of 16 samples, are part of the method.
    names = [f.name for f in dataclasses.fields(Sizes) if f.name not in ("leads", "conv_blocks")]
    for name in config.model.sizes:
        if name not in names:
            yield f"model.sizes.{name}: there is no such size{settings.nearest(name, names, 'model.sizes')}"
            return
    try:
        config.sizes  # noqa: B018
    except ValueError as failure:
        yield f"model.sizes: {failure}"


def _of_leads(config: Config) -> Iterator[str]:
    leads = config.data.leads
    for lead in leads:
        if lead not in LEADS:
            yield f"data.leads: there is no lead {lead}{settings.nearest(lead, LEADS, '')}"
    if not leads or len(set(leads)) < len(leads):
        yield f"data.leads = {list(leads)} should be some of the twelve, each once"


def _of_system(config: Config) -> Iterator[str]:
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
    if len(config.data.leads) == 1 and drawn.mask_leads:
        yield "augmentation.mask_leads would hide all of a single lead: there is no RLM at one lead (set it to 0)"
    if train.batch % config.contrast_pool:
        yield (
            f"train.batch = {train.batch} pairs are no whole pools of train.contrast_pool = {config.contrast_pool}:"
            " an update may take several pools, and never a part of one"
        )


def accumulation(config: Config, micro_batch: int, ranks: int) -> int:
    """Micro-steps of an update; ValueError where these ranks cannot fill whole pools."""
    if micro_batch in (choices := micro_batches(config, ranks)):
        return config.train.batch // (micro_batch * ranks)
    named = ", ".join(map(str, choices)) or "none: choose another number of ranks"
    raise ValueError(
        f"train.micro_batch = {micro_batch} on {ranks} ranks does not make whole pools of {config.contrast_pool} pairs"
        f" in updates of {config.train.batch}; it may be {named}"
    )


def micro_batches(config: Config, ranks: int) -> list[int]:
    """Those that the method allows: a pool is what one rank holds, or what several hold together."""
    pool, batch = config.contrast_pool, config.train.batch
    parts = range(1, pool + 1) if config.model.recipe == "paper" else [pool]  # the reference's is never shared
    return [
        micro for micro in parts if pool % micro == 0 and ranks % (pool // micro) == 0 and batch % (micro * ranks) == 0
    ]
