import numpy as np
import pytest

from data_tools.crops import INVALID
from data_tools.resample import to_rate


def tone(frequency: float, rate: float, seconds: float = 4) -> np.ndarray:
    time = np.arange(round(rate * seconds)) / rate
    return np.repeat((1000 * np.sin(2 * np.pi * frequency * time))[:, None], 12, 1).astype(np.int16)


@pytest.mark.parametrize("rate", [100, 200, 257, 360, 1000])
def test_a_tone_stays_what_it_was(rate: float) -> None:
    out, expected = to_rate(tone(11, rate), rate, 500), tone(11, 500)
    assert abs(len(out) - len(expected)) <= 1
    inner = slice(200, len(expected) - 200)  # away from the ends, which are cut off in time
    assert np.abs(out[inner].astype(int) - expected[inner]).max() < 10  # of 1000


def test_what_the_new_rate_cannot_hold_is_gone() -> None:
    out = to_rate(tone(400, 1000), 1000, 500)  # would come back as 100 Hz
    assert np.abs(out[200:-200]).max() < 5


@pytest.mark.parametrize("rate", [100, 128, 250, 257, 360, 62.4725 * 4, 1000])
def test_a_flat_lead_stays_flat(rate: float) -> None:
    assert (to_rate(np.full((4000, 12), -20_000, np.int16), rate, 500) == -20_000).all()


def test_invalid_samples_spread_as_far_as_they_reach_and_no_further() -> None:
    signal = tone(3, 1000)
    clean = to_rate(signal, 1000, 500)
    signal[2000, 5] = INVALID
    out = to_rate(signal, 1000, 500)
    bad = np.flatnonzero((out == INVALID).any(1))
    assert 1000 in bad and len(bad) < 50
    assert (out == INVALID).any(0).tolist() == [lead == 5 for lead in range(12)]
    others = out != INVALID
    assert np.abs(out.astype(int) - clean)[others].max() == 0
