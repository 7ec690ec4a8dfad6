"""The encoder in the form that every runtime knows: convolutions, matrix products, softmax, norms."""

import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.encoder import Encoder, mean_over_time


class PlainEncoder(nn.Module):
    """Computes what an `Encoder` computes of unmasked segments of one length, with the same weights."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        stack = encoder.convolutions
        self.convolutions = nn.ModuleList(
            _convolution(layer.weight.detach().unflatten(1, (2, -1)).transpose(1, 2), layer.bias, stride=2)
            for layer in stack.projections
            if isinstance(layer, nn.Linear)  # all are
        )
        self.norms, self.feature_norm, self.projection = stack.norms, encoder.feature_norm, encoder.projection
        positional = encoder.positional
        weight = positional.weight().detach()
        self.positional = _convolution(weight, positional.bias, padding=weight.shape[-1] // 2, groups=positional.groups)
        self.norm, self.layers = encoder.norm, encoder.layers

    def forward(self, signal: Tensor) -> tuple[Tensor, Tensor]:
        """[segments, samples, 12] mV -> embedding [segments, dim], tokens [segments, samples // 16, dim]."""
        x = signal
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.gelu(norm(convolution(x.transpose(1, 2)).transpose(1, 2)))
        x = self.projection(self.feature_norm(x))
        position = self.positional(x.transpose(1, 2))[..., :-1]  # an even kernel gives one more than it takes
        x = self.norm(x + F.gelu(position.transpose(1, 2)))
        for layer in self.layers:
            x = layer(x)
        return mean_over_time(x), x


def _convolution(weight: Tensor, bias: Tensor | None, stride: int = 1, padding: int = 0, groups: int = 1) -> nn.Conv1d:
    """`weight` [out, in / groups, taps]."""
    out, width, taps = weight.shape
    layer = nn.Conv1d(width * groups, out, taps, stride, padding, groups=groups, bias=bias is not None)
    layer.weight = nn.Parameter(weight.contiguous())
    layer.bias = None if bias is None else nn.Parameter(bias.detach())
    return layer
