"""Two ranks add up a tensor, again and again: started by benchmarks.limits under torchrun; prints bytes a second."""

import os
import time

import torch
import torch.distributed as dist

_BYTES = 64 << 20
_REPEATS = 8


def main() -> None:
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_RANK"])
    apart = torch.cuda.device_count() >= world  # each has a device of its own
    device = torch.device("cuda", rank) if apart else torch.device("cpu")
    if apart:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if apart else "gloo")
    tensor = torch.ones(_BYTES // 4, device=device)
    seconds = []
    for _ in range(1 + _REPEATS):
        tensor.fill_(1.0)
        dist.barrier()
        if apart:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        dist.all_reduce(tensor)
        if apart:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        assert float(tensor[0]) == world
    if rank == 0:
        print(_BYTES / min(seconds[1:]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
