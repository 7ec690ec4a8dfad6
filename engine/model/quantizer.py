"""The Gumbel quantizer: a feature becomes one entry of each of two codebooks, by a choice that gradients pass."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.sizes import Sizes
from engine.precision import at_least_float32


class Quantized(NamedTuple):
    vectors: Tensor  # [segments, slots, contrast_dim]
    codes: Tensor  # [segments, slots]: equal where every group chose alike
    logits: Tensor  # [segments, slots, groups, codes], float32


def gumbel_temperature(updates: int) -> float:
    """The schedule of the reference, after so many updates."""
    return max(2 * 0.999995**updates, 0.5)


class Quantizer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.groups, self.codes = sizes.code_groups, sizes.codes
        self.logits = nn.Linear(sizes.conv_dim, self.groups * self.codes)
        nn.init.normal_(self.logits.weight)
        nn.init.zeros_(self.logits.bias)
        self.codebook = nn.Parameter(torch.rand(self.groups, self.codes, sizes.contrast_dim // self.groups))

    def forward(self, features: Tensor, temperature: Tensor, noise: Tensor | None = None) -> Quantized:
        """`features` [segments, slots, conv_dim]; `noise` [segments, slots, groups, codes], drawn here where None."""
        logits = at_least_float32(self.logits(features)).unflatten(-1, (self.groups, self.codes))
        if self.training:
            # The softmax at this temperature is what gradients see; the choice itself does not depend on it.
            noisy = (logits + (gumbel_noise(logits) if noise is None else noise)) / temperature
            index = noisy.argmax(-1)  # [segments, slots, groups]
            chosen = _StraightThrough.apply(noisy.softmax(-1), index)  # type: ignore[no-untyped-call]
        else:
            index = logits.argmax(-1)
            chosen = F.one_hot(index, self.codes).to(logits.dtype)
        # A product with a one in every row is a look-up, and its gradient needs no [slots, codes, dim] in memory.
        vectors = torch.einsum("smgv,gvd->smgd", chosen.to(self.codebook.dtype), self.codebook).flatten(-2)
        places = self.codes ** torch.arange(self.groups, device=index.device)
        return Quantized(vectors, (index * places).sum(-1), logits)


def gumbel_noise(like: Tensor) -> Tensor:
    """-log(-log(uniform)), and never infinite."""
    smallest = torch.finfo(like.dtype).tiny
    return -torch.empty_like(like).exponential_().clamp_min(smallest).log()


class _StraightThrough(torch.autograd.Function):
    """Forward the hard choice; backward as if the soft one had been taken."""

    @staticmethod
    def forward(ctx: Any, soft: Tensor, index: Tensor) -> Tensor:
        return torch.zeros_like(soft).scatter_(-1, index.unsqueeze(-1), 1.0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None
