"""Another sampling rate, anti-aliased. Pure."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from data_tools.crops import INVALID

_HALF_LENGTH = 10  # of the filter, in samples of the lower rate


def to_rate(signal: NDArray[np.int16], rate: float, target: int) -> NDArray[np.int16]:
    """[samples, leads] at `rate` Hz -> at `target` Hz; INVALID spreads as far as the filter reaches."""
    from scipy.signal import firwin, resample_poly

    ratio = (Fraction(target) / Fraction(rate)).limit_denominator(1000)
    up, down = ratio.numerator, ratio.denominator
    low_pass = firwin(2 * _HALF_LENGTH * max(up, down) + 1, 1 / max(up, down), window=("kaiser", 5.0))
    for phase in range(up):  # each alike, or a baseline becomes a tone and a flat lead is flat no more
        low_pass[phase::up] /= low_pass[phase::up].sum() * up
    invalid = signal == INVALID
    filled = np.where(invalid, 0, signal).astype(np.float64)
    smooth = np.rint(resample_poly(filled, up, down, axis=0, window=low_pass, padtype="line"))
    out: NDArray[np.int16] = np.clip(smooth, INVALID + 1, -INVALID - 1).astype(np.int16)
    reach = _HALF_LENGTH * max(1.0, target / rate) + 1
    row, lead = np.nonzero(invalid)
    if len(row):
        centre = row * up / down
        opened = np.zeros((len(out) + 1, signal.shape[1]), np.int32)  # +1 where a reach begins, -1 behind it
        np.add.at(opened, (np.maximum(0, centre - reach).astype(int).clip(max=len(out)), lead), 1)
        np.add.at(opened, ((centre + reach).astype(int).clip(max=len(out) - 1) + 1, lead), -1)
        out[opened.cumsum(0)[:-1] > 0] = INVALID
    return out
