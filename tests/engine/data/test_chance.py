"""The draws against METHOD's distributions, on 20,000 samples of a fixed seed."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.transform import Rotation

from engine.data.chance import LIMB_LEADS, Chance, gaussian_bank
from engine.methods import SPAN, SPANS

N = 20_000
TOKENS = 156


@pytest.fixture(scope="module")
def chance() -> Chance:
    return Chance(seed=12, position=np.arange(N), views=2)


def uniform(values: NDArray, low: float, high: float) -> bool:
    return float(stats.kstest(values.ravel()[:N], stats.uniform(low, high - low).cdf).pvalue) > 1e-3


def normal(values: NDArray, mean: float, deviation: float) -> bool:
    return float(stats.kstest(values.ravel()[:N], stats.norm(mean, deviation).cdf).pvalue) > 1e-3


def independent(columns: NDArray) -> bool:
    """[n, k]: no pair of columns correlates by more than chance allows."""
    off = np.corrcoef(columns.T) - np.eye(columns.shape[1])
    return float(np.abs(off).max()) < 4.5 / np.sqrt(len(columns))


@pytest.mark.parametrize("masked", [0.0, 0.3, 0.5, 1.0])
def test_each_lead_is_kept_with_the_asked_probability_and_on_its_own(chance: Chance, masked: float) -> None:
    kept = chance.kept_leads(masked)
    assert kept.shape == (N, 2, 12)
    assert np.abs(kept.mean(0) - (1 - masked)).max() < 4 * np.sqrt(0.25 / N)
    if 0 < masked < 1:
        assert independent(kept.reshape(N, 24).astype(float))
    if masked == 0.5:  # no lead is saved: all of them may go
        none = ~kept.reshape(-1, 12).any(1)
        assert abs(none.sum() - 2 * N / 4096) < 4 * np.sqrt(2 * N / 4096)


def test_powerline(chance: Chance) -> None:
    amplitude, frequency, phase = chance.powerline(0.5, "paper")
    assert (frequency == 50).all()
    assert uniform(amplitude, 0, 0.5) and uniform(phase, 0, 2 * np.pi)
    assert independent(np.c_[amplitude, phase])
    of_reference = chance.powerline(0.1, "reference")
    assert uniform(of_reference[0], 0, 0.1)
    assert set(np.unique(of_reference[1])) == {50.0, 60.0} and abs((of_reference[1] == 60).mean() - 0.5) < 0.015


def test_emg_and_its_white_noise(chance: Chance) -> None:
    amplitude, start = chance.emg(0.5)
    assert all(uniform(amplitude[:, view, lead], 0, 0.5) for view in range(2) for lead in range(12))
    assert independent(amplitude.reshape(N, 24))
    bank = gaussian_bank()
    assert start.min() >= 0 and start.max() + 60_000 <= len(bank)
    assert len(np.unique(start)) > 0.9 * N
    noise = np.stack([bank[at : at + 60_000].reshape(5000, 12) for at in start[:20]])
    assert normal(noise[:, ::30], 0, 1) and independent(noise[0])
    assert abs(noise.mean()) < 4e-3 and abs(noise.std() - 1) < 3e-3 and abs((noise**4).mean() - 3) < 0.05


def test_wander(chance: Chance) -> None:
    amplitude, frequency, phase, factor = chance.wander(0.5, "paper")
    assert uniform(amplitude, 0, 0.5) and uniform(phase, 0, 2 * np.pi)
    assert uniform(frequency[..., 0], 0.01, 0.2)
    assert (frequency == frequency[..., :1] * [1, 2, 3]).all()
    assert normal(factor, 1, 0.5)
    assert independent(np.c_[amplitude[:, 0], frequency[:, 0, :1], phase[:, 0], factor[:, 0]])
    of_reference = chance.wander(0.1, "reference")[1]
    assert all(uniform(of_reference[..., wave], 0.01, 0.2) for wave in range(3)) and independent(of_reference[:, 0])


def test_shift(chance: Chance) -> None:
    level, start, stop = chance.shift(0.5, "paper")
    assert all(uniform(level[:, 1, lead], -0.5, 0.5) for lead in range(12))
    assert independent(level.reshape(N, 24))
    length = stop - start
    assert start.min() >= 0 and stop.max() <= 2500
    assert normal(length + np.random.default_rng(0).uniform(-0.5, 0.5, length.shape), 500, 100)
    assert uniform((start + 0.5) / (2500 - length + 1), 0, 1)
    jumps = chance.shift(0.1, "reference")[0]  # measured there: [-1.1, -1.0] and [0.9, 1.0]
    assert uniform(jumps[jumps < 0], -1.1, -1.0) and uniform(jumps[jumps > 0], 0.9, 1.0)
    assert abs((jumps > 0).mean() - 0.5) < 0.005


def test_shift_keeps_to_the_segment() -> None:
    """Lengths of five deviations do not occur in 20,000 draws, so the clip is seen only here."""
    chance = Chance(3, np.arange(500_000), 1)
    _, start, stop = chance.shift(0.5, "paper")
    assert (start >= 0).all() and (stop <= 2500).all() and (start == np.floor(start)).all()


def test_vectorcardiogram(chance: Chance) -> None:
    few = Chance(12, np.arange(2000), 2)
    matrix, start = few.vectorcardiogram()
    # The rotations and scales that the maps hold, found again.
    dower = np.linalg.pinv(matrix[0, 0][:, [0, 1, *range(6, 12)]], rcond=1e-9)
    assert np.linalg.matrix_rank(matrix[0, 0], tol=1e-9) == 3 and dower.shape == (8, 12)
    assert (matrix[..., 2:6] == 0).all()  # nothing is taken from the dependent leads
    assert np.allclose(matrix[..., 2:6, :], LIMB_LEADS @ matrix[..., :2, :], atol=1e-12)
    assert (start >= 0).all() and (start < 2500).all()
    assert uniform(start / 2500 + 1 / 5000, 0, 1) and independent(start.reshape(2000, 24).astype(float))


def test_the_rotation_is_extrinsic_zyx_and_the_scale_diagonal() -> None:
    """As METHOD describes 3KG, with the same numbers drawn."""
    from engine.data.chance import _DOWER
    from engine.data.philox import Purpose
    from engine.data.philox import uniform as draw

    lots = draw(5, Purpose.VECTORCARDIOGRAM, np.arange(3)[:, None], np.arange(2), 18)
    matrix, _ = Chance(5, np.arange(3), 2).vectorcardiogram()
    kept = [0, 1, 6, 7, 8, 9, 10, 11]
    for row in range(3):
        for view in range(2):
            a, b, c = (lots[row, view, :3] - 0.5) * np.pi / 2
            about_z = Rotation.from_rotvec([0, 0, a]).as_matrix()
            about_y = Rotation.from_rotvec([0, b, 0]).as_matrix()
            about_x = Rotation.from_rotvec([c, 0, 0]).as_matrix()
            scale = np.diag(1 + lots[row, view, 3:6] / 2)
            expected = np.linalg.pinv(_DOWER) @ scale @ about_x @ about_y @ about_z @ _DOWER
            assert np.allclose(matrix[row, view][np.ix_(kept, kept)], expected, atol=1e-12)


@pytest.mark.parametrize(("recipe", "places"), [("paper", 147), ("reference", 146)])
def test_time_mask(chance: Chance, recipe: str, places: int) -> None:
    starts = chance.time_mask_starts(TOKENS, recipe)
    assert starts.shape == (N, 2, SPANS)
    assert (np.diff(starts) > 0).all()  # ascending, none twice
    assert starts.min() == 0 and starts.max() == places - 1
    # Each place is as likely, and each pair of places.
    expected = 2 * N * SPANS / places
    assert stats.chisquare(np.bincount(starts.ravel(), minlength=places)).pvalue > 1e-3
    assert np.abs(np.bincount(starts.ravel()) - expected).max() < 5 * np.sqrt(expected)
    low = (starts < places // 2).sum(-1).ravel()
    theory = stats.hypergeom(places, places // 2, SPANS)
    assert abs(low.mean() - theory.mean()) < 0.03 and abs(low.var() - theory.var()) < 0.06


def test_the_masked_share_is_that_of_the_theory(chance: Chance) -> None:
    masked = np.zeros((2 * N, TOKENS), bool)
    starts = chance.time_mask_starts(TOKENS, "paper").reshape(-1, SPANS)
    for offset in range(SPAN):
        masked[np.arange(2 * N)[:, None], starts + offset] = True

    def uncovered(token: int) -> float:
        """The chance that no span begins at any of the places from which one would cover the token."""
        covering = min(token, 146) - max(0, token - SPAN + 1) + 1
        return float(np.prod([(147 - covering - k) / (147 - k) for k in range(SPANS)]))

    expected = sum(1 - uncovered(token) for token in range(TOKENS))
    assert abs(expected - 76.5) < 0.1  # METHOD's figure
    assert abs(masked.sum(1).mean() - expected) < 0.2
    assert np.abs(masked.mean(0) - [1 - uncovered(token) for token in range(TOKENS)]).max() < 0.012


def test_views_and_positions_are_functions_of_their_own_numbers() -> None:
    """Whatever is drawn beside them."""

    def draws(chance: Chance) -> Iterator[NDArray]:
        yield chance.kept_leads(0.5)
        yield from chance.powerline(0.5, "paper")
        yield from chance.wander(0.5, "paper")
        yield from chance.shift(0.5, "paper")
        yield from chance.vectorcardiogram()
        yield chance.emg(0.5)[0]
        yield chance.time_mask_starts(TOKENS, "paper")
        yield chance.time_mask_lots()

    together = draws(Chance(1, np.arange(100, 120), 2))
    alone = draws(Chance(1, np.array([117]), 2))
    other_seed = draws(Chance(2, np.array([117]), 2))
    for many, one, other in zip(together, alone, other_seed, strict=True):
        assert (many[17] == one[0]).all()
        if len(np.unique(many)) > 1:
            assert not np.array_equal(one, other)
            assert not np.array_equal(one[0, 0], one[0, 1])
