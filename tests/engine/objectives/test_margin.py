import math

import pytest
import torch
from torch import Tensor

from engine.objectives.margin import arcface, multi_label


def test_arcface_by_hand() -> None:
    angles = torch.tensor([[0.4, 1.2, 2.0], [1.9, 0.3, 1.0]], dtype=torch.float64)
    person = torch.tensor([0, 2])
    losses = []
    for row, own in zip(angles.tolist(), person.tolist(), strict=True):
        scores = [4 * math.cos(a + 1.0 if j == own else a) for j, a in enumerate(row)]
        losses.append(-scores[own] + math.log(sum(map(math.exp, scores))))
    assert float(arcface(angles.cos(), person, scale=4)) == pytest.approx(sum(losses) / 2, rel=1e-12)


def test_past_pi_the_target_still_falls_with_the_angle() -> None:
    def target(angle: float) -> float:
        """The own logit: what is left of the loss of one person among two, the other's far below."""
        cosines = torch.tensor([[math.cos(angle), -1e3]], dtype=torch.float64)
        other = torch.tensor([[math.cos(angle), 40.0]], dtype=torch.float64)
        assert float(arcface(cosines, torch.tensor([0]), scale=1)) == pytest.approx(0, abs=1e-9)
        return 40 - float(arcface(other, torch.tensor([0]), scale=1))

    assert target(3.0) < target(2.6) < target(2.2) < target(2.0)
    assert target(2.1) == pytest.approx(math.cos(3.1), abs=1e-9)
    assert target(2.2) == pytest.approx(math.cos(2.2) - math.sin(1.0), abs=1e-9)
    assert target(3.0) == pytest.approx(math.cos(3.0) - math.sin(1.0), abs=1e-9)


def test_arcface_gradient() -> None:
    cosines = torch.tensor([[0.9, -0.3, 0.2], [-0.95, 0.5, 0.1]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda c: arcface(c, torch.tensor([0, 0]), scale=8), (cosines,))


@pytest.mark.parametrize(
    ("own", "target"),
    [(1.0, math.cos(1.0)), (1 + 1e-7, math.cos(1.0)), (-1.0, -1 - math.sin(1.0))],  # and rounded up past 1
)
def test_arcface_where_the_sine_has_no_slope(own: float, target: float) -> None:
    """The angles 0 and pi: the cosines are clamped there, and the gradient must not be infinite."""
    cosines = torch.tensor([[own, -own, 0.3]], dtype=torch.float64, requires_grad=True)
    loss = arcface(cosines, torch.tensor([0]), scale=2)
    assert float(loss.detach()) == pytest.approx(
        math.log(sum(math.exp(2 * (score - target)) for score in (target, -own, 0.3))), abs=1e-5
    )
    loss.backward()
    assert cosines.grad is not None and cosines.grad.isfinite().all()
    assert cosines.grad[0, 0] < 0 < cosines.grad[0, 1:].min()  # nearer to oneself, farther from others


def test_multi_label_by_hand() -> None:
    logits = torch.tensor([[2.0, -1.0], [0.0, 3.0]], dtype=torch.float64)
    labels = torch.tensor([[1, 1], [0, 0]])
    want = [math.log1p(math.exp(-2)), math.log1p(math.exp(1)), math.log(2), math.log1p(math.exp(3))]
    assert float(multi_label(logits, labels)) == pytest.approx(sum(want) / 4, rel=1e-12)
    assert torch.autograd.gradcheck(lambda x: multi_label(x, labels), (logits.requires_grad_(),))


def test_half_precision_logits_are_summed_in_float32() -> None:
    logits = torch.tensor([[0.5, -0.25]], dtype=torch.bfloat16)
    for loss in (arcface(logits, torch.tensor([0])), multi_label(logits, torch.ones(1, 2))):
        assert isinstance(loss, Tensor) and loss.dtype == torch.float32
