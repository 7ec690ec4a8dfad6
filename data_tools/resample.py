"""Another sampling rate, anti-aliased. Pure."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from data_tools.crops import INVALID

_HALF_LENGTH = 10  # of the filter, in samples of the lower rate: what scipy's resample_poly takes


def to_rate(signal: NDArray[np.int16], rate: float, target: int) -> NDArray[np.int16]:
    """[samples, leads] at `rate` Hz -> at `target` Hz; INVALID spreads as far as the filter reaches."""
    from scipy.signal import resample_poly

    ratio = (Fraction(target) / Fraction(rate)).limit_denominator(1000)
    invalid = signal == INVALID
    filled = np.where(invalid, 0, signal).astype(np.float64)
    # "line" takes a slope out first, so that neither end rings against a baseline that is not 0.
    smooth = np.rint(resample_poly(filled, ratio.numerator, ratio.denominator, axis=0, padtype="line"))
    out: NDArray[np.int16] = np.clip(smooth, INVALID + 1, -INVALID - 1).astype(np.int16)
    reach = _HALF_LENGTH * max(1.0, target / rate) + 1
    for row, lead in zip(*np.nonzero(invalid), strict=True):
        centre = float(row * ratio)
        out[max(0, int(centre - reach)) : int(centre + reach) + 1, lead] = INVALID
    return out
