"""The score of the PhysioNet/CinC challenge 2021: a confusion is worth the more, the more alike the treatment is."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.scoring.inputs import check_alike, decisions

Floats = NDArray[np.float64]

# The challenge's table of weights in closed form: 1 on the diagonal; elsewhere 0.5 less the distance of the two
# classes on this line ...
SEVERITY = {
    "AF": 0.0,
    "AFL": 0.0,
    "BBB": 0.025,
    "Brady": 0.2,
    "CLBBB|LBBB": 0.025,
    "CRBBB|RBBB": 0.1,
    "IAVB": 0.2,
    "IRBBB": 0.2,
    "LAD": 0.15,
    "LAnFB": 0.15,
    "LPR": 0.2,
    "LQRSV": 0.075,
    "LQT": 0.05,
    "NSIVCB": 0.15,
    "NSR": 0.25,
    "PAC|SVPB": 0.1625,
    "PR": 0.125,
    "PRWP": 0.075,
    "PVC|VPB": 0.125,
    "QAb": -0.1,
    "RAD": 0.15,
    "SA": 0.2,
    "SB": 0.2,
    "STach": 0.125,
    "TAb": 0.0,
    "TInv": 0.0,
}
# ... but for two pairs that stand on one point of it, and are not quite the same all the same.
NEAR = (("BBB", "CLBBB|LBBB"), ("LQRSV", "PRWP"))
NEAR_WEIGHT = 0.475
NORMAL = "NSR"


def weights(classes: Sequence[str]) -> Floats:
    """[26, 26]: what it is worth to say one class where it is another, in the order of `classes`."""
    check_classes(classes)
    severity = np.array([SEVERITY[name] for name in classes])
    table: Floats = 0.5 - np.abs(severity[:, None] - severity)
    for pair in NEAR:
        first, second = map(list(classes).index, pair)
        table[first, second] = table[second, first] = NEAR_WEIGHT
    np.fill_diagonal(table, 1)
    return table


def check_classes(classes: Sequence[str]) -> None:
    missing = [name for name in SEVERITY if name not in classes]
    strange = [name for name in classes if name not in SEVERITY]
    twice = sorted({name for name in classes if list(classes).count(name) > 1})
    found = [f"{what}: {', '.join(names)}" for what, names in
             (("missing", missing), ("not among them", strange), ("more than once", twice)) if names]  # fmt: skip
    if found:
        raise ValueError(f"the CinC score needs the challenge's {len(SEVERITY)} classes; {'; '.join(found)}")


class Parts(NamedTuple):
    """What each recording adds to the sums of which the score is made: [n]."""

    observed: Floats
    correct: Floats  # had its labels been the output
    inactive: Floats  # had it been normal sinus rhythm, whatever the recording


def parts(labels: ArrayLike, outputs: ArrayLike, classes: Sequence[str]) -> Parts:
    """`labels` and `outputs` are 0 or 1: [n, classes], in the order of `classes`."""
    table = weights(classes)
    truth, said = decisions(labels, "labels"), decisions(outputs, "outputs")
    check_alike(truth, said)
    if truth.shape[1] != len(classes):
        raise ValueError(f"labels have {truth.shape[1]} columns for {len(classes)} classes")
    worth = truth @ table  # [n, classes]: of saying a class

    def gained(said: NDArray[np.bool_]) -> Floats:
        total: Floats = (worth * said).sum(1) / np.maximum((truth | said).sum(1), 1)
        return total

    return Parts(gained(said), gained(truth), gained(np.broadcast_to(np.array(classes) == NORMAL, truth.shape)))


def ratio(of: Parts, resamples: Floats | None = None) -> Floats:
    """The score of the recordings `of`; with `resamples` [b, n], how often each recording counts, b scores.

    0 where nothing could have been gained over normal sinus rhythm, as in the challenge."""
    ones = np.ones((1, len(of.observed)))
    # Differences first: a recording that is normal and nothing else then adds exactly 0.
    gains = np.stack([of.observed - of.inactive, of.correct - of.inactive], axis=1)  # [n, 2]
    gained, possible = np.moveaxis((ones if resamples is None else resamples) @ gains, -1, 0)
    scores: Floats = np.divide(gained, possible, out=np.zeros_like(gained), where=possible != 0)
    return scores[0] if resamples is None else scores


def score(labels: ArrayLike, outputs: ArrayLike, classes: Sequence[str]) -> float:
    """The challenge's score: 1 for the labels themselves, 0 for normal sinus rhythm throughout."""
    return float(ratio(parts(labels, outputs, classes)))
