"""Batches and draws for the tests."""

import numpy as np
import torch
from torch import Tensor

from engine.methods import SPAN, SPANS, System


def starts(segments: int, tokens: int = 156, seed: int = 0) -> Tensor:
    """[segments, spans]: without replacement, in [0, tokens - span]."""
    random = np.random.default_rng(seed)
    return torch.from_numpy(np.stack([random.choice(tokens - SPAN + 1, SPANS, False) for _ in range(segments)]))


def starts_for(system: System, segments: int, seed: int = 0) -> Tensor | None:
    return starts(segments, seed=seed) if system.time_mask else None


def batch(pairs: int, seed: int = 0, samples: int = 2500) -> Tensor:
    """[pairs, 2, samples, 12] mV, noise."""
    return torch.randn(pairs, 2, samples, 12, generator=torch.Generator().manual_seed(seed))
