import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.objectives import contrast

Objective = Callable[[contrast.Pool], contrast.Contrast]
IDENTITY = torch.tensor([0, 0, 1, 1, 2, 2, 0, 0])  # person 0 gives two pairs


@pytest.fixture
def vectors() -> Tensor:
    return torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def score(vectors: Tensor, i: int, j: int) -> float:
    return math.exp(float(torch.cosine_similarity(vectors[i], vectors[j], dim=0)) / 0.1)


def test_nt_xent_pair_by_pair(vectors: Tensor) -> None:
    losses = []
    for i in range(8):
        against = sum(score(vectors, i, k) for k in range(8) if k != i)
        losses += [-math.log(score(vectors, i, j) / against) for j in range(8) if j != i and IDENTITY[i] == IDENTITY[j]]
    assert len(losses) == 16
    result = contrast.nt_xent(contrast.pool(vectors, IDENTITY))
    assert float(result.loss) == pytest.approx(sum(losses) / 16, rel=1e-12)
    assert float(result.chance) == pytest.approx(math.log(7))


def test_3kg_leaves_other_positives_out_of_the_denominator(vectors: Tensor) -> None:
    losses = []
    for i in range(8):
        negatives = sum(score(vectors, i, k) for k in range(8) if IDENTITY[k] != IDENTITY[i])
        for j in range(8):
            if j != i and IDENTITY[i] == IDENTITY[j]:
                positive = score(vectors, i, j)
                losses.append(-math.log(positive / (positive + negatives)))
    result = contrast.multi_positive(contrast.pool(vectors, IDENTITY))
    assert float(result.loss) == pytest.approx(sum(losses) / 8, rel=1e-12)  # over the rows, as the reference


def test_with_one_positive_each_the_two_are_the_same(vectors: Tensor) -> None:
    pool = contrast.pool(vectors, torch.arange(4).repeat_interleave(2))
    assert float(contrast.nt_xent(pool).loss) == pytest.approx(float(contrast.multi_positive(pool).loss), rel=1e-12)


@pytest.mark.parametrize("objective", [contrast.nt_xent, contrast.multi_positive])
def test_chance_is_the_loss_of_equal_vectors(objective: Objective) -> None:
    result = objective(contrast.pool(torch.ones(8, 5, dtype=torch.float64), IDENTITY))
    assert float(result.loss) == pytest.approx(float(result.chance), rel=1e-9)


def test_reference_by_hand(vectors: Tensor) -> None:
    pairs, identity = vectors.view(4, 2, 5), IDENTITY[::2]
    rows, columns = [], []
    for i in range(4):
        for j in range(4):
            if identity[i] == identity[j]:
                here = score(vectors, 2 * i, 2 * j + 1)
                rows.append(-math.log(here / sum(score(vectors, 2 * i, 2 * k + 1) for k in range(4))))
                columns.append(-math.log(here / sum(score(vectors, 2 * k, 2 * j + 1) for k in range(4))))
    result = contrast.first_against_second(pairs, identity)
    assert float(result.loss) == pytest.approx((sum(rows) / 6 + sum(columns) / 6) / 2, rel=1e-12)
    assert float(result.chance) == pytest.approx(math.log(4))


@pytest.mark.parametrize("objective", [contrast.nt_xent, contrast.multi_positive])
def test_gradients(objective: Objective, vectors: Tensor) -> None:
    vectors.requires_grad_()
    assert torch.autograd.gradcheck(lambda v: objective(contrast.pool(v, IDENTITY)).loss, (vectors,))


def test_the_references_norm_is_a_constant(vectors: Tensor) -> None:
    """Its gradient is that of the plain products of vectors that were scaled to length 1 beforehand."""
    pairs = vectors.view(4, 2, 5).requires_grad_()
    norms = pairs.detach().norm(dim=-1, keepdim=True)
    contrast.first_against_second(pairs, IDENTITY[::2]).loss.backward()
    found, pairs.grad = pairs.grad, None
    logits = (pairs[:, 0] / norms[:, 0]) @ (pairs[:, 1] / norms[:, 1]).T / 0.1
    same = (IDENTITY[::2].unsqueeze(1) == IDENTITY[::2]).double()
    loss = -((logits.log_softmax(1) + logits.log_softmax(0)) * same).sum() / same.sum() / 2
    loss.backward()
    torch.testing.assert_close(found, pairs.grad)


def test_retrieval() -> None:
    corners = torch.eye(4, dtype=torch.float64).repeat_interleave(2, 0)
    identity = torch.arange(4).repeat_interleave(2)
    assert float(contrast.nt_xent(contrast.pool(corners, identity)).retrieval) == 1
    apart = torch.eye(4, dtype=torch.float64).repeat(2, 1)  # each nearest to the one four rows on
    assert float(contrast.nt_xent(contrast.pool(apart, identity)).retrieval) == 0


@pytest.mark.parametrize("objective", [contrast.nt_xent, contrast.multi_positive])
def test_finite_where_all_are_one_person_and_all_vectors_zero(objective: Objective) -> None:
    vectors = torch.zeros(4, 3, requires_grad=True)
    result = objective(contrast.pool(vectors, torch.zeros(4, dtype=torch.int64)))
    result.loss.backward()
    assert result.loss.isfinite() and vectors.grad is not None and vectors.grad.isfinite().all()
