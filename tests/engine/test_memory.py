"""Bytes alive at once, counted on tensors without content."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.model.quantizer import Quantizer
from engine.model.sizes import SIZES
from engine.objectives import contrast, local

SEGMENTS, SLOTS = 1024, 100
BASE = SIZES["base"]


class PeakBytes(TorchDispatchMode):
    """Of the storages made inside it, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                key = id(storage)
                if key not in self.live:
                    self.live[key] = storage.nbytes()
                    weakref.finalize(storage, self.live.pop, key)
        self.peak = max(self.peak, sum(self.live.values()))
        return result


def gigabytes(of: Callable[[], Tensor]) -> float:
    with PeakBytes() as counted:
        of().backward()
    return counted.peak / 1e9


def features(slots: int, dim: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(SEGMENTS, slots, dim, device="meta", dtype=dtype, requires_grad=True)


def quantizer_and_both_objectives(dtype: torch.dtype) -> Tensor:
    quantizer = Quantizer(BASE).to("meta", dtype)
    weights = torch.empty(SEGMENTS, SLOTS, device="meta")
    quantized = quantizer(features(SLOTS, BASE.conv_dim, dtype), torch.empty((), device="meta"))
    logits = local.logits(features(SLOTS, BASE.contrast_dim, dtype), quantized.vectors, quantized.codes, weights)
    shares = local.probable_codes(quantized.logits, weights)
    best = local.best_codes(quantized.logits, weights)
    watched = local.local_metrics(logits, weights)
    pooled = torch.empty(SEGMENTS, BASE.dim, device="meta", requires_grad=True)
    identity = torch.empty(SEGMENTS, device="meta", dtype=torch.int64)
    total = local.mean_of_segments(local.info_nce(logits), weights) + local.perplexity(shares)
    return total + best.sum() + watched.accuracy + contrast.nt_xent(contrast.pool(pooled, identity)).loss


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_whole_update_of_the_paper_stays_under_four_gigabytes(dtype: torch.dtype) -> None:
    assert 1 < gigabytes(lambda: quantizer_and_both_objectives(dtype)) < 4


def test_the_naive_form_needs_33() -> None:
    """Each code times the codebook, and 100 gathered negatives for each of 76 masked tokens: forward alone, counted
    as above."""
    masked = 76

    def naive() -> Tensor:
        chosen = torch.empty(SEGMENTS * masked, 640, 1, device="meta", requires_grad=True)
        codebook = torch.empty(1, 640, 128, device="meta")
        negatives = features(masked, 256, torch.float32).unsqueeze(2).expand(-1, -1, 100, -1).contiguous()
        return (chosen * codebook).sum() + negatives.sum()

    with PeakBytes() as counted:
        naive()
    assert counted.peak / 1e9 == pytest.approx(25.5 + 8.0, rel=0.02)
