"""The datasets of runs, where they still are."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.data.dataset import Dataset, open_dataset
from engine.folders.runs import Run

_USUAL = 1.2  # mV, the largest peak of a heart


def open_view(runs: Sequence[Run], *views: str) -> tuple[Dataset, str]:
    """The first that any of the runs' datasets has, as segments; and which dataset that is. Raises ValueError."""
    reasons = []
    for where in dict.fromkeys(path for run in runs for path in run.data):
        for view in views:
            try:
                if "://" in where:
                    raise ValueError(f"{where} lies in an object store; a report reads the datasets of this machine")
                return open_dataset([where], view), where
            except (ValueError, OSError) as failure:
                reasons.append(str(failure))
    raise ValueError("; ".join(dict.fromkeys(reasons)))


def millivolts(dataset: Dataset, samples: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """-> [n, SEGMENT, 12], and which leads are there [n, 12]."""
    rows = dataset.rows(samples)
    return np.stack([one[0] for one in dataset.signals(rows)]).astype(np.float32) / 1e3, rows.present[:, 0]


def ordinary(dataset: Dataset, among: int = 256) -> int:
    """A segment to look at: with as many leads as there are, and of those, the one whose largest peak is most usual."""
    signals, present = millivolts(dataset, np.arange(min(among, len(dataset))))
    leads = present.sum(1)
    odd = np.abs(np.log(np.abs(signals).max((1, 2)).clip(1e-3) / _USUAL))
    return int(np.where(leads == leads.max(), odd, np.inf).argmin())
