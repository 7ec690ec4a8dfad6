"""Random bits as a pure function of a counter: Philox4x32-10 (Salmon et al., SC 2011), vectorised. Pure.

Nothing is ever "the next" number here, so nothing has to be saved, skipped or split over ranks.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)


class Purpose(IntEnum):
    """What a draw is for. One purpose's numbers tell nothing of another's; the values are part of every run."""

    FILES = 1
    ROWS = 2
    WINDOW = 3
    LEADS = 4
    POWERLINE = 5
    EMG = 6
    WANDER = 7
    SHIFT = 8
    VECTORCARDIOGRAM = 9
    TIME_MASK = 10
    TIME_MASK_THINNING = 11
    GAUSSIAN_BANK = 12
    TORCH = 13  # seeds of torch's generators


def philox(counter: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike], key: tuple[int, int]) -> NDArray[np.uint32]:
    """Four words of the counter, which broadcast -> [..., 4] random words."""
    c0, c1, c2, c3 = (np.asarray(word, np.uint64) for word in counter)
    k0, k1 = key
    for _ in range(10):
        p0, p1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> _HIGH) ^ c1 ^ np.uint64(k0), p1 & _LOW, (p0 >> _HIGH) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3), -1).astype(np.uint32)


def bits(seed: int, purpose: Purpose, position: ArrayLike, stream: ArrayLike, count: int) -> NDArray[np.uint32]:
    """-> [..., count] words of each (position, stream), which broadcast: 64 and 32 bits wide."""
    where = np.asarray(position, np.uint64)[..., None]
    block = np.arange(-(-count // 4), dtype=np.uint64)
    counter = (where & _LOW, where >> _HIGH, np.asarray(stream, np.uint64)[..., None], (int(purpose) << 16) + block)
    words = philox(counter, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))  # [..., blocks, 4]
    return words.reshape(*words.shape[:-2], -1)[..., :count]


def uniform(seed: int, purpose: Purpose, position: ArrayLike, stream: ArrayLike, count: int) -> NDArray[np.float64]:
    """-> [..., count] in (0, 1), never either."""
    return (bits(seed, purpose, position, stream, count).astype(np.float64) + 0.5) * 2.0**-32


def normal(seed: int, purpose: Purpose, position: ArrayLike, stream: ArrayLike, count: int) -> NDArray[np.float64]:
    values: NDArray[np.float64] = ndtri(uniform(seed, purpose, position, stream, count))
    return values


def permutation(seed: int, purpose: Purpose, item: ArrayLike, stream: int) -> NDArray[np.intp]:
    """The order of items, which are numbers of 64 bits, by lot."""
    words = bits(seed, purpose, item, stream, 2).astype(np.uint64)
    return np.argsort(words[:, 0] << _HIGH | words[:, 1], kind="stable")
