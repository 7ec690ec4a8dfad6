import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.data.philox import Purpose, bits, normal, permutation, philox, uniform

FULL = 0xFFFFFFFF


def test_the_known_answers_of_its_authors() -> None:
    """Random123's kat_vectors, philox 4x32 of 10 rounds."""
    assert [hex(word) for word in philox((0, 0, 0, 0), (0, 0))] == [
        "0x6627e8d5",
        "0xe169c58d",
        "0xbc57ac4c",
        "0x9b00dbd8",
    ]
    of_ones = philox((FULL, FULL, FULL, FULL), (FULL, FULL))
    assert [hex(word) for word in of_ones] == ["0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd"]
    of_pi = philox((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0))
    assert [hex(word) for word in of_pi] == ["0xd16cfe09", "0x94fdcceb", "0x5001e420", "0x24126ea1"]


@given(st.integers(0, 2**63), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_a_draw_does_not_depend_on_what_is_drawn_beside_it(seed: int, position: int, stream: int, count: int) -> None:
    alone = bits(seed, Purpose.LEADS, position, stream, count)
    beside = bits(seed, Purpose.LEADS, np.array([7, position, 3], np.uint64)[:, None], np.array([stream, 5]), 32)
    assert (alone == beside[1, 0, :count]).all()


def test_purposes_positions_streams_and_seeds_differ() -> None:
    draws = [
        bits(seed, purpose, position, stream, 8)
        for seed in (0, 1, 2**32)
        for purpose in (Purpose.LEADS, Purpose.EMG)
        for position in (0, 1, 2**32)
        for stream in (0, 1)
    ]
    assert len({draw.tobytes() for draw in draws}) == len(draws)


def test_uniform_and_normal_have_their_moments() -> None:
    flat = uniform(0, Purpose.LEADS, np.arange(50_000), 0, 4)
    assert flat.min() > 0 and flat.max() < 1
    assert abs(flat.mean() - 0.5) < 0.002 and abs(flat.var() - 1 / 12) < 0.001
    assert np.abs(np.corrcoef(flat.T) - np.eye(4)).max() < 0.02
    bell = normal(0, Purpose.EMG, np.arange(50_000), 0, 4)
    assert abs(bell.mean()) < 0.01 and abs(bell.std() - 1) < 0.01 and abs((bell**4).mean() - 3) < 0.06


def test_every_permutation_is_as_likely() -> None:
    seen: dict[tuple[int, ...], int] = {}
    for stream in range(6000):
        order = tuple(permutation(0, Purpose.FILES, np.arange(3), stream).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6 and all(abs(count - 1000) < 150 for count in seen.values())
