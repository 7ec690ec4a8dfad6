"""Whether a figure has changed, or only its noise has: ratios with intervals that assume no distribution."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_LEAST = 3  # repetitions of each: with fewer nothing can be told


class Judgement(NamedTuple):
    """`low` and `high`: of the ratio, new over old, of speeds."""

    ratio: float
    low: float
    high: float
    floor: float  # a part: less than this is no change, however sure
    told: bool  # whether there were repetitions enough

    @property
    def is_loss(self) -> bool:
        return self.told and self.high < 1 - self.floor

    @property
    def is_gain(self) -> bool:
        return self.told and self.low > 1 / (1 - self.floor)

    @property
    def word(self) -> str:
        if not self.told:
            return "too few repetitions"
        return "LOSS" if self.is_loss else "gain" if self.is_gain else "no change"


def apart(old: Sequence[float], new: Sequence[float], floor: float, doubt: float = 0.05) -> Judgement:
    """Of two runs. The ratio is the median of all ratios (Hodges and Lehmann), its interval that of the rank-sum test;
    with so few repetitions that the test cannot be that sure, the interval is all of them."""
    ratios = sorted(math.log(b / a) for a in old for b in new)
    ways = rank_sum_counts(len(old), len(new))
    return _judged(ratios, _trimmed(ways, doubt), floor, min(len(old), len(new)))


def paired(old: Sequence[float], new: Sequence[float], floor: float, doubt: float = 0.01) -> Judgement:
    """Of pairs that stood beside each other in time, so that what slows the machine slows both. The ratio is the median
    of the pairs' ratios and of their means (Walsh), its interval that of the signed-rank test."""
    logs = [math.log(b / a) for a, b in zip(old, new, strict=True)]
    walsh = sorted((logs[i] + logs[j]) / 2 for i in range(len(logs)) for j in range(i, len(logs)))
    return _judged(walsh, _trimmed(signed_rank_counts(len(logs)), doubt), floor, len(logs))


def _judged(logs: Sequence[float], trimmed: int, floor: float, repetitions: int) -> Judgement:
    middle = (logs[(len(logs) - 1) // 2] + logs[len(logs) // 2]) / 2
    low, high = logs[trimmed], logs[-1 - trimmed]
    return Judgement(math.exp(middle), math.exp(low), math.exp(high), floor, repetitions >= _LEAST)


def _trimmed(ways: Sequence[int], doubt: float) -> int:
    """How many of the ordered ratios lie outside of the interval on each side: the most that leaves a chance of at most
    `doubt` / 2 that the true one is there."""
    most, below, all_ways = doubt / 2, 0, sum(ways)
    for statistic, count in enumerate(ways):
        below += count
        if below > most * all_ways:
            return max(statistic - 1, 0)
    raise AssertionError("the chance of everything is 1")


def rank_sum_counts(first: int, second: int) -> list[int]:
    """In how many orders of so many values the rank-sum statistic is 0, 1, ..., by the Gaussian binomial."""
    counts = [1] + [0] * (first * second)
    for i in range(1, first + 1):
        for place in range(len(counts) - 1, second + i - 1, -1):  # times 1 - q^(second + i)
            counts[place] -= counts[place - second - i]
        for place in range(i, len(counts)):  # by 1 - q^i
            counts[place] += counts[place - i]
    return counts


def signed_rank_counts(pairs: int) -> list[int]:
    """For how many choices of signs the signed-rank statistic is 0, 1, ...: the product of all 1 + q^rank."""
    counts = [1]
    for rank in range(1, pairs + 1):
        longer = [*counts, *[0] * rank]
        for place, count in enumerate(counts):
            longer[place + rank] += count
        counts = longer
    return counts


def drift(readings: Iterable[Sequence[float]]) -> float:
    """By what part the machine itself changed while it was measured: its limits, each against itself."""
    return max((1 - min(values) / max(values) for values in readings if values), default=0.0)
