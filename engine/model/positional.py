"""The positional convolution: 128 taps in 16 groups, as three matrix products.

A grouped convolution this long is slow everywhere: 5 % of the arithmetic takes 20 % of an eager step. In the frequency
domain it is one product per frequency and group, and on 156 tokens the Fourier transforms are products with a small
matrix of sines and cosines themselves. So nothing is left but matrix products, in whatever precision the weights have:
in float32 exact to rounding, in bfloat16 with the errors of bfloat16. `benchmarks/LOG.md` has the other forms.
"""

import math

import torch
from torch import Tensor, nn

from engine.precision import at_least_float32


class PositionalConv(nn.Module):
    """Its weight is normalised over all but the taps: one gain for each tap."""

    def __init__(self, dim: int, taps: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.direction = nn.Parameter(torch.randn(dim, dim // groups, taps) * math.sqrt(4 / (taps * dim)))
        self.gain = nn.Parameter(_norm_of_taps(self.direction.detach()))
        self.bias = nn.Parameter(torch.zeros(dim))

    def weight(self) -> Tensor:
        direction = at_least_float32(self.direction)
        scale = self.gain / _norm_of_taps(direction)
        return (direction * scale).to(self.direction.dtype)  # [dim, dim / groups, taps]

    def forward(self, x: Tensor) -> Tensor:
        """[segments, tokens, dim] -> the same shape: tap k of an output looks at the token k - taps / 2 further on."""
        return grouped_convolution(x, self.weight(), self.groups) + self.bias


def _norm_of_taps(weight: Tensor) -> Tensor:
    """[dim, dim / groups, taps] -> [taps]."""
    # torch's own norm takes seven times as long over dimensions that are not the last.
    return weight.square().sum((0, 1)).sqrt()


def grouped_convolution(x: Tensor, weight: Tensor, groups: int) -> Tensor:
    """`x` [segments, tokens, dim] with zeros around it, correlated with `weight` [dim, dim / groups, taps]."""
    segments, tokens, dim = x.shape
    width, taps = weight.shape[1:]  # of a group
    # On a circle the zeros behind the last token are the zeros before the first: half the taps are enough of them.
    # A rest shorter than the taps would wrap around itself.
    length = max(tokens + taps // 2, taps)
    length += length % 2
    frequencies = length // 2 + 1

    waves = _waves(length, torch.arange(tokens, device=x.device), x.dtype)  # [2, frequencies, tokens]
    spectrum = waves.to(x.dtype).flatten(0, 1) @ x.transpose(0, 1).reshape(tokens, segments * dim)
    # Real and imaginary parts are rows of one product: the weights then need no copy in another order.
    spectrum = spectrum.view(2, frequencies, segments, groups, width).permute(1, 3, 0, 2, 4)
    spectrum = spectrum.reshape(frequencies * groups, 2 * segments, width)
    by_real, by_imaginary = (
        torch.bmm(spectrum, part.transpose(1, 2)).view(frequencies, groups, 2, segments, width)
        for part in _spectral_weight(weight, length, groups)
    )
    # (a + ib)(re - i im) = (a re + b im) + i(b re - a im)
    product = torch.stack([by_real[:, :, 0] + by_imaginary[:, :, 1], by_real[:, :, 1] - by_imaginary[:, :, 0]])
    product = product.permute(0, 1, 3, 2, 4).reshape(2 * frequencies, segments * dim)

    # Every frequency but the first and the last stands for its mirror image too.
    edge = torch.arange(frequencies, device=x.device).unsqueeze(-1) % (frequencies - 1) == 0
    synthesis = torch.where(edge, waves, 2 * waves) / length
    return (synthesis.to(x.dtype).flatten(0, 1).T @ product).view(tokens, segments, dim).transpose(0, 1)


def _spectral_weight(weight: Tensor, length: int, groups: int) -> Tensor:
    """-> [2, frequencies * groups, width out, width in]: real and imaginary part."""
    dim, width, taps = weight.shape
    waves = _waves(length, torch.arange(taps, device=weight.device) - taps // 2, weight.dtype)
    spectrum = waves.to(weight.dtype).flatten(0, 1) @ weight.view(dim * width, taps).T
    return spectrum.view(2, -1, width, width)


def _waves(length: int, positions: Tensor, dtype: torch.dtype) -> Tensor:
    """exp(-2 pi i f t / length) of each frequency at `positions` [n] -> [2, length / 2 + 1, n], at least float32."""
    frequencies = torch.arange(length // 2 + 1, device=positions.device)
    # Whole turns are taken off in integers, where nothing is lost.
    turns = torch.outer(frequencies, positions).remainder(length).to(torch.promote_types(dtype, torch.float32))
    angles = turns * (2 * math.pi / length)
    return torch.stack([angles.cos(), -angles.sin()])
