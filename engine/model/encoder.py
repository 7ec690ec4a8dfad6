"""The encoder of the paper: X -> convolutions -> Z, masked in time -> Transformer -> C."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.attention import Layer
from engine.model.convolutions import ConvStack
from engine.model.dropout import dropout
from engine.model.positional import PositionalConv
from engine.model.sizes import PRETRAINING, Dropout, Recipe, Sizes
from engine.precision import at_least_float32


class Encoded(NamedTuple):
    convolved: Tensor  # [segments, tokens, conv_dim], of which the feature penalty is taken
    features: Tensor  # the same, normalised: Z, which the quantizer turns into targets
    contexts: Tensor  # [segments, tokens, dim]: C


class Encoder(nn.Module):
    def __init__(self, sizes: Sizes, recipe: Recipe = "paper", drop: Dropout = PRETRAINING) -> None:
        super().__init__()
        self.sizes = sizes
        self.recipe = recipe
        self.drop = drop
        self.convolutions = ConvStack(sizes, recipe)
        self.feature_norm = nn.LayerNorm(sizes.conv_dim)
        self.projection = nn.Linear(sizes.conv_dim, sizes.dim)
        self.mask_embedding = nn.Parameter(torch.rand(sizes.dim))
        self.positional = PositionalConv(sizes.dim, sizes.position_taps, sizes.position_groups)
        self.norm = nn.LayerNorm(sizes.dim)
        self.layers = nn.ModuleList(Layer(sizes, drop) for _ in range(sizes.layers))
        self.layers.apply(_initialise_as_bert)

    def forward(
        self,
        signal: Tensor,
        masked: Tensor | None = None,
        lengths: Tensor | None = None,
        feature_gradient: float = 1.0,
    ) -> Encoded:
        """`signal` [segments, samples, leads] in mV; absent leads, and what lies beyond a segment's length, are zero.

        `masked` [segments, tokens]: tokens whose features the Transformer does not see.
        `lengths` [segments]: in samples, where segments are shorter than the batch; None where all fill it.
        `feature_gradient`: the share of the gradient that reaches the convolutions.
        """
        convolved = self.convolutions(signal.to(self.projection.weight.dtype))
        if feature_gradient != 1:
            convolved = _ScaledGradient.apply(convolved, feature_gradient)  # type: ignore[no-untyped-call]
        features = self.feature_norm(convolved)
        x = self._dropout(self.projection(features), self.drop.input)
        if masked is not None:
            x = torch.where(masked.unsqueeze(-1), self.mask_embedding, x)
        keys = None
        if lengths is not None:
            keys = valid_tokens(lengths, x.shape[1], self.sizes)
            if self.recipe == "paper":  # the reference lets padding into the positional convolution of its neighbours
                x = x * keys.unsqueeze(-1)
        x = x + F.gelu(self.positional(x))
        x = self._dropout(self.norm(x), self.drop.residual)
        for layer in self.layers:
            x = layer(x, keys)
        return Encoded(convolved, features, x)

    def _dropout(self, x: Tensor, probability: float) -> Tensor:
        return dropout(x, probability, self.training)


def valid_tokens(lengths: Tensor, tokens: int, sizes: Sizes) -> Tensor:
    """[segments] samples -> [segments, tokens]: what is not padding."""
    return torch.arange(tokens, device=lengths.device) < (lengths // sizes.patch).unsqueeze(-1)


def mean_over_time(contexts: Tensor, valid: Tensor | None = None) -> Tensor:
    """[segments, tokens, dim] -> [segments, dim], in float32: the paper's g, over `valid` [segments, tokens] alone."""
    if valid is None:
        return contexts.mean(1, dtype=torch.promote_types(contexts.dtype, torch.float32))
    contexts = at_least_float32(contexts)
    weights = valid.to(contexts.dtype).unsqueeze(-1)
    return (contexts * weights).sum(1) / weights.sum(1)


class _ScaledGradient(torch.autograd.Function):
    """Nothing forward; backward a share of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        ctx.share = share
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.share, None


def _initialise_as_bert(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)
