"""How sure a figure is: over the patients of a test set by bootstrap, over the seeds of a training by Student's t."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]
COVERAGE = 0.95


def resampled(people: ArrayLike, times: int, seed: int) -> Floats:
    """`people` [n], whose each row is -> [times, n], how often each row counts.

    A resample draws as many people as there are, with replacement; all rows of a person come and go together, since
    two segments of one heart are no two witnesses."""
    _, person = np.unique(np.asarray(people), return_inverse=True)
    if not person.size:
        raise ValueError("nothing to resample: no rows")
    count = int(person.max()) + 1
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=times)
    return drawn.astype(np.float64)[:, person]


def percentile_interval(values: ArrayLike, coverage: float = COVERAGE) -> tuple[Floats, Floats]:
    """`values` [times, ...] of the resamples -> the lowest and highest of their middle `coverage`.

    Resamples in which a figure is not defined (NaN: a class lost its positives) are left out; where none is, NaN."""
    array = np.asarray(values, np.float64)
    tail = (1 - coverage) / 2
    found = np.full((2, *array.shape[1:]), np.nan)
    defined = ~np.isnan(array).all(axis=0)  # else numpy warns of what is meant
    found[:, defined] = np.nanquantile(array[:, defined], (tail, 1 - tail), axis=0)
    return found[0], found[1]


def mean_interval(values: ArrayLike, coverage: float = COVERAGE) -> tuple[float, float | None]:
    """The mean of n seeds and the half width of its interval: t(n - 1; (1 + coverage) / 2) * s / sqrt(n), where s is
    the standard deviation with n - 1 degrees of freedom. One seed says nothing of the others: None."""
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise ValueError(f"a mean over seeds needs at least one value, all finite; found {array.tolist()}")
    count = len(array)
    if count == 1:
        return float(array[0]), None
    width = stdtrit(count - 1, (1 + coverage) / 2) * array.std(ddof=1) / np.sqrt(count)
    return float(array.mean()), float(width)
