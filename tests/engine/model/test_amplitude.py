"""An encoder that has learnt nothing still shows how large the signal is: without that, nothing could learn it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from data_tools import records
from engine.model.encoder import Encoder
from engine.model.sizes import SIZES, Recipe

pytestmark = pytest.mark.realdata
COHORTS = ("chapman_shaoxing", "cpsc_2018", "georgia", "ningbo", "ptb-xl")
SAMPLES = 2496  # 156 tokens


@pytest.fixture(scope="module")
def segments(realdata: Path) -> Tensor:
    """[segments, samples, leads] mV: the first five seconds of each recording, shuffled."""
    root = realdata / "challenge-2021-mini" / "training"
    headers = sorted(path for cohort in COHORTS for path in (root / cohort).rglob("*.hea"))
    assert len(headers) > 50
    read = [records.read(str(root), str(path.relative_to(root))).signal[:SAMPLES] for path in headers]
    signal = torch.from_numpy(np.stack([s for s in read if len(s) == SAMPLES])).float() / 1000
    return signal[torch.randperm(len(signal), generator=torch.Generator().manual_seed(0))]


def held_out_r2(signal: Tensor, recipe: Recipe) -> float:
    """Of a token's log energy, read by ridge regression from its features; a quarter of the recordings held out."""
    torch.manual_seed(0)
    encoder = Encoder(SIZES["small"], recipe).eval()
    with torch.no_grad():
        features = encoder.feature_norm(encoder.convolutions(signal)).double()  # [segments, tokens, conv_dim]
    energy = signal.double().unflatten(1, (156, 16)).square().mean((2, 3))
    there = energy > 0
    many = len(signal) * 3 // 4
    x, y = features[:many][there[:many]], energy[:many][there[:many]].log()
    x_out, y_out = features[many:][there[many:]], energy[many:][there[many:]].log()
    centred = x - x.mean(0)
    gram = centred.T @ centred
    ridge = 1e-4 * gram.diagonal().mean() * torch.eye(len(gram))
    weights = torch.linalg.solve(gram + ridge, centred.T @ (y - y.mean()))
    residual = y_out - y.mean() - (x_out - x.mean(0)) @ weights
    return 1 - float(residual.square().mean() / y_out.var())


@pytest.mark.parametrize("leads", [range(12), [0]])
def test_log_energy_is_linearly_readable(segments: Tensor, leads: list[int]) -> None:
    signal = torch.zeros_like(segments)
    signal[:, :, list(leads)] = segments[:, :, list(leads)]
    paper, reference = held_out_r2(signal, "paper"), held_out_r2(signal, "reference")
    print(f"held-out R2 with {len(leads)} leads: paper {paper:.3f}, reference {reference:.3f}")
    assert paper > 0.8
    assert paper > reference + 0.2  # whose instance norm takes a segment's scale away
