"""What an encoder makes of segments: the mean over time of its contexts."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine import hardware, released
from engine.data.dataset import Dataset
from engine.evaluation import outputs
from engine.model.encoder import mean_over_time
from engine.model.flops import training_flops
from engine.model.sizes import Sizes
from engine.scoring.identification import unit

Floats = NDArray[np.float64]

_LARGE = 5e9  # FLOPs of a segment: size base has 29e9, small 4e9


def embed(model: Path, dataset: Dataset, samples: NDArray[np.int64]) -> NDArray[np.float32]:
    """[n, dim], of the leads that the model was trained with."""
    encoder, described = released.load_encoder(model)

    def of_batch(signal: Tensor) -> Tensor:
        return mean_over_time(encoder(signal).contexts)

    device = hardware.device()
    found = outputs(encoder, of_batch, dataset, described["trained_leads"], device, samples)
    if not np.isfinite(found).all():
        raise ValueError(f"{model} gives no numbers for {(~np.isfinite(found)).any(1).sum()} of {len(found)} segments")
    return found


def affordable(model: Path) -> int:
    """Segments to embed: a minute or two, of a large encoder on a CPU too."""
    forward = training_flops(Sizes(**released.describe(model)["sizes"]), local=False) / 3
    return 1024 if torch.cuda.is_available() or forward < _LARGE else 256


class Neighbours(NamedTuple):
    nearest: NDArray[np.intp]  # [P, k] gallery entries, the nearest first
    cosine: Floats  # [P, k]
    own: Floats  # [P] the cosine of the probe's own person, the nearest of whose entries counts
    own_rank: NDArray[np.intp]  # [P] one, and how many gallery entries are nearer than that


def neighbours(gallery: NDArray, gallery_people: NDArray, probe: NDArray, probe_people: NDArray, k: int) -> Neighbours:
    """Each probe's person is in the gallery."""
    cosines = unit(probe) @ unit(gallery).T
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    own = np.where(probe_people[:, None] == gallery_people, cosines, -np.inf).max(1)
    return Neighbours(order, np.take_along_axis(cosines, order, 1), own, 1 + (cosines > own[:, None]).sum(1))


class Components(NamedTuple):
    places: Floats  # [n, 2]
    explained: tuple[float, float]  # share of the variance


def principal_components(embeddings: NDArray) -> Components:
    """The first two. The sign of each is such that its largest place is positive."""
    centred = embeddings.astype(np.float64) - embeddings.mean(0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    places = left[:, :2] * sizes[:2]
    places *= np.sign(places[np.abs(places).argmax(0), [0, 1]])
    shares = sizes**2 / (sizes**2).sum()
    return Components(places, (float(shares[0]), float(shares[1])))


def one_of_the_commonest(
    labels: NDArray[np.bool_], classes: Sequence[str], most: int
) -> tuple[list[str], NDArray[np.int64]]:
    """The `most` commonest classes -> their names, and of each segment which of these it has; -1: none, or several."""
    counts = labels.sum(0)
    chosen = [int(one) for one in np.argsort(-counts, kind="stable")[:most] if counts[one]]
    theirs = labels[:, chosen]
    found = np.where(theirs.sum(1) == 1, theirs.argmax(1) if chosen else -1, -1)
    return [classes[column] for column in chosen], found
