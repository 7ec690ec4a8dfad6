from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.positional import direct
from engine.model import positional
from engine.model.encoder import Encoder
from engine.model.flops import expected_masked, forward_flops, training_flops
from engine.model.masking import time_mask
from engine.model.sizes import SIZES
from tests.engine import draws

BASE = SIZES["base"]
ENCODER = sum(flops for part, flops in forward_flops(BASE).items() if part != "local")


def counted(of: Any, backward: bool) -> int:
    """By torch, of one segment on tensors without content."""
    encoder = of(BASE).to("meta")
    with FlopCounterMode(display=False) as counter:
        contexts = encoder(torch.empty(1, 2500, 12, device="meta")).contexts
        if backward:
            contexts.sum().backward()
    return counter.get_total_flops()


def test_the_papers_arithmetic() -> None:
    assert BASE.tokens(2500) == 156
    assert sum(forward_flops(BASE).values()) == pytest.approx(29.3e9, rel=1e-3)
    assert training_flops(BASE) == pytest.approx(87.9e9, rel=1e-3)
    shares = {part: flops / sum(forward_flops(BASE).values()) for part, flops in forward_flops(BASE).items()}
    want = {"linears": 0.904, "positional": 0.050, "attention": 0.031, "convolutions": 0.010}
    assert {part: shares[part] for part in want} == pytest.approx(want, abs=6e-4)


def test_torchs_counter_agrees_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positional, "grouped_convolution", direct)
    assert counted(Encoder, backward=False) == pytest.approx(ENCODER, rel=0.01)


def test_torchs_counter_agrees_backward_but_for_the_positional_conv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose backward it counts as if it had no groups."""
    monkeypatch.setattr(positional, "grouped_convolution", lambda x, weight, groups: x)
    without = ENCODER - forward_flops(BASE)["positional"]
    assert counted(Encoder, backward=True) == pytest.approx(3 * without, rel=0.01)


@pytest.mark.parametrize("tokens", [30, 156])
def test_expected_masked(tokens: int) -> None:
    many = time_mask(draws.starts(4000, tokens), tokens).masked.sum(1).double()
    error = float(many.std()) / np.sqrt(4000)
    assert abs(float(many.mean()) - expected_masked(tokens)) < 4 * error
