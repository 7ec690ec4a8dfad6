import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_tools import splits
from engine.scoring.identification import Identification, equal_error_rate, identify
from tests.data_tools.test_splits import recordings


def circle(*degrees: float) -> np.ndarray:
    angle = np.deg2rad(degrees)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def brute_force(gallery: np.ndarray, of_gallery: np.ndarray, probe: np.ndarray, of_probe: np.ndarray) -> Any:
    """-> credits for k = 1 and 5, and the equal error rate, from the whole matrix and every order of the ties."""
    cosines = (
        (probe / np.linalg.norm(probe, axis=1)[:, None]) @ (gallery / np.linalg.norm(gallery, axis=1)[:, None]).T
    ).round(7)
    own = of_probe[:, None] == of_gallery
    credits: dict[int, list[float]] = {1: [], 5: []}
    for row, same in zip(cosines, own, strict=True):
        best = row[same].max()
        nearer, tied = int((row[~same] > best).sum()), [bool(s) for s in same[row == best]]
        orders = list(itertools.permutations(tied))
        for k, found in credits.items():
            found.append(float(np.mean([any(order[: max(k - nearer, 0)]) for order in orders])))
    genuine, impostor = cosines[own], cosines[~own]
    points = [(float((impostor >= t).mean()), float((genuine < t).mean())) for t in [*np.unique(cosines), np.inf]]
    for (accept0, reject0), (accept1, reject1) in itertools.pairwise(points):
        if reject0 < accept0 and reject1 >= accept1:
            part = (accept0 - reject0) / (accept0 - reject0 + reject1 - accept1)
            return credits[1], credits[5], reject0 + part * (reject1 - reject0)
    return credits[1], credits[5], 0.0


def test_by_hand() -> None:
    """Probe a is 5 degrees from a, b 40 from b but 30 from a, c between b (20) and c (15)."""
    found = identify(circle(0, 70, 105), ["a", "b", "c"], circle(5, 30, 90), ["a", "b", "c"])
    assert found.credit1.tolist() == [1, 0, 1]
    assert found.rank1 == pytest.approx(2 / 3) and found.rank5 == 1
    # Own: 5, 15, 40 degrees. Others: 20, 30, 65, 75, 90, 100. Just below 40 two of the six others are taken for the
    # person, and one of three people is turned away.
    assert found.equal_error_rate == pytest.approx(1 / 3)


def test_nobody_is_mistaken() -> None:
    found = identify(np.eye(7) * 3, range(7), np.eye(7)[::-1] + 0.1, range(6, -1, -1))
    assert (found.rank1, found.rank5, found.equal_error_rate) == (1, 1, 0)


def test_the_worst_encoder_is_wrong_throughout() -> None:
    found = identify(circle(0, 180), [0, 1], circle(180, 0), [0, 1])
    assert (found.rank1, found.rank5) == (0, 1)  # two in the gallery: nobody is lower than second
    assert found.equal_error_rate == 1


@pytest.mark.parametrize("block", [3, 4, 64])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_one_vector_for_everybody_is_chance(block: int, dtype: type) -> None:
    vector = np.random.default_rng(0).normal(size=(1, 37)).astype(dtype)
    found = identify(np.repeat(vector, 20, 0), range(20), np.repeat(vector * 2, 20, 0), range(20), block)
    assert found.rank1 == pytest.approx(1 / 20) and found.rank5 == pytest.approx(5 / 20)
    assert found.equal_error_rate == 0.5


def test_behind_two_and_beside_two() -> None:
    """Own is third, fourth or fifth: never first, and one of the first five for certain; with a sixth, 3 in 4."""
    gallery = circle(0, 0, 60, 60, 60, 90)
    found = identify(gallery, [0, 1, 2, 3, 4, 5], circle(0), [4])
    assert (found.rank1, found.rank5) == (0, 1)
    found = identify(np.concatenate([gallery, circle(60, 0)]), range(8), circle(0), [4])  # behind 3, beside 3
    assert found.rank5 == pytest.approx(2 / 4)


def test_of_several_entries_of_a_person_the_nearest_counts() -> None:
    found = identify(circle(90, 10, 20), ["a", "a", "b"], circle(0, 21), ["a", "b"])
    assert found.rank1 == 1
    same = identify(circle(0, 0, 0), ["a", "a", "b"], circle(0, 0), ["a", "b"])
    assert same.credit1 == pytest.approx([2 / 3, 1 / 3])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_block_by_block_is_brute_force(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    people = data.draw(st.integers(2, 5))
    of_gallery = np.concatenate([np.arange(people), rng.integers(0, people, data.draw(st.integers(0, 2)))])
    of_probe = rng.integers(0, people, data.draw(st.integers(1, 9)))
    # Whole numbers in two dimensions: many cosines are equal.
    gallery, probe = (rng.integers(1, 4, (len(of), 2)) for of in (of_gallery, of_probe))
    credit1, credit5, rate = brute_force(gallery, of_gallery, probe, of_probe)
    found = identify(gallery, of_gallery, probe, of_probe, block=data.draw(st.integers(1, 12)))
    assert found.credit1 == pytest.approx(credit1, abs=1e-12)
    assert found.credit5 == pytest.approx(credit5, abs=1e-12)
    assert found.equal_error_rate == pytest.approx(rate, abs=1e-12)


def test_any_block_gives_the_same() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(200, 16)).astype(np.float32)
    probe = vectors + rng.normal(size=vectors.shape).astype(np.float32) * 1.5
    whole = identify(vectors, np.arange(200), probe, np.arange(200), block=1000)
    assert 0.2 < whole.rank1 < whole.rank5 < 1 and 0 < whole.equal_error_rate < 0.4
    for block in (1, 7, 64, 199):
        for one, other in zip(whole, identify(vectors, np.arange(200), probe, np.arange(200), block), strict=True):
            assert np.array_equal(one, other)


NUMBERS = st.lists(st.integers(0, 20), min_size=1, max_size=12)


def rate_at(genuine: np.ndarray, impostor: np.ndarray, thresholds: np.ndarray) -> float:
    column = thresholds[:, None]
    accept = [(impostor >= column).mean(1), (impostor > column).mean(1)]
    return equal_error_rate(np.stack(accept, 1), np.stack([(genuine < column).mean(1), (genuine <= column).mean(1)], 1))


@given(NUMBERS, NUMBERS)
def test_the_equal_error_rate_is_that_of_the_whole_curve(own: list[int], others: list[int]) -> None:
    genuine, impostor = np.array(own), np.array(others)
    rate = rate_at(genuine, impostor, np.unique(genuine))
    assert 0 <= rate <= 1
    every = np.unique(np.concatenate([genuine, impostor]))
    assert rate == pytest.approx(rate_at(genuine, impostor, every), abs=1e-12)
    # Who is accepted where the other is rejected: the same curve from the other end.
    assert rate == pytest.approx(rate_at(-impostor, -genuine, np.unique(-impostor)), abs=1e-12)


def test_scale_and_order_do_not_matter() -> None:
    rng = np.random.default_rng(4)
    vectors, probe = rng.normal(size=(2, 30, 5))
    found = identify(vectors, np.arange(30), probe, np.arange(30))
    order = rng.permutation(30)
    scaled = (vectors * 10.0 ** rng.integers(-300, 300, (30, 1)))[order]  # whose squares no float64 holds
    other = identify(scaled, np.arange(30)[order], probe, np.arange(30))
    assert isinstance(other, Identification)
    assert np.array_equal(found.credit1, other.credit1) and np.array_equal(found.credit5, other.credit5)
    assert found.equal_error_rate == other.equal_error_rate


def test_bit_identical_twins_are_no_pair() -> None:
    """They would be found with certainty, whatever the encoder: p's two recordings are one, q and r share one."""
    patients: list[str | None] = ["p", "p", "q", "q", "r", "r", "s", "s"]
    found = recordings(patients, [[1], [1], [2], [3], [3], [4], [5], [6]], set(), set(range(8)))
    assert splits.pairs(found, splits.groups(found), np.ones(8, bool), seed=0).keys() == {"s"}


V = np.eye(3)


@pytest.mark.parametrize(
    ("gallery", "of_gallery", "probe", "of_probe", "message"),
    [
        (V, ["a", "a", "a"], V, ["a", "a", "a"], "one person only, a"),
        (V[:1], ["a"], V[:1], ["a"], "one person only, a"),
        (V, ["a", "b", "c"], V, ["a", "x", "y"], "2 people of the probe are not in the gallery, such as x"),
        (V * [[1], [0], [1]], [1, 2, 3], V, [1, 2, 3], "1 of 3 gallery vectors are zero"),
        (V, [1, 2, 3], np.where(V == 1, [np.nan, 0, np.inf], 1), [1, 2, 3], "2 of 3 probe vectors are not finite"),
        (V, [1, 2, 3], V[:, :2] + 1, [1, 2, 3], "gallery vectors have 3 numbers, probe vectors 2"),
        (V, [1, 2], V, [1, 2, 3], "3 gallery vectors need as many people; found \\(2,\\)"),
        (V, [1, 2, 3], V[:0], [], "the probe is an array .* found \\(0, 3\\)"),
        (V[0], [1, 2, 3], V, [1, 2, 3], "the gallery is an array .* found \\(3,\\)"),
    ],
)
def test_bad_input(gallery: Any, of_gallery: Any, probe: Any, of_probe: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        identify(gallery, of_gallery, probe, of_probe)
