import math

import numpy as np
import pytest
from scipy import stats

from engine.scoring.intervals import mean_interval, percentile_interval, resampled


def test_a_persons_rows_come_and_go_together() -> None:
    people = np.array(["b", "a", "b", "c", "a", "b"])
    counts = resampled(people, 200, seed=1)
    assert counts.shape == (200, 6)
    assert (counts[:, people == "b"] == counts[:, [0]]).all() and (counts[:, 1] == counts[:, 4]).all()
    assert (counts[:, [0, 1, 3]].sum(1) == 3).all()  # as many people as there are
    assert set(counts[:, 3]) == {0, 1, 2, 3}


def test_a_resample_is_drawn_with_replacement() -> None:
    counts = resampled(np.arange(100), 2000, seed=0)
    assert float((counts == 0).mean()) == pytest.approx(0.99**100, abs=0.005)  # never drawn
    assert counts.mean(0) == pytest.approx(np.ones(100), abs=0.15)


def test_seeds() -> None:
    assert (resampled(range(9), 5, 3) == resampled(range(9), 5, 3)).all()
    assert (resampled(range(9), 5, 3) != resampled(range(9), 5, 4)).any()


def test_one_person_is_drawn_every_time() -> None:
    assert resampled(["a", "a"], 3, 0).tolist() == [[1, 1]] * 3


def test_the_middle_of_the_resamples() -> None:
    low, high = percentile_interval(np.arange(1001.0))
    assert (float(low), float(high)) == pytest.approx((25, 975))


def test_resamples_without_a_figure_are_left_out() -> None:
    values = np.full((1002, 3), np.nan)
    values[:1001, 0] = np.arange(1001)
    values[:, 2] = 7
    low, high = percentile_interval(values, coverage=0.9)
    assert low == pytest.approx([50, np.nan, 7], nan_ok=True)
    assert high == pytest.approx([950, np.nan, 7], nan_ok=True)


def test_the_bootstrap_of_a_mean_is_about_its_standard_error() -> None:
    values = np.random.default_rng(5).normal(size=400)
    counts = resampled(np.arange(400), 2000, seed=0)
    low, high = percentile_interval(counts @ values / counts.sum(1))
    assert float(high - low) == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)


def test_two_and_three_seeds_in_closed_form() -> None:
    """t has quantiles in closed form for 1 and 2 degrees of freedom."""
    mean, half = mean_interval([0.5, 0.7])
    assert half is not None
    assert (mean, half) == pytest.approx((0.6, math.tan(math.pi * 0.475) * 0.1), rel=1e-9)
    mean, half = mean_interval([0.1, 0.2, 0.3])
    assert half is not None
    t = 0.95 * math.sqrt(2 / (4 * 0.975 * 0.025))
    assert t == pytest.approx(4.3027, abs=1e-4)
    assert (mean, half) == pytest.approx((0.2, t * 0.1 / math.sqrt(3)), rel=1e-9)


@pytest.mark.parametrize("count", [2, 3, 5, 30])
def test_the_interval_of_scipy(count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    mean, half = mean_interval(values)
    assert half is not None
    want = stats.t.interval(0.95, count - 1, loc=values.mean(), scale=stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx(want, rel=1e-9)


def test_one_seed_has_no_interval() -> None:
    assert mean_interval([0.4]) == (0.4, None)
    assert mean_interval([0.4, 0.4]) == (0.4, 0.0)


@pytest.mark.parametrize("values", [[], [0.1, np.nan], [[0.1, 0.2]]])
def test_no_mean(values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one value, all finite"):
        mean_interval(values)


def test_nobody_to_resample() -> None:
    with pytest.raises(ValueError, match="no rows"):
        resampled([], 10, 0)
