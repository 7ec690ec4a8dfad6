"""The time mask: which tokens are hidden, in slots whose number never depends on the draw."""

from typing import NamedTuple

import torch
from torch import Tensor

from engine.methods import SPAN


class TimeMask(NamedTuple):
    masked: Tensor  # [segments, tokens], bool
    slots: Tensor  # [segments, slots]: a token each, the masked ones first and in the order of time
    weights: Tensor  # [segments, slots], float32: 1 where the slot's token is masked, else 0


def time_mask(starts: Tensor, tokens: int) -> TimeMask:
    """The union of the spans that begin at `starts` [segments, spans]; as many slots as it can have tokens."""
    since = torch.arange(tokens, device=starts.device) - starts.unsqueeze(-1)  # [segments, spans, tokens]
    masked = ((since >= 0) & (since < SPAN)).any(1)
    return in_slots(masked, min(starts.shape[1] * SPAN, tokens))


def in_slots(masked: Tensor, slots: int) -> TimeMask:
    """`masked` [segments, tokens] must not hold more than `slots` in a row."""
    order = masked.logical_not().to(torch.uint8).argsort(dim=1, stable=True)[:, :slots]
    return TimeMask(masked, order, masked.gather(1, order).float())


def thinned(mask: TimeMask, lots: Tensor) -> TimeMask:
    """As the reference: every row down to the count of the smallest, keeping its lowest `lots` [segments, slots]."""
    lots = lots.masked_fill(mask.weights == 0, 2.0)  # behind every uniform one
    rank = lots.argsort(1).argsort(1)
    kept = rank < mask.weights.sum(1).min()
    masked = torch.zeros_like(mask.masked).scatter(1, mask.slots, kept)
    return in_slots(masked, mask.slots.shape[1])
