from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.data.order import Order, evaluation, training

COUNTS = st.lists(st.integers(0, 12), min_size=1, max_size=12).filter(any)
SEEDS = st.integers(0, 2**40)
WINDOWS = st.integers(1, 5)


@given(COUNTS, SEEDS, WINDOWS, st.integers(0, 5))
def test_an_epoch_holds_every_sample_once(counts: list[int], seed: int, window: int, epoch: int) -> None:
    order = Order(counts, seed, window)
    total = sum(counts)
    assert order.epoch_length == total
    samples = order.samples(np.arange(epoch * total, (epoch + 1) * total))
    assert sorted(samples.tolist()) == list(range(total))


@given(COUNTS, SEEDS, WINDOWS, st.integers(0, 40), st.sampled_from([8, 16, 24]))
def test_the_sequence_is_the_same_for_every_number_of_ranks(
    counts: list[int], seed: int, window: int, start: int, update: int
) -> None:
    order = Order(counts, seed, window)
    whole = order.samples(np.arange(start, start + 4 * update))
    for ranks in (1, 2, 3, 4, 8):
        if update % ranks:
            continue
        of_rank = [islice(training(order, start, update // ranks, rank, ranks), 4) for rank in range(ranks)]
        together = [plan for plans in zip(*of_rank, strict=True) for plan in plans]
        assert np.concatenate([plan.sample for plan in together]).tolist() == whole.tolist()
        assert np.concatenate([plan.position for plan in together]).tolist() == list(range(start, start + 4 * update))
        assert all(plan.valid.all() for plan in together)


@given(COUNTS, SEEDS, WINDOWS, st.integers(0, 200), st.integers(1, 50))
def test_any_position_continues_the_same_order(
    counts: list[int], seed: int, window: int, start: int, length: int
) -> None:
    straight = Order(counts, seed, window).samples(np.arange(start + length))
    fresh = Order(counts, seed, window)
    assert fresh.samples(np.arange(start, start + length)).tolist() == straight[start:].tolist()
    one_by_one = [int(fresh.samples(np.array([position]))[0]) for position in range(start + length - 1, start - 1, -1)]
    assert one_by_one[::-1] == straight[start:].tolist()


@given(COUNTS, SEEDS, st.integers(0, 4))
def test_evaluation_sees_each_sample_once(counts: list[int], seed: int, batch: int) -> None:
    samples = sum(counts)
    for ranks in (1, 2, 3, 4, 8):
        of_rank = [list(evaluation(samples, batch + 1, rank, ranks)) for rank in range(ranks)]
        assert len({len(plans) for plans in of_rank}) == 1
        plans = [plan for of_one in of_rank for plan in of_one]
        assert all(len(plan.sample) == batch + 1 for plan in plans)
        valid = np.concatenate([plan.sample[plan.valid] for plan in plans])
        assert sorted(valid.tolist()) == list(range(samples))
        assert all((plan.sample < samples).all() for plan in plans)


@given(COUNTS, SEEDS, WINDOWS, st.integers(0, 3))
def test_a_window_is_read_before_the_next(counts: list[int], seed: int, window: int, epoch: int) -> None:
    """The files that `files_ahead` names are all that the positions need, in that order."""
    order = Order(counts, seed, window)
    total = sum(counts)
    file_of = np.repeat(np.arange(len(counts)), counts)
    files = file_of[order.samples(np.arange(epoch * total, (epoch + 1) * total))]
    named = order.files_ahead(epoch * total)
    at = 0
    while at < total:
        here = next(named).tolist()
        assert len(here) <= window
        size = sum(counts[file] for file in here)
        assert set(files[at : at + size].tolist()) == set(here)
        at += size


def test_files_ahead_begins_with_the_window_of_the_position() -> None:
    order = Order([4] * 6, seed=3, window=2)
    from_start = list(islice(order.files_ahead(0), 6))
    from_inside = list(islice(order.files_ahead(9), 5))
    assert [files.tolist() for files in from_inside] == [files.tolist() for files in from_start[1:]]


def test_epochs_and_seeds_are_shuffled_differently() -> None:
    order = Order([50] * 8, seed=0, window=4)
    epochs = [order.samples(np.arange(400 * epoch, 400 * (epoch + 1))) for epoch in range(3)]
    epochs.append(Order([50] * 8, seed=1, window=4).samples(np.arange(400)))
    assert len({epoch.tobytes() for epoch in epochs}) == 4
    assert all((np.sort(epoch) == np.arange(400)).all() for epoch in epochs)
    # Within a window every sample may stand everywhere: neighbours of the file are no neighbours of the order.
    assert (np.diff(epochs[0]) == 1).mean() < 0.05


@given(COUNTS, SEEDS, st.sampled_from([0.25, 0.5, 2.0, 3.0]))
def test_weights(counts: list[int], seed: int, weight: float) -> None:
    """A folder of weight w gives w times its samples in each epoch, and over epochs all of them as often."""
    counts = [4 * count for count in counts]
    weights = [weight] * len(counts)
    order = Order([*counts, 10], seed, 3, [*weights, 1.0])
    assert order.epoch_length == weight * sum(counts) + 10
    epochs = 4
    samples = order.samples(np.arange(epochs * order.epoch_length))
    times = np.bincount(samples, minlength=sum(counts) + 10)
    assert (times[: sum(counts)] == epochs * weight).all() and (times[sum(counts) :] == epochs).all()


def test_weights_that_cannot_be_kept_are_an_error() -> None:
    Order([200] * 5, 0, 2, 0.1)
    with pytest.raises(ValueError, match=r"data.weights: an epoch would take too few samples of each file"):
        Order([8] * 5, 0, 2, 0.05)


def test_positions_far_away() -> None:
    """A run of billions of samples, and files of many."""
    order = Order([1000] * 8, 0, 3)
    far = 2**33 * 8000
    assert sorted(order.samples(np.arange(far, far + 8000)).tolist()) == list(range(8000))


def test_nothing_to_order_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        Order([0, 0], 0, 1)
