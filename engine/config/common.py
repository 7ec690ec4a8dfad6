"""What pre-training and fine-tuning are both told."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

from engine import settings
from engine.data.chance import LEADS
from engine.model.sizes import SIZES, Sizes

FIXED_SIZES = ("leads", "conv_blocks")  # twelve, and tokens of 16 samples: part of the method
Tracker = Literal["tensorboard", "wandb", "mlflow", "trackio"]


@dataclass(frozen=True)
class DataConfig:
    path: tuple[str, ...] = ()  # dataset folders, or addresses of an object store
    weights: tuple[float, ...] = ()  # how often an epoch takes each sample of each folder; none: once
    leads: tuple[str, ...] = LEADS  # those the model may see
    window: int = 8  # files that are shuffled among each other
    verify: bool = False  # the files' contents before the start, not only their sizes
    cache: str = "~/.cache/leadwise"  # where files of an object store are kept
    cache_gb: float = 64.0  # how much of them, at most
    threads: int = 2  # of DALI, in each rank
    prefetch: int = 2  # batches that are made ahead


@dataclass(frozen=True)
class TrainConfig:
    batch: int = 512  # samples of one update, over all ranks
    # Samples that one rank holds at a time; auto: the most that fit its memory, among those that the method allows, and
    # after a resume as before it.
    micro_batch: int | Literal["auto"] = "auto"
    epochs: int = 200  # passes over the data
    updates: int | None = None  # stop there, if that is sooner
    lr: float = 5e-5  # AdamW's learning rate
    betas: tuple[float, ...] = (0.9, 0.98)  # AdamW's
    eps: float = 1e-6  # AdamW's
    weight_decay: float = 0.01  # AdamW's, of every parameter
    clip: float = 0.0  # the largest norm of a gradient; 0: any
    precision: Literal["bf16", "fp16", "fp32"] = "bf16"  # of the arithmetic; master weights and moments are fp32
    zero_stage: Literal[0, 1, 2, 3] = 1  # DeepSpeed's: what is shared out over the ranks
    offload: Literal["none", "cpu"] = "none"  # where moments and master weights are kept; none: on the device
    compile: bool | Literal["auto"] = "auto"  # torch.compile; auto: on a GPU, up to zero_stage 2
    max_bad_updates: int = 10  # in a row, with a loss or gradient that is no number, before the run stops


@dataclass(frozen=True)
class RunConfig:
    dir: str = ""  # the folder that the run is kept in
    seed: int = 0  # of everything random
    max_minutes: float | None = None  # save and stop after so many; none: never
    log_every: int = 10  # updates from report to report
    validate_every: int | None = None  # updates from validation to validation; none: an epoch's
    checkpoint_minutes: float = 10.0  # from checkpoint to checkpoint
    keep_last: int = 2  # checkpoints; beside them the best one is kept
    keep_every: int | None = None  # updates: a checkpoint each time, which is never deleted; none: no such


@dataclass(frozen=True)
class LogConfig:
    to: tuple[Tracker, ...] = ("tensorboard",)  # beside RUN/metrics.jsonl, which is always written


@dataclass(frozen=True)
class Config(ABC):
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    run: RunConfig = RunConfig()
    log: LogConfig = LogConfig()
    deepspeed: Mapping[str, Any] = field(
        default_factory=dict
    )  # its own settings, passed through, where no other setting makes them

    @property
    @abstractmethod
    def whole(self) -> str:
        """What an update has to be made of, whatever the number of ranks."""

    @abstractmethod
    def micro_batches(self, ranks: int) -> list[int]:
        """Those that the method allows on so many ranks, ascending."""

    @abstractmethod
    def problems(self) -> Iterator[str]:
        """What is wrong with values that are each of the right type."""


AnyConfig = TypeVar("AnyConfig", bound=Config)


def load(of: type[AnyConfig], path: Path, given: Sequence[str]) -> AnyConfig:
    """The file, and `a.b=c` over it; raises ValueError."""
    config = settings.read(of, path, given)
    for problem in config.problems():
        raise ValueError(problem)
    return config


def accumulation(config: Config, micro_batch: int, ranks: int) -> int:
    """Micro-steps of an update; ValueError where these ranks cannot make it so."""
    if micro_batch in (choices := config.micro_batches(ranks)):
        return config.train.batch // (micro_batch * ranks)
    named = ", ".join(map(str, choices)) or "none: choose another number of ranks"
    raise ValueError(
        f"train.micro_batch = {micro_batch} on {ranks} ranks does not make {config.whole}"
        f" in updates of {config.train.batch}; it may be {named}"
    )


def common_problems(config: Config) -> Iterator[str]:
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
    yield from _of_leads(data.leads)


def _positive(config: Config) -> Iterator[tuple[str, float]]:
    for part, names in (
        ("data", ("window", "cache_gb", "threads", "prefetch")),
        ("train", ("batch", "epochs", "lr", "eps", "max_bad_updates")),
        ("run", ("log_every", "checkpoint_minutes", "keep_last")),
    ):
        for name in names:
            yield f"{part}.{name}", getattr(getattr(config, part), name)
    optional = {
        "train.updates": config.train.updates,
        "run.max_minutes": config.run.max_minutes,
        "run.validate_every": config.run.validate_every,
        "run.keep_every": config.run.keep_every,
    }
    yield from ((name, value) for name, value in optional.items() if value is not None)
    if config.train.micro_batch != "auto":
        yield "train.micro_batch", config.train.micro_batch
    for weight in config.data.weights:
        yield "data.weights", weight


def _of_leads(leads: Sequence[str]) -> Iterator[str]:
    for lead in leads:
        if lead not in LEADS:
            yield f"data.leads: there is no lead {lead}{settings.nearest(lead, LEADS, '')}"
    if not leads or len(set(leads)) < len(leads):
        yield f"data.leads = {list(leads)} should be some of the twelve, each once"


def size_problems(size: str, changed: Mapping[str, int]) -> Iterator[str]:
    if size not in SIZES:
        yield f"model.size = {size} should be one of {', '.join(SIZES)}"
        return
    names = [f.name for f in fields(Sizes) if f.name not in FIXED_SIZES]
    for name in changed:
        if name not in names:
            yield f"model.sizes.{name}: there is no such size{settings.nearest(name, names, 'model.sizes')}"
            return
    try:
        sizes_of(size, changed)
    except ValueError as failure:
        yield f"model.sizes: {failure}"


def sizes_of(size: str, changed: Mapping[str, int]) -> Sizes:
    """The size of that name, and what differs from it."""
    named = SIZES[size]
    return Sizes(**{f.name: changed.get(f.name, getattr(named, f.name)) for f in fields(Sizes)})
