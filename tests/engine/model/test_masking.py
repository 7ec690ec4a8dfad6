import numpy as np
import pytest
import torch

from engine.methods import SPAN
from engine.model.flops import expected_masked
from engine.model.masking import in_slots, thinned, time_mask
from tests.engine import draws

TOKENS = 156


def test_spans_by_hand() -> None:
    mask = time_mask(torch.tensor([[0, 5, 140], [146, 20, 146]]), TOKENS)
    hidden = [[*range(15), *range(140, 150)], [*range(20, 30), *range(146, 156)]]
    assert [row.nonzero().flatten().tolist() for row in mask.masked] == hidden
    assert mask.slots.shape == mask.weights.shape == (2, 30)
    for slots, weights, want in zip(mask.slots, mask.weights, hidden, strict=True):
        assert slots[: len(want)].tolist() == want
        assert weights.tolist() == [1] * len(want) + [0] * (30 - len(want))
        assert len(set(slots.tolist())) == 30  # what fills up is no token twice


def test_the_draw_does_not_change_shapes() -> None:
    for starts in (torch.zeros(4, 10, dtype=torch.int64), torch.arange(0, 100, 10).expand(4, 10)):
        mask = time_mask(starts, TOKENS)
        assert mask.slots.shape == (4, 100)
        assert mask.weights.sum(1).tolist() == [float(mask.masked[0].sum())] * 4
    assert time_mask(torch.zeros(1, 10, dtype=torch.int64), 31).slots.shape == (1, 31)


def test_share_and_length_of_what_is_hidden() -> None:
    """Ten spans of ten in 156, without replacement: 76.5 tokens; single spans cover 10, unions are longer."""
    segments = 20_000
    masked = time_mask(draws.starts(segments), TOKENS).masked.numpy()
    count = masked.sum(1)
    assert expected_masked(TOKENS) == pytest.approx(76.5, abs=0.1)
    assert abs(count.mean() - expected_masked(TOKENS)) < 4 * count.std() / np.sqrt(segments)
    edges = np.diff(masked.astype(np.int8), axis=1, prepend=0, append=0)
    begins, ends = np.nonzero(edges == 1), np.nonzero(edges == -1)
    lengths = ends[1] - begins[1]
    assert lengths.min() == SPAN and lengths.max() <= 100
    assert lengths.sum() == count.sum()
    # A start begins a run where none of the ten places before it is a start (one of exactly ten touches it).
    places, spans = TOKENS - SPAN + 1, 10
    alone = sum(
        np.prod([(places - 1 - min(start, SPAN) - other) / (places - 1 - other) for other in range(spans - 1)])
        for start in range(places)
    )
    runs = spans * alone / places
    assert len(lengths) / segments == pytest.approx(runs, rel=0.01)
    assert lengths.mean() == pytest.approx(expected_masked(TOKENS) / runs, rel=0.01)


def test_every_row_is_thinned_to_the_smallest() -> None:
    mask = time_mask(draws.starts(64), TOKENS)
    thin = thinned(mask, torch.rand(64, 100, generator=torch.Generator().manual_seed(0)))
    least = int(mask.weights.sum(1).min())
    assert set(thin.masked.sum(1).tolist()) == set(thin.weights.sum(1).tolist()) == {least}
    assert not (thin.masked & ~mask.masked).any()
    for row in range(64):
        assert thin.slots[row, :least].tolist() == thin.masked[row].nonzero().flatten().tolist()


def test_who_is_thinned_out_is_the_highest_lot() -> None:
    masked = torch.zeros(2, 20, dtype=torch.bool)
    masked[0, 3:7] = masked[1, 10:12] = True
    lots = torch.tensor([[0.9, 0.1, 0.8, 0.2, 0.0, 0.0]] * 2)  # the last two are of slots without a masked token
    thin = thinned(in_slots(masked, 6), lots)
    assert thin.masked[0].nonzero().flatten().tolist() == [4, 6]
    assert thin.masked[1].nonzero().flatten().tolist() == [10, 11]
