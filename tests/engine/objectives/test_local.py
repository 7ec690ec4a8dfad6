import math

import pytest
import torch
from torch import Tensor

from engine.objectives import local
from engine.objectives.gathering import IMPOSSIBLE

SEGMENTS, SLOTS, DIM = 3, 7, 5


@pytest.fixture
def case() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Contexts, targets, codes and weights; some codes are equal, the last slots of the last segments are unused."""
    random = torch.Generator().manual_seed(0)
    contexts, targets = torch.randn(2, SEGMENTS, SLOTS, DIM, generator=random, dtype=torch.float64)
    codes = torch.randint(0, 4, (SEGMENTS, SLOTS), generator=random)
    weights = torch.ones(SEGMENTS, SLOTS)
    weights[1, 5:] = weights[2, 3:] = 0
    return contexts, targets, codes, weights


def by_hand(contexts: Tensor, targets: Tensor, codes: Tensor, weights: Tensor) -> list[list[float]]:
    """The paper's L_t of each masked token of each segment, pair by pair."""
    losses = []
    for segment in range(SEGMENTS):
        row = []
        masked = [slot for slot in range(SLOTS) if weights[segment, slot]]
        for token in masked:
            c = contexts[segment, token]
            others = [t for t in masked if codes[segment, t] != codes[segment, token]]
            scores = [
                math.exp(float(c @ targets[segment, t] / c.norm() / targets[segment, t].norm()) / 0.1)
                for t in (token, *others)
            ]
            row.append(-math.log(scores[0] / sum(scores)))
        losses.append(row)
    return losses


def test_info_nce_is_the_papers_formula(case: tuple[Tensor, ...]) -> None:
    losses, weights = local.info_nce(local.logits(*case)), case[3]
    hand = by_hand(*case)
    for segment in range(SEGMENTS):
        found = losses[segment][weights[segment] > 0]
        torch.testing.assert_close(found, torch.tensor(hand[segment], dtype=torch.float64), rtol=1e-12, atol=1e-12)
    of_segments = sum(sum(row) / len(row) for row in hand) / SEGMENTS
    of_tokens = sum(map(sum, hand)) / sum(map(len, hand))
    assert float(local.mean_of_segments(losses, weights)) == pytest.approx(of_segments, rel=1e-12)
    assert float(local.mean_of_tokens(losses, weights)) == pytest.approx(of_tokens, rel=1e-12)
    assert abs(of_segments - of_tokens) > 0.01


def test_a_token_without_candidates_costs_nothing() -> None:
    contexts = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    of = local.logits(contexts, torch.ones(1, 3, 4).double(), torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 3))
    loss = local.info_nce(of).sum()
    loss.backward()
    assert float(loss.detach()) == 0
    assert contexts.grad is not None and contexts.grad.abs().max() == 0


def test_gradients(case: tuple[Tensor, ...]) -> None:
    contexts, targets, codes, weights = case

    def loss(contexts: Tensor, targets: Tensor) -> Tensor:
        return local.mean_of_segments(local.info_nce(local.logits(contexts, targets, codes, weights)), weights)

    assert torch.autograd.gradcheck(loss, (contexts.requires_grad_(), targets.requires_grad_()))


def test_unused_slots_change_nothing(case: tuple[Tensor, ...]) -> None:
    contexts, targets, codes, weights = case
    loss = local.mean_of_segments(local.info_nce(local.logits(*case)), weights)
    unused = weights == 0
    contexts[unused], targets[unused], codes[unused] = 1e3, -1e3, 99
    torch.testing.assert_close(
        local.mean_of_segments(local.info_nce(local.logits(contexts, targets, codes, weights)), weights), loss
    )


def test_drawn_negatives_are_uniform_over_the_other_masked_tokens() -> None:
    """Every logit is the number of its own candidate, so that who was drawn can be read off."""
    slots, draws = 6, 50_000
    weights = torch.tensor([[1.0, 1, 1, 1, 0, 0]])
    every = local.Logits(torch.zeros(1, slots), torch.arange(slots).float().expand(1, slots, slots))
    uniform = torch.rand(1, slots, draws, generator=torch.Generator().manual_seed(0))
    picked = local.drawn(every, uniform, weights).negatives[0, :4]
    for token in range(4):
        counts = torch.bincount(picked[token].long(), minlength=slots)
        expected = torch.tensor([draws / 3 if other != token else 0 for other in range(4)] + [0, 0])
        assert (counts - expected).abs().max() < 5 * math.sqrt(draws * 2 / 9)
    # The ends of the unit interval stay inside.
    ends = torch.tensor([0.0, 1 - 2**-24]).expand(1, slots, 2)
    assert local.drawn(every, ends, weights).negatives[0, :4].tolist() == [[1, 3], [0, 3], [0, 3], [0, 2]]


def test_accuracy_counts_only_tokens_with_ten_candidates() -> None:
    """Twelve tokens: of the first's code there are three, so it has nine candidates; it is found all the same."""
    codes = torch.tensor([[0, 0, 0, *range(1, 10)]])
    targets = torch.eye(12).unsqueeze(0)
    contexts = targets.clone()
    contexts[0, 5] = targets[0, 6]  # one that counts is wrong
    weights = torch.ones(1, 12)
    found = local.local_metrics(local.logits(contexts, targets, codes, weights), weights)
    assert float(found.counted) == pytest.approx(9 / 12)
    assert float(found.accuracy) == pytest.approx(8 / 9)
    assert float(found.chance) == pytest.approx((3 * math.log(10) + 9 * math.log(12)) / 12)
    collapsed = local.local_metrics(local.logits(contexts, targets, torch.zeros_like(codes), weights), weights)
    assert float(collapsed.accuracy) == float(collapsed.counted) == 0


def test_chance_is_the_loss_of_equal_cosines() -> None:
    weights, codes = torch.ones(2, 9), torch.arange(9).expand(2, 9) // 2
    same = torch.ones(2, 9, 4)
    of = local.logits(same, same, codes, weights)
    assert float(local.mean_of_tokens(local.info_nce(of), weights)) == pytest.approx(
        float(local.local_metrics(of, weights).chance), rel=1e-6
    )


def test_diversity_by_hand() -> None:
    uniform = torch.full((2, 320), 1 / 320, dtype=torch.float64)
    one = torch.zeros(2, 320, dtype=torch.float64)
    one[:, 3] = 1
    half = torch.zeros(2, 320, dtype=torch.float64)
    half[:, :160] = 1 / 160
    for shares, want in ((uniform, 640), (one, 2), (half, 320)):
        assert float(local.perplexity(shares)) == pytest.approx(want, rel=1e-4)
    assert float(local.diversity(torch.tensor(320.0), 640)) == 0.5


def test_probable_and_best_codes_by_hand() -> None:
    weights = torch.tensor([[1.0, 1], [1, 0]])
    logits = torch.randn(2, 2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    used = torch.stack([logits[0, 0], logits[0, 1], logits[1, 0]])
    torch.testing.assert_close(local.probable_codes(logits, weights), used.softmax(-1).mean(0))
    best = torch.nn.functional.one_hot(used.argmax(-1), 4).double().mean(0)
    torch.testing.assert_close(local.best_codes(logits, weights), best)


def test_diversity_gradient() -> None:
    weights = torch.tensor([[1.0, 1, 0]])
    logits = torch.randn(1, 3, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x: local.diversity(local.perplexity(local.probable_codes(x, weights)), 8), (logits,)
    )


def test_feature_penalty() -> None:
    assert float(local.feature_penalty(torch.tensor([[[3.0, -1.0]]]))) == 5
    assert local.feature_penalty(torch.full((4, 4, 4), 300.0, dtype=torch.bfloat16)).dtype == torch.float32
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(local.feature_penalty, (x,))


def test_no_candidate_is_out_of_any_cosines_reach() -> None:
    assert math.exp(IMPOSSIBLE + 2 / local.TEMPERATURE) == 0
