"""python -m benchmarks.checkpoint_runs SIZE FOLDER REPEATS: what the loop does at a checkpoint and at a resume, timed.

The first round is not counted. Prints JSON on its last line.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch

from benchmarks.machine import wait
from engine.config.pretraining import ModelConfig, PretrainConfig, PretrainRunConfig
from engine.learner import Learner
from engine.training import checkpoint, ranks
from engine.training.checkpoint import Saver
from engine.training.loop import to_host
from engine.training.zero import MOMENTS, Zero


def main() -> None:
    size, folder, repeats = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    together = ranks.start()
    config = PretrainConfig(model=ModelConfig(size=size), run=PretrainRunConfig(dir=str(folder)))
    learner = Learner(config.system, config.sizes).to(together.device)
    zero = Zero(config, learner, 1, 1)
    saver = Saver(folder, keep_last=1, keep_every=None)
    rounds = [_round(zero, saver, folder, number, together.device) for number in range(1 + repeats)]
    written = sum(path.stat().st_size for path in (folder / f"update-{repeats:08d}").iterdir())
    parameters = sum(parameter.numel() for parameter in learner.parameters())
    seconds = {name: [one[name] for one in rounds[1:]] for name in rounds[0]}
    print(json.dumps({"parameters": parameters, "bytes": written, "seconds": seconds}), flush=True)
    os._exit(0)  # torch's own exit may wait


def _round(zero: Zero, saver: Saver, folder: Path, number: int, device: torch.device) -> dict[str, float]:
    seconds = {}
    wait(device)
    begin = time.perf_counter()
    weights = to_host(zero.weights(), keep=True)
    moments = {which: to_host(zero.moments(which), keep=True) for which in MOMENTS}
    saver.save(weights, moments, {"update": number})
    seconds["pause (copy to the host)"] = time.perf_counter() - begin
    saver.wait()
    seconds["until it is whole on the disk"] = time.perf_counter() - begin
    written = folder / f"update-{number:08d}"
    seconds["a plain file of as many bytes"] = _plain(folder / "plain.bin", written)
    begin = time.perf_counter()
    found = checkpoint.read(written)
    seconds["read and verified"] = time.perf_counter() - begin
    begin = time.perf_counter()
    zero.set_weights(found.weights)
    zero.set_moments(found.moments, number)
    wait(device)
    seconds["restored into the engine"] = time.perf_counter() - begin
    return seconds


def _plain(path: Path, of: Path) -> float:
    """Its bytes from memory into one file, until the disk has them."""
    parts = [part.read_bytes() for part in of.iterdir()]
    os.sync()
    begin = time.perf_counter()
    with open(path, "wb", buffering=0) as opened:
        for part in parts:
            view = memoryview(part)
            while view:  # one call writes 2 GB at most
                view = view[opened.write(view) :]
        os.fsync(opened.fileno())
    seconds = time.perf_counter() - begin
    path.unlink()
    return seconds


if __name__ == "__main__":
    main()
