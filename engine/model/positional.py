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
        self.gain = nn.Parameter(self.direction.detach().norm(dim=(0, 1)))
        self.bias = nn.Parameter(torch.zeros(dim))

    def weight(self) -> Tensor:
        direction = at_least_float32(self.direction)
        unit: Tensor = direction / torch.linalg.vector_norm(direction, dim=(0, 1))
        return (unit * self.gain).to(self.direction.dtype)  # [dim, dim / groups, taps]

    def forward(self, x: Tensor) -> Tensor:
        """[segments, tokens, dim] -> the same shape: tap k of an output looks at the token k - taps / 2 further on."""
        return grouped_convolution(x, self.weight(), self.groups) + self.bias


def grouped_convolution(x: Tensor, weight: Tensor, groups: int) -> Tensor:
    """`x` [segments, tokens, dim] with zeros around it, correlated with `weight` [dim, dim / groups, taps]."""
    segments, tokens, dim = x.shape
    width, taps = weight.shape[1:]  # of a group
    # On a circle the zeros behind the last token are the zeros before the first: half the taps are enough of them.
    # A rest shorter than the taps would wrap around itself.
    length = max(tokens + taps // 2, taps)
    length += length % 2
    frequencies = length // 2 + 1

    waves = _waves(length, torch.arange(tokens, device=x.device), x.dtype)  # [frequencies, 2, tokens]
    spectrum = waves.to(x.dtype).flatten(0, 1) @ x.transpose(0, 1).reshape(tokens, segments * dim)
    spectrum = spectrum.view(frequencies, 2, segments, groups, width).permute(0, 3, 2, 1, 4)
    spectrum = spectrum.reshape(frequencies * groups, segments, 2 * width)  # real and imaginary parts side by side

    product = torch.bmm(spectrum, _spectral_weight(weight, length, groups))
    product = product.view(frequencies, groups, segments, 2, width).permute(0, 3, 2, 1, 4)
    product = product.reshape(frequencies * 2, segments * dim)

    # Every frequency but the first and the last stands for its mirror image too.
    edge = torch.arange(frequencies, device=x.device).view(-1, 1, 1) % (frequencies - 1) == 0
    synthesis = torch.where(edge, waves, 2 * waves) / length
    return (synthesis.to(x.dtype).flatten(0, 1).T @ product).view(tokens, segments, dim).transpose(0, 1)


def _spectral_weight(weight: Tensor, length: int, groups: int) -> Tensor:
    """-> [frequencies * groups, 2 * width in, 2 * width out]: products with conj(W), as real numbers."""
    dim, width, taps = weight.shape
    shifts = torch.arange(taps, device=weight.device) - taps // 2
    real, imaginary = _waves(length, shifts, weight.dtype).unbind(1)
    # (a + ib)(re - i im) = (a re + b im) + i(b re - a im), which for a row (a, b) is a matrix of four blocks.
    blocks = torch.stack([real, -imaginary, imaginary, real], 1).to(weight.dtype)  # [frequencies, 4, taps]
    spectrum = blocks.flatten(0, 1) @ weight.permute(2, 0, 1).reshape(taps, dim * width)
    spectrum = spectrum.view(-1, 2, 2, groups, width, width)  # part in, part out, group, channel out, channel in
    return spectrum.permute(0, 3, 1, 5, 2, 4).reshape(-1, 2 * width, 2 * width)


def _waves(length: int, positions: Tensor, dtype: torch.dtype) -> Tensor:
    """exp(-2 pi i f t / length) of each frequency at `positions` [n] -> [length / 2 + 1, 2, n], at least float32."""
    frequencies = torch.arange(length // 2 + 1, device=positions.device)
    # Whole turns are taken off in integers, where nothing is lost.
    turns = torch.outer(frequencies, positions).remainder(length).to(torch.promote_types(dtype, torch.float32))
    angles = turns * (2 * math.pi / length)
    return torch.stack([angles.cos(), -angles.sin()], 1)
