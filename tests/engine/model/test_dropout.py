import pytest
import torch

from engine.model.dropout import dropout


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.001])
def test_share_of_zeros_and_the_scale_of_the_rest(probability: float) -> None:
    torch.manual_seed(0)
    count = 1_000_003  # no multiple of eight
    x = dropout(torch.ones(count), probability, training=True)
    rounded = max(1, round(256 * probability)) / 256
    assert float((x == 0).float().mean()) == pytest.approx(rounded, abs=5 * (rounded / count) ** 0.5)
    assert x.unique().tolist() == pytest.approx([0.0, 1 / (1 - rounded)])


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = (dropout(torch.ones(1_000_000), 0.1, training=True) == 0).double()
    for distance in (1, 2, 4, 7, 8, 64):
        pair = torch.stack([dropped[:-distance], dropped[distance:]])
        assert abs(float(torch.corrcoef(pair)[0, 1])) < 5e-3


def test_follows_torchs_generator() -> None:
    x = torch.randn(5, 7, 9)
    torch.manual_seed(3)
    first, second = dropout(x, 0.3, True), dropout(x, 0.3, True)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.3, True), first)
    assert not torch.equal(second, first)


def test_the_gradient_has_the_same_zeros() -> None:
    x = torch.randn(1000, requires_grad=True)
    y = dropout(x, 0.3, True)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (y / x).detach())


def test_does_nothing_in_evaluation_and_at_zero() -> None:
    x = torch.randn(8)
    assert dropout(x, 0.3, training=False) is x
    assert dropout(x, 0.0, training=True) is x
