"""One rank of a measurement, alone in its process: whole updates under DeepSpeed, and collectives.

Several ranks are one run, or, each in a world of its own, neighbours: they keep the machine as busy and send nothing.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from engine.config.common import load
from engine.config.pretraining import PretrainConfig
from engine.data.chance import LEADS, SEGMENT
from engine.learner import Learner
from engine.methods import SPAN, SPANS
from engine.training import ranks as launch
from engine.training.pretraining import share_pools
from engine.training.ranks import Ranks
from engine.training.zero import Zero

_CONFIG = Path(__file__).parents[2] / "configs" / "pretrain" / "w2v_cmsc_rlm.yaml"
_WARM_UP = 2  # updates, calls


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    out = Path(sys.argv[2])
    ranks = launch.start()
    _take_own_cores(ranks, order["together"], int(os.environ["PLACE"]))
    wait = _meeting(order["meet"], order["together"])
    found: dict[str, Any] = {"updates": [_updates(cell, ranks, wait) for cell in order["cells"]]}
    if ranks.world > 1:
        found["collectives"] = _collectives(order["bytes"], ranks, wait)
    out.write_text(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # as the engine's own commands


def _take_own_cores(ranks: Ranks, together: int, place: int) -> None:
    """Each of those who measure `together` has its part of the machine, whoever the others are."""
    if ranks.device.type == "cuda":
        return
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // together)
    mine = cores[place % len(cores) // each * each :][:each] if together <= len(cores) else cores
    os.sched_setaffinity(0, mine)
    torch.set_num_threads(len(mine))


def _meeting(path: str, together: int) -> Callable[[], None]:
    """-> waits until all who measure together have called it as often."""
    store = dist.FileStore(path, together)  # type: ignore[attr-defined]
    meetings = 0

    def wait() -> None:
        nonlocal meetings
        meetings += 1
        store.add("here", 1)
        while store.add("here", 0) < meetings * together:
            time.sleep(0.001)

    return wait


def _updates(cell: dict[str, Any], ranks: Ranks, wait: Callable[[], None]) -> dict[str, Any]:
    """Seconds of each update, and what one of them sends: how often, and how many bytes, by collective."""
    config = _config(cell, ranks.world)
    learner = Learner(config.system, config.sizes, ranks=share_pools(config.contrast_pool, cell["micro_batch"], ranks))
    learner.to(ranks.device)
    if ranks.device.type == "cuda" and config.train.zero_stage < 3:
        learner.forward = torch.compile(learner.forward, fullgraph=True)  # type: ignore[method-assign]
    zero = Zero(config, learner, cell["micro_batch"], cell["micro_steps"])
    inputs = _inputs(cell["micro_batch"], ranks)

    def update() -> float:
        begin = time.perf_counter()
        for _ in range(cell["micro_steps"]):
            zero.micro_step(*inputs)
        zero.gradient_norm()  # waits for the device
        return time.perf_counter() - begin

    for _ in range(_WARM_UP):
        update()
    sent = Sent()
    if ranks.world > 1 and ranks.device.type == "cpu":  # elsewhere the backward runs in a thread that it cannot see
        with sent:
            update()
    seconds = []
    for _ in range(cell["updates"]):
        wait()
        seconds.append(update())
    return {"seconds": seconds, "sent": sent.by_collective}


def _config(cell: dict[str, Any], world: int) -> PretrainConfig:
    """All ranks in one pool, which is one micro-step."""
    pool = cell["micro_batch"] * world
    given = [f"model.size={cell['size']}", f"train.batch={pool * cell['micro_steps']}", f"train.contrast_pool={pool}"]
    given += [f"train.zero_stage={cell['stage']}", "data.path=[none]", "run.dir=none"]
    if not cell["stage"]:
        given.append("train.precision=fp32")
    return load(PretrainConfig, _CONFIG, given)


def _inputs(pairs: int, ranks: Ranks) -> tuple[Tensor, ...]:
    device = ranks.device
    starts = torch.rand(2 * pairs, SEGMENT // 16 - SPAN + 1).argsort(1)[:, :SPANS].to(device)
    identity = torch.arange(pairs, device=device) + ranks.rank * pairs
    return (
        torch.randn(pairs, 2, SEGMENT, len(LEADS), device=device),
        identity,
        starts,
        torch.tensor(2.0, device=device),
    )


class Sent(TorchDispatchMode):
    """What goes through torch.distributed while it is on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_collective: dict[str, list[int]] = {}  # [calls, bytes of what all ranks hold together in the end]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        library, _, name = func.name().partition("::")
        if library in ("c10d", "_c10d_functional") and not name.startswith(("wait", "barrier")):
            largest = max((t.numel() * t.element_size() for t in _tensors((args, result))), default=0)
            calls = self.by_collective.setdefault(name, [0, 0])
            calls[0] += 1
            calls[1] += largest
        return result


def _tensors(of: Any) -> list[Tensor]:
    if isinstance(of, Tensor):
        return [of]
    return [tensor for one in of for tensor in _tensors(one)] if isinstance(of, (list, tuple)) else []


def _collectives(sizes: list[int], ranks: Ranks, wait: Callable[[], None]) -> list[dict[str, Any]]:
    """Seconds of an all-reduce and of an all-gather of so many bytes in all."""
    found = []
    for size in sizes:
        whole = torch.zeros(size // 4 // ranks.world * ranks.world, device=ranks.device)
        part = whole[: len(whole) // ranks.world].clone()
        calls: dict[str, Callable[[], Any]] = {
            "all-reduce": lambda whole=whole: dist.all_reduce(whole),  # type: ignore[misc]
            "all-gather": lambda whole=whole, part=part: dist.all_gather_into_tensor(whole, part),  # type: ignore[misc]
        }
        for name, call in calls.items():
            seconds = [_timed(call, ranks, wait) for _ in range(_WARM_UP + 7)][_WARM_UP:]
            found.append({"collective": name, "bytes": whole.nbytes, "seconds": seconds})
    return found


def _timed(call: Callable[[], Any], ranks: Ranks, wait: Callable[[], None]) -> float:
    wait()
    begin = time.perf_counter()
    call()
    if ranks.device.type == "cuda":
        torch.cuda.synchronize(ranks.device)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
