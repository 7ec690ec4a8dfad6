"""Diagnosis: AUROC, AUPRC and F1 of each class, as the CinC 2021 program has them, and the threshold of the outputs.

A figure is NaN for a class that does not define it, and a macro mean leaves such classes out and says over how many
it is. AUROC needs a positive and a negative, AUPRC a positive (without a negative it is 1), F1 a positive label or a
positive output. Equal outputs are one point of the curve, whatever their order.

`resamples` [b, n] says how often each segment counts in each of b resamples; figures are then [b, classes].
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.scoring import cinc
from engine.scoring.inputs import check_alike, decisions
from engine.scoring.inputs import outputs as checked_outputs

Floats = NDArray[np.float64]
THRESHOLD = 0.5  # the paper's
THRESHOLDS = np.arange(1, 100) / 100  # among which is tuned
_AT_ONCE = 1 << 18  # numbers: what the resamples sorted at once take stays in the processor's cache


class Curves(NamedTuple):
    auroc: Floats  # [classes], or [b, classes]
    auprc: Floats


class Macro(NamedTuple):
    mean: Floats  # over the classes that define the figure; NaN where none does
    classes: NDArray[np.int64]  # how many do


def curves(labels: ArrayLike, outputs: ArrayLike, resamples: Floats | None = None) -> Curves:
    """The areas below both curves; of the outputs only the order counts, so that logits will do."""
    truth = decisions(labels, "labels")
    given = checked_outputs(outputs, truth)
    counts = _counts(resamples, len(truth))
    found = np.empty((2, len(counts), truth.shape[1]))
    step = max(1, _AT_ONCE // len(truth))
    for column in range(truth.shape[1]):
        order = np.argsort(-given[:, column], kind="stable")
        falling = given[order, column]
        last = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(falling) - 1)  # of each run of equal outputs
        for low in range(0, len(counts), step):
            some = slice(low, low + step)
            found[:, some, column] = _areas(truth[order, column], counts[some][:, order], last)
    return Curves(*(found[:, 0] if resamples is None else found))


def _areas(truth: NDArray[np.bool_], counts: Floats, last: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """`truth` [n] and `counts` [b, n] in the falling order of the outputs -> AUROC [b], AUPRC [b]."""
    positive, all_ = (np.cumsum(c, axis=1)[:, last] for c in (counts * truth, counts))  # at or above each threshold
    negative = all_ - positive
    gained = np.diff(positive, prepend=0)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN that is meant
        # A negative stands below the positives above its own run, and below half of those in it.
        below = (np.diff(negative, prepend=0) * (positive - gained / 2)).sum(1)
        auroc = below / (positive[:, -1] * negative[:, -1])
        precision = np.divide(positive, all_, out=np.zeros_like(positive), where=all_ > 0)
        auprc = (gained * precision).sum(1) / positive[:, -1]
    return auroc, auprc


def f1(labels: ArrayLike, outputs: ArrayLike, resamples: Floats | None = None) -> Floats:
    """`labels` and `outputs` are 0 or 1. -> [classes], or [b, classes]"""
    truth, said = decisions(labels, "labels"), decisions(outputs, "outputs")
    check_alike(truth, said)
    counts = _counts(resamples, len(truth))
    twice_true = 2 * (counts @ (truth & said))
    with np.errstate(invalid="ignore"):
        found: Floats = twice_true / (counts @ truth + counts @ said)
    return found[0] if resamples is None else found


def macro(figures: Floats) -> Macro:
    """The mean over the last axis, that of the classes."""
    defined = ~np.isnan(figures)
    count = defined.sum(-1)
    with np.errstate(invalid="ignore"):
        return Macro(np.where(defined, figures, 0).sum(-1) / count, count)


def decide(probabilities: ArrayLike, threshold: float = THRESHOLD) -> NDArray[np.bool_]:
    """A class is said where its probability is above the threshold."""
    given = np.asarray(probabilities)
    outside = np.count_nonzero(~((given >= 0) & (given <= 1)))
    if outside:
        raise ValueError(f"{outside} of {given.size} outputs are no probabilities: a sigmoid gives 0 to 1")
    return given > threshold


def tune(labels: ArrayLike, probabilities: ArrayLike, classes: Sequence[str]) -> float:
    """The threshold, one for all classes, of the best CinC score: of all 0.01, 0.02 ... 0.99, and of equally good
    ones the nearest to 0.5."""
    given = checked_outputs(probabilities, decisions(labels, "labels"))
    scores = np.array([cinc.score(labels, decide(given, threshold), classes) for threshold in THRESHOLDS])
    best = THRESHOLDS[scores >= scores.max() - 1e-12]  # rounding is no merit
    return float(best[np.argmin(np.abs(best - THRESHOLD))])


def _counts(resamples: Floats | None, segments: int) -> Floats:
    if resamples is None:
        return np.ones((1, segments))
    if resamples.ndim != 2 or resamples.shape[1] != segments:
        raise ValueError(f"resamples are [b, {segments}], a column a segment; found {resamples.shape}")
    return resamples
