import math

import pytest
import torch
from torch import Tensor

from engine.model.quantizer import Quantizer, gumbel_noise, gumbel_temperature
from engine.model.sizes import Sizes

SIZES = Sizes(conv_dim=6, codes=5, contrast_dim=8)
TEMPERATURE = torch.tensor(1.7, dtype=torch.float64)


@pytest.fixture
def quantizer() -> Quantizer:
    torch.manual_seed(0)
    return Quantizer(SIZES).double()


def test_looks_up_the_noisy_best_of_each_group(quantizer: Quantizer) -> None:
    features = torch.randn(3, 4, 6, dtype=torch.float64)
    noise = torch.randn(3, 4, 2, 5, dtype=torch.float64)
    found = quantizer(features, TEMPERATURE, noise)
    logits = (features @ quantizer.logits.weight.T).view(3, 4, 2, 5)
    best = (logits + noise).argmax(-1)
    want = torch.cat([quantizer.codebook[0][best[..., 0]], quantizer.codebook[1][best[..., 1]]], -1)
    torch.testing.assert_close(found.vectors, want)
    torch.testing.assert_close(found.logits, logits)
    assert torch.equal(found.codes, best[..., 0] + 5 * best[..., 1])
    quiet = quantizer.eval()(features, TEMPERATURE)
    assert torch.equal(quiet.codes, logits.argmax(-1)[..., 0] + 5 * logits.argmax(-1)[..., 1])


def test_gradient_is_that_of_the_soft_choice(quantizer: Quantizer) -> None:
    """Of the logits; the codebook has the gradient of the look-up."""
    features = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    noise, direction = torch.randn(2, 3, 2, 5, dtype=torch.float64), torch.randn(2, 3, 8, dtype=torch.float64)
    hard = quantizer(features, TEMPERATURE, noise)
    found = torch.autograd.grad((hard.vectors * direction).sum(), (features, quantizer.codebook))

    soft = ((quantizer.logits(features).view(2, 3, 2, 5) + noise) / TEMPERATURE).softmax(-1)
    vectors = torch.einsum("smgv,gvd->smgd", soft, quantizer.codebook).flatten(-2)
    torch.testing.assert_close(found[0], torch.autograd.grad((vectors * direction).sum(), features)[0])
    codebook = torch.zeros_like(quantizer.codebook)
    for segment in range(2):
        for slot in range(3):
            code = int(hard.codes[segment, slot])
            for group, entry in enumerate((code % 5, code // 5)):
                codebook[group, entry] += direction[segment, slot, 4 * group : 4 * group + 4]
    torch.testing.assert_close(found[1], codebook)


def test_gumbel_noise_is_gumbel() -> None:
    """P(noise <= x) = exp(-exp(-x)): mean 0.5772, variance pi^2 / 6; and a choice by it is a draw by the softmax."""
    torch.manual_seed(0)
    noise = gumbel_noise(torch.empty(400_000, 3))
    assert float(noise.mean()) == pytest.approx(0.5772, abs=0.006)
    assert float(noise.var()) == pytest.approx(math.pi**2 / 6, rel=0.01)
    logits = torch.tensor([0.0, 1.0, 2.0])
    drawn = torch.bincount((logits + noise).argmax(-1), minlength=3) / len(noise)
    torch.testing.assert_close(drawn, logits.softmax(0), rtol=0, atol=0.005)


def test_gumbel_noise_is_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where torch's exponential gives a zero."""

    def zeros(self: Tensor) -> Tensor:
        return self.zero_()

    monkeypatch.setattr(Tensor, "exponential_", zeros)
    assert gumbel_noise(torch.empty(4)).isfinite().all()


def test_temperature_schedule() -> None:
    assert gumbel_temperature(0) == 2
    assert gumbel_temperature(37_000) == pytest.approx(1.66, abs=0.005)
    assert gumbel_temperature(10**6) == 0.5
