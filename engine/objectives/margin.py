"""Fine-tuning: ArcFace for identification, and the labels of diagnosis, of which several may hold."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.precision import at_least_float32

SCALE, MARGIN = 192.0, 1.0


def arcface(cosines: Tensor, person: Tensor, scale: float = SCALE, margin: float = MARGIN) -> Tensor:
    """`cosines` [segments, people], `person` [segments]: to one's own person the angle counts `margin` more."""
    cosines = at_least_float32(cosines)
    own = cosines.gather(1, person.unsqueeze(1))
    sine = (1 - own.square()).clamp_min(1e-12).sqrt()  # of exactly 0 the root has no gradient
    farther = own * math.cos(margin) - sine * math.sin(margin)  # cos(angle + margin)
    # Past pi the cosine would rise again: the reference goes on in a straight line.
    farther = torch.where(own > math.cos(math.pi - margin), farther, own - margin * math.sin(margin))
    return F.cross_entropy(cosines.scatter(1, person.unsqueeze(1), farther) * scale, person)


def multi_label(logits: Tensor, labels: Tensor) -> Tensor:
    """`logits`, `labels` [segments, classes]: binary cross-entropy, the mean over all of them."""
    logits = at_least_float32(logits)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
