"""One way to feed pairs, alone in its process: python -m benchmarks.loader_runs HOW DATA [--cold] [--window N].

Prints pairs a second; cold: over one pass. Every way gives batches of 256 pairs as float32 torch tensors
[256, 2, 2500, 12] in mV; `rlm` and the peers mask each lead of each segment with probability 0.5.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from engine.data.chance import LEADS, SEGMENT, Augmentation
from engine.data.dataset import open_dataset
from engine.data.order import Order, training
from engine.data.pipeline import Batches, reading_ahead

BATCH = 256
_WARM_UP = 5  # batches
_PHYSIO3 = Augmentation(powerline=0.5, emg=0.5, wander=0.5)
AUGMENTATIONS = {
    "plain": Augmentation(),
    "rlm": Augmentation(mask_leads=0.5),
    "physio3": _PHYSIO3,
    "physio4": replace(_PHYSIO3, shift=0.5),
    "3kg": Augmentation(vectorcardiogram=True),
}


def ours(name: str, data: Path, window: int) -> Iterator[torch.Tensor]:
    turned = name == "3kg"
    dataset = open_dataset([str(data)], "pretrain", pairs=not turned, window=window)
    order = Order(dataset.counts, seed=0, window=window)
    plans = reading_ahead(training(order, 0, BATCH), order, dataset)
    with Batches(dataset, plans, AUGMENTATIONS[name], seed=0, views=2 if turned else 1) as batches:
        yield from (batch.signal for batch in batches)


def plain_loop(data: Path) -> Iterator[torch.Tensor]:
    """The loop that a careful person writes first: crops at random from mapped files, each masked into one buffer."""
    files = [np.memmap(data / file["name"], np.uint8, "r") for file in _files(data)]
    view = {name: np.load(data / "views" / "pretrain" / f"{name}.npy") for name in ("file", "offset")}
    random = np.random.default_rng(0)
    batch = np.empty((BATCH, 2, SEGMENT, len(LEADS)), np.float32)
    while True:
        epoch = random.permutation(len(view["file"]))
        for rows in np.split(epoch, range(BATCH, len(epoch), BATCH))[:-1]:
            gain = (random.random((BATCH, 2, 1, len(LEADS))) >= 0.5) * np.float32(1e-3)
            for place, (file, offset) in enumerate(zip(view["file"][rows], view["offset"][rows], strict=True)):
                crop = np.frombuffer(files[file], "<i2", batch[0].size, offset).reshape(batch[0].shape)
                np.multiply(crop, gain[place], out=batch[place])
            yield torch.from_numpy(batch)


def webdataset_loader(data: Path) -> Iterator[torch.Tensor]:
    import webdataset

    def masked(crop: np.ndarray) -> torch.Tensor:
        signal = torch.from_numpy(crop).view(2, SEGMENT, len(LEADS))
        return signal * ((torch.rand(2, 1, len(LEADS)) >= 0.5) * 1e-3)

    shards = [str(data / file["name"]) for file in _files(data) if file["name"].startswith("train/")]
    samples = webdataset.WebDataset(shards, shardshuffle=100).shuffle(1000).decode().to_tuple("npy").map_tuple(masked)
    loader = torch.utils.data.DataLoader(samples.batched(BATCH, partial=False), batch_size=None, num_workers=2)
    while True:
        yield from (signal for (signal,) in loader)


def dali_webdataset(data: Path) -> Iterator[torch.Tensor]:
    """DALI's own reader of tars, with DALI's own random numbers."""
    from nvidia.dali import Pipeline, fn
    from torch.utils.dlpack import from_dlpack

    shards = [str(data / file["name"]) for file in _files(data) if file["name"].startswith("train/")]
    pipeline = Pipeline(batch_size=BATCH, num_threads=2, device_id=None, exec_dynamic=True, seed=1)
    with pipeline:
        packed = fn.readers.webdataset(
            paths=shards,
            index_paths=[shard.removesuffix(".tar") + ".idx" for shard in shards],
            ext=["npy"],
            random_shuffle=True,
            initial_fill=1000,
        )
        crop = fn.reshape(fn.decoders.numpy(packed), shape=[2, SEGMENT, len(LEADS)])
        kept = fn.random.coin_flip(shape=[2, 1, len(LEADS)])
        pipeline.set_outputs(crop * (kept * np.float32(1e-3)))
    pipeline.build()
    while True:
        (out,) = pipeline.run()
        yield from_dlpack(out.as_tensor())


def _files(data: Path) -> list[dict[str, str]]:
    files: list[dict[str, str]] = json.loads((data / "dataset.json").read_text())["files"]
    return files


def _evict(data: Path) -> None:
    """The dataset's pages from the page cache."""
    for file in _files(data):
        with open(data / file["name"], "rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _rate(batches: Iterator[torch.Tensor], seconds: float, warm_up: int, most: int) -> float:
    for signal in islice(batches, warm_up):
        assert signal.shape == (BATCH, 2, SEGMENT, len(LEADS)) and signal.dtype == torch.float32
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds and count < most:
        next(batches)
        count += 1
    return BATCH * count / (time.perf_counter() - begin)


PEERS: dict[str, Callable[[Path], Iterator[torch.Tensor]]] = {
    "plain loop": plain_loop,
    "webdataset": webdataset_loader,
    "DALI webdataset": dali_webdataset,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=[*AUGMENTATIONS, *PEERS])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    torch.set_num_threads(2)
    if chosen.cold:
        _evict(chosen.data)
    peer = PEERS.get(chosen.how)
    batches = peer(chosen.data) if peer else ours(chosen.how, chosen.data, chosen.window)
    if chosen.cold:  # one pass: nothing is read from memory for a second time
        samples = len(np.load(chosen.data / "views" / "pretrain" / "file.npy", mmap_mode="r"))
        print(_rate(batches, math.inf, 0, samples // BATCH - 1))
    else:
        print(_rate(batches, chosen.seconds, _WARM_UP, sys.maxsize))


if __name__ == "__main__":
    main()
