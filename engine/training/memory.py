"""How many samples fit a rank at a time, within what the method allows."""

import torch
from torch import Tensor

from engine.config.common import accumulation
from engine.training.job import Job

_PROBE = 2  # samples
_STATE = 20  # bytes a parameter: weights, gradients, float32 masters and moments
_USABLE = 0.8  # of what is free
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def micro_batch(job: Job, before: int | None) -> int:
    """As the config says; `auto`: as `before`, so that a run goes on with the same dropout, or else the largest that
    fits; ValueError where none does, or none is allowed."""
    config, ranks = job.config, job.ranks
    wanted = config.train.micro_batch
    if wanted != "auto":
        accumulation(config, wanted, ranks.world)
        return wanted
    allowed = config.micro_batches(ranks.world)
    if not allowed:
        raise ValueError(
            f"train.batch = {config.train.batch} on {ranks.world} ranks cannot be {config.whole}:"
            " take another number of ranks, or change the batch"
        )
    if before in allowed:
        return before
    each, parameters = needs(job)
    room = _USABLE * _free(job) - _STATE * parameters
    fitting = -ranks.agree(-int(room // each))  # the least of all ranks
    chosen = [micro for micro in allowed if micro <= fitting]
    if not chosen:
        raise ValueError(
            f"train.micro_batch = auto: {max(fitting, 0)} samples fit the memory of a rank, and the smallest that makes"
            f" {config.whole} is {allowed[0]}: take more ranks or a smaller model.size"
        )
    return chosen[-1]


def needs(job: Job) -> tuple[float, int]:
    """-> bytes that a forward keeps of each sample for its backward; the number of parameters."""
    module, inputs = job.example(_PROBE)
    module.to(job.ranks.device, DTYPES[job.config.train.precision])
    seen: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # an output itself would hold the graph that holds it, for ever

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        losses = module(*inputs)
    assert losses.total.requires_grad
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    saved = sum(size for pointer, size in seen.items() if pointer not in own)
    return saved / _PROBE, sum(parameter.numel() for parameter in module.parameters())


def _free(job: Job) -> float:
    if job.ranks.device.type == "cuda":
        return float(torch.cuda.mem_get_info(job.ranks.device)[0])
    with open("/proc/meminfo") as meminfo:
        lines = dict(line.split(":") for line in meminfo)
    return 1024.0 * int(lines["MemAvailable"].split()[0]) / job.ranks.local_world
