"""Noise is no change, and a change is no noise: on repetitions that are made up."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, wilcoxon

from benchmarks.judging import Judgement, apart, drift, paired, rank_sum_counts, signed_rank_counts

FLOOR = 0.025


@pytest.mark.parametrize(("first", "second"), [(1, 1), (3, 3), (2, 5), (5, 4)])
def test_rank_sums_are_counted_as_if_one_by_one(first: int, second: int) -> None:
    places = range(first + second)
    sums = [sum(chosen) - first * (first - 1) // 2 for chosen in combinations(places, first)]
    assert rank_sum_counts(first, second) == [sums.count(s) for s in range(first * second + 1)]


@pytest.mark.parametrize("pairs", [1, 4, 7])
def test_signed_ranks_are_counted_as_if_one_by_one(pairs: int) -> None:
    sums = [sum(rank for rank, up in enumerate(signs, 1) if up) for signs in product((0, 1), repeat=pairs)]
    assert signed_rank_counts(pairs) == [sums.count(s) for s in range(pairs * (pairs + 1) // 2 + 1)]


def test_the_interval_apart_is_where_the_rank_sum_test_begins_to_doubt() -> None:
    old, new = np.exp(np.random.default_rng(1).normal(0, 0.1, (2, 9)))
    found = apart(list(old), list(new), 0.0)
    assert found.ratio == pytest.approx(math.exp(float(np.median(np.log(np.divide.outer(new, old))))))
    for edge in (found.low, found.high):
        inside, outside = (edge * (edge / found.ratio) ** step for step in (-1e-6, 1e-6))
        assert mannwhitneyu(new, inside * old, method="exact").pvalue > 0.05
        assert mannwhitneyu(new, outside * old, method="exact").pvalue <= 0.05


def test_the_interval_of_pairs_is_where_the_signed_rank_test_begins_to_doubt() -> None:
    old, new = np.exp(np.random.default_rng(2).normal(0, 0.1, (2, 12)))
    found = paired(list(old), list(new), 0.0, 0.05)
    for edge in (found.low, found.high):
        inside, outside = (math.log(edge * (edge / found.ratio) ** step) for step in (-1e-6, 1e-6))
        assert wilcoxon(np.log(new / old) - inside, method="exact").pvalue > 0.05
        assert wilcoxon(np.log(new / old) - outside, method="exact").pvalue <= 0.05


def noisy(chance: np.random.Generator, median: float, noise: float, count: int) -> list[float]:
    """With what a shared machine does to one in ten: it takes up to half as long again."""
    slow = np.where(chance.random(count) < 0.1, chance.uniform(1, 1.5, count), 1)
    return list(median / slow * np.exp(chance.normal(0, noise, count)))


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.05])
@pytest.mark.parametrize("count", [3, 5, 8])
def test_the_same_speed_is_no_loss_apart(noise: float, count: int) -> None:
    chance = np.random.default_rng([count, int(1000 * noise)])
    found = [apart(noisy(chance, 7, noise, count), noisy(chance, 7, noise, count), 0.05) for _ in range(200)]
    assert sum(one.is_loss for one in found) <= 6
    assert sum(one.is_gain for one in found) <= 6


def test_a_tenth_less_is_a_loss_apart_where_noise_is_small() -> None:
    chance = np.random.default_rng(3)
    found = [apart(noisy(chance, 7, 0.01, 8), noisy(chance, 6.3, 0.01, 8), 0.05) for _ in range(100)]
    assert sum(one.is_loss for one in found) >= 80
    assert not any(one.is_gain for one in found)
    turned = [apart(noisy(chance, 6.3, 0.01, 8), noisy(chance, 7, 0.01, 8), 0.05) for _ in range(100)]
    assert sum(one.is_gain for one in turned) >= 80


def drifting(chance: np.random.Generator, ratio: float, noise: float, count: int) -> Judgement:
    """Pairs on a machine that wanders between full and half its speed, slowly."""
    machine = 1.5 + 0.5 * np.cos(np.linspace(0, 9, count) + chance.uniform(0, 6))
    old, new = (np.array(noisy(chance, speed, noise, count)) * machine for speed in (7.0, 7.0 * ratio))
    return paired(list(old), list(new), FLOOR)


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.06])
def test_pairs_of_the_same_speed_are_no_loss_on_a_machine_that_drifts(noise: float) -> None:
    chance = np.random.default_rng(int(1000 * noise))
    assert sum(drifting(chance, 1.0, noise, 80).is_loss for _ in range(60)) <= 1


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.06])
def test_pairs_tell_a_tenth_less_on_a_machine_that_drifts(noise: float) -> None:
    chance = np.random.default_rng(int(1000 * noise))
    assert sum(drifting(chance, 0.9, noise, 80).is_loss for _ in range(60)) >= 57


def test_less_than_the_floor_is_no_change_however_sure() -> None:
    found = paired([1.0 + n * 1e-9 for n in range(50)], [0.98] * 50, FLOOR)
    assert found.high < 0.981
    assert (found.is_loss, found.is_gain, found.word) == (False, False, "no change")


def test_two_repetitions_tell_nothing_and_three_that_lie_apart_do() -> None:
    assert apart([1.0, 1.0], [0.5, 0.5], 0.05).word == "too few repetitions"
    found = apart([1.0, 1.01, 1.02], [0.5, 0.51, 0.52], 0.05)
    assert (found.word, found.low, found.high) == ("LOSS", pytest.approx(0.5 / 1.02), pytest.approx(0.52))


def test_drift_is_that_of_the_worst_limit() -> None:
    assert drift([[100.0, 98.0], [50.0, 45.0, 48.0]]) == pytest.approx(0.1)
    assert drift([]) == 0.0
