"""Fine-tuning as a job of the loop."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from engine import released
from engine.config.common import sizes_of
from engine.config.finetuning import FinetuneConfig
from engine.data.chance import LEADS, SEGMENT, Augmentation
from engine.data.pipeline import Batch, Batches
from engine.model.flops import training_flops
from engine.model.sizes import Recipe, Sizes
from engine.scoring import cinc, identification
from engine.scoring.classification import decide
from engine.training.feed import Feed, Reading
from engine.training.job import Job
from engine.training.ranks import Ranks
from engine.training.schedule import tri_stage
from engine.tuner import Freeze, Tuner

_REFERENCE_UPDATES = 320_000  # of its tri-stage learning rate, for identification


class Finetuning(Job):
    higher_is_better, releases_best = True, True

    def __init__(self, config: FinetuneConfig, ranks: Ranks, origin: dict[str, Any] | None = None) -> None:
        self.config: FinetuneConfig = config
        self.ranks = ranks
        self._task = config.train.task
        self._pretrained = None if config.model.fresh or origin else _folder(config)  # a checkpoint's weights follow
        self.origin = origin or _origin(config, self._pretrained)
        self._recipe: Recipe = self.origin["recipe"]
        self._sizes = Sizes(**self.origin["sizes"])
        self._freeze: Freeze = config.model.freeze or ("nothing" if self._recipe == "paper" else "convolutions")
        views = Reading(f"{self._task}-train", f"{self._task}-valid", pairs=False, views=1, augmentation=Augmentation())
        self.feed = Feed(config, ranks, views)
        self._outputs = self._of_head()
        self.title = f"{self._task}, {len(config.data.leads)} leads, {self._outputs} outputs"
        self.segments = config.train.batch
        forward = training_flops(self._sizes, local=False) / 3
        self.flops = forward if self._freeze == "encoder" else 3 * forward
        self.metric = "score" if self._task == "diagnosis" else "rank1"
        self.patience = config.train.patience
        self.constants: Mapping[str, float] = {}

    def _of_head(self) -> int:
        """Classes, or people of the training data."""
        data = self.feed.dataset
        if self._task == "identification":
            if data.identities < 2:
                raise ValueError(f"data.path = {list(self.config.data.path)} has one person to train identification on")
            return data.identities
        cinc.check_classes(data.classes)
        if not data.labels().any():
            raise ValueError(f"data.path = {list(self.config.data.path)}: no segment of diagnosis-train has a label")
        return len(data.classes)

    def build(self, micro_batch: int) -> tuple[nn.Module, dict[str, Tensor], str]:
        torch.manual_seed(self.config.run.seed)
        tuner = self._tuner()
        if self._pretrained is None:
            return tuner, {}, "fresh weights"
        tuner.encoder.load_state_dict(released.load_encoder(self._pretrained)[0].state_dict())
        given = {name: parameter.detach().clone() for name, parameter in tuner.named_parameters()}
        return tuner, given, f"encoder of {self.config.model.from_}, a fresh head"

    def _tuner(self) -> Tuner:
        return Tuner(self._task, self._outputs, self._sizes, self._recipe, self.config.model.dropout, self._freeze)

    def example(self, samples: int) -> tuple[nn.Module, tuple[Any, ...]]:
        device = self.ranks.device
        targets = (
            torch.zeros(samples, self._outputs, device=device)
            if self._task == "diagnosis"
            else torch.zeros(samples, dtype=torch.int64, device=device)
        )
        return self._tuner(), (torch.zeros(samples, SEGMENT, len(LEADS), device=device), targets)

    def validates(self, micro_batch: int) -> bool:
        """Identification: somebody who is in the gallery and a probe, and somebody else."""
        valid = self.feed.valid
        if valid is None or self._task == "diagnosis":
            return valid is not None
        people, segments = np.unique(valid.rows(np.arange(len(valid))).identity, return_counts=True)
        return len(people) > 1 and bool((segments > 1).any())

    def inputs(self, batch: Batch, update: int) -> tuple[Any, ...]:
        targets = batch.classes if self._task == "diagnosis" else batch.identity
        return batch.signal.flatten(0, 1), targets

    def learning_rate(self, update: int) -> float:
        train = self.config.train
        of_reference = self._recipe == "reference" and self._task == "identification"
        updates = train.tri_stage or (_REFERENCE_UPDATES if of_reference else None)
        return train.lr * (tri_stage(update, updates) if updates else 1.0)

    def validation(self, micro_batch: int) -> Batches:
        return self.feed.whole_validation(micro_batch)

    def judge(self, engine: nn.Module, batch: Batch, update: int) -> tuple[Tensor, Tensor, Tensor]:
        """-> outputs, targets and positions of its samples."""
        seen = torch.from_numpy(batch.plan.valid)  # the last batch is filled up
        signal, target = self.inputs(batch, update)
        outputs = engine(signal).outputs
        return outputs.cpu()[seen], target.cpu()[seen], torch.from_numpy(batch.plan.position)[seen]

    def scores(self, judged: Sequence[tuple[Tensor, Tensor, Tensor]]) -> dict[str, float]:
        found, wanted, places = self._of_all_ranks(*map(torch.cat, zip(*judged, strict=True)))
        order = places.argsort()  # the same for every number of ranks
        found, wanted = found[order], wanted[order]
        if not np.isfinite(found).all():  # training has gone astray, and says so itself
            return {self.metric: float("nan")}
        return self._diagnosis(found, wanted) if self._task == "diagnosis" else _identification(found, wanted)

    def _of_all_ranks(self, *tensors: Tensor) -> list[NDArray]:
        parts: list[Any] = [None] * self.ranks.world
        dist.all_gather_object(parts, [tensor.numpy() for tensor in tensors], self.ranks.control)
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def _diagnosis(self, outputs: NDArray, targets: NDArray) -> dict[str, float]:
        said = decide(1 / (1 + np.exp(-outputs.astype(np.float64))))
        return {"score": cinc.score(targets, said, self.feed.dataset.classes)}

    def remarks(self, values: Mapping[str, float]) -> Iterator[str]:
        yield from ()

    def release(self, folder: Path, weights: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        """The head of identification knows the people of the training data, and nobody else: it stays behind."""
        kept = {name: value for name, value in weights.items() if self._task == "diagnosis" or "head." not in name}
        about = {
            "task": self._task,
            "trained_leads": list(self.config.data.leads),
            "data": self.feed.dataset.fingerprints,
            "pretrained": self.origin["pretrained"],
            **({"classes": self.feed.dataset.classes} if self._task == "diagnosis" else {}),
            **about,
        }
        released.save(folder, kept, self._recipe, self._sizes, about)


def _identification(outputs: NDArray, targets: NDArray) -> dict[str, float]:
    """The first segment of each person is the gallery's."""
    order = np.argsort(targets, kind="stable")
    first = np.r_[True, np.diff(targets[order]) > 0]
    gallery, probe = order[first], order[~first]
    found = identification.identify(outputs[gallery], targets[gallery], outputs[probe], targets[probe])
    return {"rank1": found.rank1, "rank5": found.rank5, "equal_error_rate": found.equal_error_rate}


def _folder(config: FinetuneConfig) -> Path:
    return released.find(Path(config.model.from_).expanduser(), "model.from = ")


def _origin(config: FinetuneConfig, pretrained: Path | None) -> dict[str, Any]:
    """Recipe and sizes, and what was trained before, and before that."""
    if pretrained is None:
        sizes = asdict(sizes_of(config.model.size or "base", config.model.sizes))
        return {"recipe": config.model.recipe or "paper", "sizes": sizes, "pretrained": None}
    described = released.describe(pretrained)
    return {"recipe": described["recipe"], "sizes": described["sizes"], "pretrained": released.origin(described)}
