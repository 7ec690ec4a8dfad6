"""The convolutions that turn 16 samples of all leads into a token."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.sizes import Recipe, Sizes
from engine.precision import at_least_float32


class ConvStack(nn.Module):
    """Blocks of a convolution with kernel = stride = 2, each of which halves the rate."""

    def __init__(self, sizes: Sizes, recipe: Recipe) -> None:
        super().__init__()
        widths = [sizes.leads] + [sizes.conv_dim] * sizes.conv_blocks
        # The paper: layer norm in every block. The bias before it keeps amplitude visible: without one, the norm of
        # a block that does not overlap its neighbours takes out whatever scale the signal had.
        biased = recipe == "paper"
        projections = [nn.Linear(2 * a, b, biased) for a, b in pairwise(widths)]
        for projection in projections:
            nn.init.kaiming_normal_(projection.weight)
        self.projections = nn.ModuleList(projections)
        if recipe == "paper":
            self.norms = nn.ModuleList(nn.LayerNorm(sizes.conv_dim) for _ in self.projections)
        else:
            self.norms = nn.ModuleList([InstanceNorm(sizes.conv_dim)])
            self.norms.extend(nn.Identity() for _ in self.projections[1:])

    def forward(self, signal: Tensor) -> Tensor:
        """[segments, samples, leads] -> [segments, samples // 16, conv_dim]."""
        x = signal
        for projection, norm in zip(self.projections, self.norms, strict=True):
            x = F.gelu(norm(projection(_side_by_side(x))))
        return x


def _side_by_side(x: Tensor) -> Tensor:
    """Two samples in one row; an odd last one is dropped."""
    segments, samples, channels = x.shape
    return x[:, : samples // 2 * 2].reshape(segments, samples // 2, 2 * channels)


class InstanceNorm(nn.Module):
    """Every channel of every segment to mean 0 and variance 1 over time, then scaled and shifted."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        precise = at_least_float32(x)  # [segments, steps, channels]
        variance, mean = torch.var_mean(precise, 1, correction=0, keepdim=True)
        return ((precise - mean) * torch.rsqrt(variance + 1e-5) * self.weight + self.bias).to(x.dtype)
