"""Multi-head self-attention and the post-norm Transformer layer around it (BERT)."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.dropout import dropout
from engine.model.sizes import Dropout, Sizes


class SelfAttention(nn.Module):
    def __init__(self, sizes: Sizes, drop: Dropout) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.drop = drop.attention
        self.qkv = nn.Linear(sizes.dim, 3 * sizes.dim)
        self.out = nn.Linear(sizes.dim, sizes.dim)

    def forward(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """`x` [segments, tokens, dim]; `keys` [segments, tokens]: which tokens may be looked at, None: all."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # [segments, heads, tokens, .]
        # On a GPU the fused kernels never store the attention; on a CPU their backward takes four times as long.
        attend = _explicit if x.device.type == "cpu" else _fused
        seen = None if keys is None else keys[:, None, None, :]
        mixed = attend(q, k, v, seen, self.drop if self.training else 0.0)
        output: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return output


def _fused(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, drop: float) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=drop)


def _explicit(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, drop: float) -> Tensor:
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2)  # [segments, heads, tokens, tokens]
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    return dropout(scores.softmax(-1), drop, drop > 0) @ v


class Layer(nn.Module):
    def __init__(self, sizes: Sizes, drop: Dropout) -> None:
        super().__init__()
        self.drop = drop
        self.attention = SelfAttention(sizes, drop)
        self.attention_norm = nn.LayerNorm(sizes.dim)
        self.expand = nn.Linear(sizes.dim, sizes.feedforward)
        self.contract = nn.Linear(sizes.feedforward, sizes.dim)
        self.norm = nn.LayerNorm(sizes.dim)

    def forward(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        x = self.attention_norm(x + self._dropout(self.attention(x, keys), self.drop.residual))
        inner = self._dropout(F.gelu(self.expand(x)), self.drop.activation)
        output: Tensor = self.norm(x + self._dropout(self.contract(inner), self.drop.residual))
        return output

    def _dropout(self, x: Tensor, probability: float) -> Tensor:
        return dropout(x, probability, self.training)
