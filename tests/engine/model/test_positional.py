import pytest
import torch
from torch import Tensor

from benchmarks.positional import direct
from engine.model.positional import PositionalConv, grouped_convolution


def gradients(form: object, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    assert callable(form)
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    y = form(x, weight, 4)
    return (y, *torch.autograd.grad((y * torch.arange(y.numel()).view_as(y)).sum(), (x, weight)))


@pytest.mark.parametrize("tokens", [1, 2, 31, 64, 155, 156, 157, 400])
def test_is_the_direct_convolution(tokens: int) -> None:
    """Whatever the length: shorter than the taps, odd, and longer."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(3, tokens, 16, generator=random, dtype=torch.float64)
    weight = torch.randn(16, 4, 128, generator=random, dtype=torch.float64)
    for found, want in zip(gradients(grouped_convolution, x, weight), gradients(direct, x, weight), strict=True):
        torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9 * float(want.detach().abs().max()))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.bfloat16, 1e-2)])
def test_precision_at_full_size(dtype: torch.dtype, tolerance: float) -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, 156, 768, generator=random).to(dtype)
    weight = torch.randn(768, 48, 128, generator=random).to(dtype)
    exact = direct(x.double(), weight.double(), 16)
    found = grouped_convolution(x, weight, 16)
    assert found.dtype == dtype
    assert float((found.double() - exact).norm() / exact.norm()) < tolerance


def test_one_gain_for_each_tap() -> None:
    conv = PositionalConv(16, 8, 4)
    torch.testing.assert_close(conv.weight(), conv.direction)  # as it begins
    with torch.no_grad():
        conv.gain[3] *= 5
        conv.direction *= 7
    norms = conv.weight().norm(dim=(0, 1))
    torch.testing.assert_close(norms, conv.gain)
