"""When a heart beats, and what kind of beat it is. Pure.

Rates and their variation: Task Force of the ESC and NASPE, Heart rate variability, Circulation 1996. Fibrillation and
flutter: Issa, Miller and Zipes, Clinical Arrhythmology and Electrophysiology.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NORMAL, ATRIAL, VENTRICULAR, PACED = range(4)


@dataclass(frozen=True)
class Beats:
    time: NDArray[np.float64]  # [beats] s, of the R peak
    kind: NDArray[np.int64]
    before: NDArray[np.float64]  # [beats] s since the beat before


@dataclass(frozen=True)
class Rhythm:
    rate: float = 72.0  # beats a minute
    sway: float = 0.03  # of the interval, with each breath
    scatter: float = 0.01  # of the interval, from beat to beat
    breath: float = 0.25  # Hz
    ectopic: int = NORMAL  # kind of the beats that come too early
    ectopic_part: float = 0.0
    flutter: float = 0.0  # Hz of the atria; 0: none
    conducted: int = 2  # flutter waves a beat


def beats(rhythm: Rhythm, seconds: float, chance: np.random.Generator) -> Beats:
    """From before the recording begins until after it has ended."""
    mean = rhythm.conducted / rhythm.flutter if rhythm.flutter else 60 / rhythm.rate
    count = int((seconds + 4) / mean * 1.5) + 8
    if rhythm.flutter:
        multiples = np.where(chance.random(count) < 0.12, rhythm.conducted + 1, rhythm.conducted)
        intervals = multiples / rhythm.flutter + chance.normal(0, 0.004, count)
    else:
        swing = rhythm.sway * np.sin(2 * np.pi * rhythm.breath * mean * np.arange(count) + chance.uniform(0, 6.3))
        # Fibrillation's intervals are skewed: a few are far longer.
        intervals = mean * (1 + swing) * np.exp(chance.normal(0, rhythm.scatter, count))
    intervals = np.maximum(intervals, 0.24)
    begin = -1.5 - chance.uniform(0, mean)
    kind = np.full(count, NORMAL)
    if rhythm.ectopic_part:
        early = _early(begin + np.cumsum(intervals), seconds, rhythm.ectopic_part, chance)
        kind[early] = rhythm.ectopic
        pause = 2.0 if rhythm.ectopic == VENTRICULAR else 1.75  # of the two intervals around it, in normal ones
        prematurity = chance.uniform(0.55, 0.75, count)
        after = np.roll(early, 1)
        after[0] = False
        intervals = np.where(early, intervals * prematurity, intervals)
        intervals = np.where(after, mean * (pause - np.roll(prematurity, 1)), intervals)
    time = begin + np.cumsum(intervals)
    wanted = time < seconds + 2
    return Beats(time[wanted], kind[wanted], intervals[wanted])


def _early(time: NDArray[np.float64], seconds: float, part: float, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Which beats come too early: never two in a row, and at least one that the recording shows."""
    early = chance.random(len(time)) < part
    early[1:] &= ~early[:-1]
    inside = np.flatnonzero((time > 1) & (time < seconds - 1))
    if len(inside) and not early[inside].any():
        one = inside[chance.integers(len(inside))]
        early[one - 1 : one + 2] = False, True, False
    return early
