"""Which sample stands at which position. Pure: the same for every number of ranks and from any position on.

Positions run on over the epochs. Files are shuffled anew in each epoch and taken in windows of a few; the samples of a
window are shuffled among each other. So files are read in long runs, which cold disks and object stores need, and the
next ones are known ahead.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.data.philox import Purpose, permutation


@dataclass(frozen=True)
class Plan:
    """What one batch holds."""

    position: NDArray[np.int64]  # [n], of the whole run: the key of every random draw
    sample: NDArray[np.int64]  # [n], of the dataset
    valid: NDArray[np.bool_]  # [n], false where a last batch of an evaluation is filled up


class Order:
    """`counts`: samples of each file, which lie one after another. `weights`: how often an epoch takes each sample of
    a file, rounded to whole samples; where it takes a part, the next epoch goes on where this one stopped. Above 1 the
    same sample may come twice in one window."""

    def __init__(self, counts: ArrayLike, seed: int, window: int, weights: ArrayLike = 1.0) -> None:
        self.counts = np.asarray(counts, np.int64)
        self.first = np.cumsum(self.counts) - self.counts  # the sample a file begins with
        exact = self.counts * np.asarray(weights)
        self.taken = np.where(
            self.counts > 0, np.maximum(np.rint(exact).astype(np.int64), 1), 0
        )  # of each file, an epoch
        if abs(self.taken - exact).sum() > 0.05 * exact.sum():
            raise ValueError("data.weights: an epoch would take too few samples of each file to keep to these weights")
        self.epoch_length = int(self.taken.sum())
        self.seed = seed
        self.window = window
        if not self.epoch_length:
            raise ValueError("there are no samples to order")
        self._epoch = lru_cache(4)(self._epoch_uncached)
        self._window = lru_cache(4)(self._window_uncached)

    def samples(self, position: NDArray[np.int64]) -> NDArray[np.int64]:
        """-> the sample at each position."""
        sample = np.empty(len(position), np.int64)
        epoch, place = np.divmod(position, self.epoch_length)
        for each in np.unique(epoch):
            _, ends = self._epoch(int(each))
            here = np.flatnonzero(epoch == each)
            windows = np.searchsorted(ends, place[here], side="right")
            for window in np.unique(windows):
                within = here[windows == window]
                begin = int(ends[window - 1]) if window else 0
                sample[within] = self._window(int(each), int(window))[place[within] - begin]
        return sample

    def files_ahead(self, position: int) -> Iterator[NDArray[np.intp]]:
        """The files of the window at `position`, of the next one, and so on for ever."""
        epoch, place = divmod(position, self.epoch_length)
        window = int(np.searchsorted(self._epoch(epoch)[1], place, side="right"))
        while True:
            files, ends = self._epoch(epoch)
            for one in range(window, len(ends)):
                yield files[one * self.window : (one + 1) * self.window]
            epoch, window = epoch + 1, 0

    def window_end(self, position: int) -> int:
        """The position behind the window of `position`."""
        epoch, place = divmod(position, self.epoch_length)
        ends = self._epoch(epoch)[1]
        return epoch * self.epoch_length + int(ends[np.searchsorted(ends, place, side="right")])

    def _epoch_uncached(self, epoch: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """-> its files in order, and the place at which each of its windows ends."""
        filled = np.flatnonzero(self.taken)
        files = filled[permutation(self.seed, Purpose.FILES, filled, epoch)]
        last = np.r_[np.arange(self.window, len(files), self.window), len(files)] - 1
        return files, np.cumsum(self.taken[files])[last]

    def _window_uncached(self, epoch: int, window: int) -> NDArray[np.int64]:
        files = self._epoch(epoch)[0][window * self.window : (window + 1) * self.window]
        samples: NDArray[np.int64] = np.concatenate([self._of_file(int(file), epoch) for file in files])
        item = (window << 32) + np.arange(len(samples))
        return samples[permutation(self.seed, Purpose.WINDOW, item, epoch)]

    def _of_file(self, file: int, epoch: int) -> NDArray[np.int64]:
        """The samples an epoch takes of a file: a stretch of shuffled passes over it without end."""
        count, taken = int(self.counts[file]), int(self.taken[file])
        if count == taken:
            return np.arange(self.first[file], self.first[file] + count)
        begun, skipped = divmod(epoch * taken, count)
        items = (file << 32) + np.arange(count)
        passes = range(begun, -(-(epoch + 1) * taken // count))
        rows = np.concatenate([permutation(self.seed, Purpose.ROWS, items, one) for one in passes])
        samples: NDArray[np.int64] = self.first[file] + rows[skipped : skipped + taken]
        return samples


def training(order: Order, position: int, batch: int, rank: int = 0, ranks: int = 1) -> Iterator[Plan]:
    """The batches of `rank` from `position` on, for ever: `ranks` of them stand one behind another in the order."""
    while True:
        mine = position + rank * batch + np.arange(batch)
        yield Plan(mine, order.samples(mine), np.ones(batch, bool))
        position += ranks * batch


def evaluation(samples: int, batch: int, rank: int = 0, ranks: int = 1) -> Iterator[Plan]:
    """Every sample once, in the order of the dataset; every rank gets as many batches, and all are full."""
    for start in range(0, samples, ranks * batch):
        position = start + rank * batch + np.arange(batch)
        yield Plan(position, np.minimum(position, samples - 1), position < samples)
