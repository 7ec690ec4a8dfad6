"""How many pairs fit a rank at a time, within what the method allows."""

import torch
from torch import Tensor

from engine.config import Config, accumulation, micro_batches
from engine.data.chance import LEADS, SEGMENT, SPANS
from engine.learner import Learner
from engine.training.ranks import Ranks

_PROBE = 2  # pairs
_STATE = 20  # bytes a parameter: weights, gradients, float32 masters and moments
_USABLE = 0.8  # of what is free
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def micro_batch(config: Config, ranks: Ranks) -> int:
    """As the config says; `auto`: the largest that fits; ValueError where none does, or none is allowed."""
    wanted = config.train.micro_batch
    if wanted != "auto":
        accumulation(config, wanted, ranks.world)
        return wanted
    allowed = micro_batches(config, ranks.world)
    if not allowed:
        raise ValueError(
            f"{ranks.world} ranks cannot fill whole pools of {config.contrast_pool} pairs in updates of"
            f" {config.train.batch}: take another number of ranks, or change train.batch or train.contrast_pool"
        )
    learner = Learner(config.system, config.sizes, config.model.recipe, config.model.dropout)
    parameters = sum(parameter.numel() for parameter in learner.parameters())
    room = _USABLE * _free(ranks) - _STATE * parameters
    each = saved_bytes(config, learner.to(ranks.device), ranks.device) / _PROBE
    fitting = -ranks.agree(-int(room // each))  # the least of all ranks
    chosen = [micro for micro in allowed if micro <= fitting]
    if not chosen:
        raise ValueError(
            f"train.micro_batch = auto: {max(fitting, 0)} pairs fit the memory of a rank, and the smallest that makes"
            f" whole pools of {config.contrast_pool} is {allowed[0]}: take more ranks or a smaller model.size, or"
            f" change the method with train.contrast_pool"
        )
    return chosen[-1]


def saved_bytes(config: Config, learner: Learner, device: torch.device) -> int:
    """What a forward of a few pairs keeps for its backward."""
    probe = learner.to(DTYPES[config.train.precision])
    seen: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    segments = 2 * _PROBE
    starts = torch.arange(SPANS, device=device).repeat(segments, 1) * 10
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        losses = probe(
            torch.zeros(_PROBE, 2, SEGMENT, len(LEADS), device=device),
            torch.arange(_PROBE, device=device),
            starts if config.system.time_mask else None,
            torch.tensor(2.0, device=device),
        )
    own = {parameter.untyped_storage().data_ptr() for parameter in probe.parameters()}
    assert losses.total.requires_grad
    return sum(size for pointer, size in seen.items() if pointer not in own)


def _free(ranks: Ranks) -> float:
    if ranks.device.type == "cuda":
        return float(torch.cuda.mem_get_info(ranks.device)[0])
    with open("/proc/meminfo") as meminfo:
        lines = dict(line.split(":") for line in meminfo)
    return 1024.0 * int(lines["MemAvailable"].split()[0]) / ranks.local_world
