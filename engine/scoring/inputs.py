"""What the scores of diagnosis take: a row a segment (or a recording), a column a class."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def decisions(values: ArrayLike, what: str) -> NDArray[np.bool_]:
    """0s and 1s, of whatever type, as [n, classes]."""
    array = np.asarray(values)
    _check_shape(array, what)
    if array.dtype == bool:
        return array
    strangers = np.setdiff1d(array, (0, 1))
    if len(strangers):
        raise ValueError(f"{what} are 0 or 1; found {strangers[0]}")
    return array.astype(bool)


def outputs(values: ArrayLike, of: NDArray[np.bool_]) -> NDArray[np.floating]:
    """A number for each of the labels `of`: NaN and infinity are what a broken model gives."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    _check_shape(array, "outputs")
    check_alike(of, array)
    broken = int((~np.isfinite(array)).any(axis=1).sum())
    if broken:
        raise ValueError(f"the outputs of {broken} of {len(array)} segments are not finite")
    return array


def check_alike(labels: NDArray, given: NDArray) -> None:
    if labels.shape != given.shape:
        raise ValueError(f"labels are {_shape(labels)} and outputs {_shape(given)} [segments x classes]: must be equal")


def _check_shape(array: NDArray, what: str) -> None:
    if array.ndim != 2 or not array.size:
        raise ValueError(f"{what} are an array [segments, classes] of at least one each; found {_shape(array)}")


def _shape(array: NDArray) -> str:
    return " x ".join(map(str, array.shape)) or "a single number"
