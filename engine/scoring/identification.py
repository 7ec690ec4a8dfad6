"""Identification: whose gallery entry is nearest to a probe, by cosine.

The matrix of all similarities exists only block by block. Cosines are rounded to RESOLUTION, about that of float32
embeddings: what is equal there is a tie, however the products were summed up.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
RESOLUTION = 2.0**-24
_NOBODY = -np.inf  # the similarity of what does not count


class Identification(NamedTuple):
    rank1: float  # mean of credit1: the share of probes whose nearest gallery entry is of the same person
    rank5: float
    equal_error_rate: float
    credit1: Floats  # [P] of each probe, for a bootstrap: 0 or 1, but for ties
    credit5: Floats


class _Own(NamedTuple):
    """The pairs of a probe and a gallery entry of the same person."""

    best: Floats  # [P] the similarity of the nearest
    at_best: Integers  # [P] how many are as near
    all_: Floats  # all similarities, in rising order


def identify(
    gallery: ArrayLike, gallery_people: ArrayLike, probe: ArrayLike, probe_people: ArrayLike, block: int = 1024
) -> Identification:
    """`gallery` [G, d], `probe` [P, d], people [G] and [P] of any type that sorts.

    rank-k: one of the k nearest gallery entries is of the probe's person, so that of several entries of one person
    the nearest counts. Entries equally near stand in random order: the credit of a probe is the probability, and an
    encoder that gives one vector for everything scores 1 in G. Equal error rate: see `equal_error_rate`; the trials
    are all pairs of a probe and a gallery entry.
    Memory beyond the arguments: a few blocks of similarities and of vectors, and a few numbers for each person, entry
    and pair of the same person."""
    gallery, probe = _vectors(gallery, "gallery", block), _vectors(probe, "probe", block)
    if gallery.shape[1] != probe.shape[1]:
        raise ValueError(f"gallery vectors have {gallery.shape[1]} numbers, probe vectors {probe.shape[1]}")
    of_gallery, of_probe = _people(gallery, gallery_people, probe, probe_people)
    own = _own(gallery, of_gallery, probe, of_probe, block)
    thresholds = np.unique(own.all_)
    nearer, as_near = np.zeros((2, len(probe)), np.int64)
    accepted = np.zeros((len(thresholds), 2), np.int64)  # impostor pairs at or above each threshold, and above
    for rows, columns in _blocks(len(probe), len(gallery), block):
        cosines = _rounded(unit(probe[rows]) @ unit(gallery[columns]).T)
        cosines[of_probe[rows, None] == of_gallery[None, columns]] = _NOBODY
        nearer[rows] += (cosines > own.best[rows, None]).sum(1)
        as_near[rows] += (cosines == own.best[rows, None]).sum(1)
        accepted += cosines.size - _below(np.sort(cosines, axis=None), thresholds)
    credit1, credit5 = (_credit(k, nearer, as_near, own.at_best) for k in (1, 5))
    impostors = len(probe) * len(gallery) - len(own.all_)
    rate = equal_error_rate(accepted / impostors, _below(own.all_, thresholds) / len(own.all_))
    return Identification(float(credit1.mean()), float(credit5.mean()), rate, credit1, credit5)


def equal_error_rate(false_accept: Floats, false_reject: Floats) -> float:
    """Where the two rates cross, [thresholds, 2] each: at every distinct similarity of a same-person pair, in rising
    order, where it is just accepted and where it is just not.

    That is all of the curve: between two such similarities the false reject rate stands still, and where it crosses
    there, it is the result. At one of them both rates may change (a tie), and run straight from end to end."""
    accept, reject = false_accept.ravel(), false_reject.ravel()
    after = int(np.argmax(reject >= accept))  # at the end all are rejected
    if after == 0:  # at the lowest similarity nobody is rejected, hence none is falsely accepted either
        return 0.0
    below, above = (reject - accept)[after - 1 : after + 1]
    return float(reject[after - 1] + below / (below - above) * (reject[after] - reject[after - 1]))


def _below(rising: Floats, thresholds: Floats) -> Integers:
    """[thresholds, 2]: how many of `rising` are below each, and how many not above."""
    return np.stack([np.searchsorted(rising, thresholds, "left"), np.searchsorted(rising, thresholds, "right")], 1)


def _credit(k: int, nearer: Integers, others: Integers, own: Integers) -> Floats:
    """[P] the probability that one of `own` is among the first k, behind `nearer`, in a random order with `others`."""
    missed = np.ones(len(nearer))
    for place in range(k):
        free = place < k - nearer  # a place for those equally near, and so far all of them went to others
        left = np.maximum(others - place, 0)
        missed *= np.where(free, left / (left + own), 1.0)
    return 1 - missed


def _own(gallery: NDArray, of_gallery: Integers, probe: NDArray, of_probe: Integers, block: int) -> _Own:
    order = np.argsort(of_gallery, kind="stable")
    first = np.searchsorted(of_gallery, of_probe, "left", sorter=order)
    behind = np.searchsorted(of_gallery, of_probe, "right", sorter=order)
    count = behind - first
    start = np.cumsum(count) - count
    row = np.repeat(np.arange(len(probe)), count)
    column = order[np.arange(len(row)) - np.repeat(start - first, count)]
    cosines = np.empty(len(row))
    for low in range(0, len(row), block):
        some = slice(low, low + block)
        cosines[some] = _rounded((unit(probe[row[some]]) * unit(gallery[column[some]])).sum(1))
    best = np.maximum.reduceat(cosines, start)
    return _Own(best, np.add.reduceat((cosines == best[row]).astype(np.int64), start), np.sort(cosines))


def _blocks(rows: int, columns: int, block: int) -> Iterator[tuple[slice, slice]]:
    for row in range(0, rows, block):
        for column in range(0, columns, block):
            yield slice(row, row + block), slice(column, column + block)


def _rounded(cosines: Floats) -> Floats:
    whole: Floats = np.rint(cosines / RESOLUTION)
    return whole * RESOLUTION


def unit(vectors: NDArray) -> Floats:
    """In float64, of which embeddings at large have no copy. What is all zeros stays so."""
    wide = vectors.astype(np.float64)
    largest = np.abs(wide).max(axis=1, keepdims=True)
    wide /= np.where(largest, largest, 1)  # lest a square overflow, or vanish
    wide /= np.linalg.norm(wide, axis=1, keepdims=True).clip(1)  # at least 1 now, but for zeros
    return wide


def _vectors(given: ArrayLike, what: str, block: int) -> NDArray:
    array = np.asarray(given)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"the {what} is an array [entries, numbers] of at least one each; found {array.shape}")
    parts = [array[low : low + block] for low in range(0, len(array), block)]
    broken = sum(int((~np.isfinite(part)).any(axis=1).sum()) for part in parts)
    if broken:
        raise ValueError(f"{broken} of {len(array)} {what} vectors are not finite")
    zero = sum(int((part == 0).all(axis=1).sum()) for part in parts)
    if zero:
        raise ValueError(f"{zero} of {len(array)} {what} vectors are zero: they have no direction")
    return array


def _people(
    gallery: NDArray, gallery_people: ArrayLike, probe: NDArray, probe_people: ArrayLike
) -> tuple[Integers, Integers]:
    """A number a person, the same in gallery and probe."""
    names = []
    for what, people, vectors in (("gallery", gallery_people, gallery), ("probe", probe_people, probe)):
        names.append(np.asarray(people))
        if names[-1].shape != (len(vectors),):
            raise ValueError(f"{len(vectors)} {what} vectors need as many people; found {names[-1].shape}")
    known, codes = np.unique(np.concatenate(names), return_inverse=True)
    of_gallery, of_probe = codes[: len(gallery)], codes[len(gallery) :]
    strangers = np.setdiff1d(of_probe, of_gallery)
    if len(strangers):
        raise ValueError(f"{len(strangers)} people of the probe are not in the gallery, such as {known[strangers[0]]}")
    if of_gallery.min() == of_gallery.max():
        raise ValueError(f"the gallery has one person only, {known[0]}: nobody to be taken for")
    return of_gallery, of_probe
