"""Opens a dataset and reads from it, alone in its process: python -m benchmarks.scaling.reading DATA SECONDS"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.loader_runs import AUGMENTATIONS, BATCH
from engine.data.dataset import open_dataset
from engine.data.order import Order, training
from engine.data.pipeline import Batches, reading_ahead

_WARM_UP = 3  # batches


def main() -> None:
    data, limit = sys.argv[1], float(sys.argv[2])
    torch.set_num_threads(2)
    begin = time.perf_counter()
    dataset = open_dataset([data], "pretrain", pairs=True)
    opened = time.perf_counter() - begin
    opened_mb = _memory()
    order = Order(dataset.counts, seed=0, window=8)
    begin = time.perf_counter()
    order.samples(np.arange(512))
    ordered = time.perf_counter() - begin
    plans = reading_ahead(training(order, 0, BATCH), order, dataset)
    with Batches(dataset, plans, AUGMENTATIONS["rlm"], seed=0) as batches:
        for _ in range(_WARM_UP):
            next(batches)
        begin, count, most_mb = time.perf_counter(), 0, 0.0
        while time.perf_counter() - begin < limit:
            next(batches)
            count += 1
            most_mb = max(most_mb, _memory())
        seconds = time.perf_counter() - begin
        found = {
            "crops": len(dataset),
            "open_seconds": opened,
            "order_seconds": ordered,
            "pairs_per_second": BATCH * count / seconds,
            "open_mb": opened_mb,
            "peak_mb": most_mb,
        }
    print(json.dumps(found))


def _memory() -> float:
    """MB of this process's own; what it has mapped is the page cache's."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) / 1024


if __name__ == "__main__":
    main()
