"""Who takes part in a run, and on what: set up the same way under every launcher, and under none."""

import importlib
import os
import socket
from dataclasses import dataclass
from datetime import timedelta

import deepspeed
import torch
import torch.distributed as dist

from engine.hardware import keep_freed_memory

_PATIENCE = timedelta(minutes=10)  # a rank that is silent for longer is taken for dead


@dataclass(frozen=True)
class Ranks:
    rank: int
    world: int
    local_rank: int
    local_world: int  # ranks of this machine
    device: torch.device
    control: dist.ProcessGroup  # of the host, which never waits for a device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def agree(self, number: int) -> int:
        """The largest that any rank says."""
        said = torch.tensor(number)
        dist.all_reduce(said, dist.ReduceOp.MAX, self.control)
        return int(said)

    def wait(self) -> None:
        dist.barrier(self.control)


class AllRanksError(ValueError):
    """Raised as a run trains, on all its ranks alike: what else is raised there may be of one of them."""


def start() -> Ranks:
    _complete_environment()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local_rank, local_world = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank % torch.cuda.device_count())  # where each task sees its own GPU alone
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
        # Launchers set one thread a rank, or leave every rank all cores.
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local_world))
        keep_freed_memory()
    # It would compile a kernel that only inference uses, behind a lock that waits for ever once its owner was killed.
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None  # type: ignore[attr-defined]
    deepspeed.init_distributed("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE, verbose=False)
    return Ranks(rank, world, local_rank, local_world, device, dist.new_group(backend="gloo", timeout=_PATIENCE))


def is_lost(failure: RuntimeError) -> bool:
    """Whether it says that another rank cannot be reached any more."""
    text = str(failure).lower()
    return any(sign in text for sign in ("connection closed by peer", "connection reset", "gloo", "nccl"))


def _complete_environment() -> None:
    """What torchrun would have set: from Slurm's variables in a task of srun, and for a single process otherwise."""
    given = os.environ
    if "RANK" not in given:
        of_srun = "SLURM_STEP_ID" in given and "SLURM_PROCID" in given
        given["RANK"] = given["SLURM_PROCID"] if of_srun else "0"
        given["WORLD_SIZE"] = given["SLURM_STEP_NUM_TASKS"] if of_srun else "1"
        given["LOCAL_RANK"] = given["SLURM_LOCALID"] if of_srun else "0"
        if of_srun:
            given["LOCAL_WORLD_SIZE"] = given["SLURM_STEP_TASKS_PER_NODE"].partition("(")[0].partition(",")[0]
    given.setdefault("LOCAL_RANK", "0")
    if given.get("WORLD_SIZE") == "1":
        given.setdefault("MASTER_ADDR", "127.0.0.1")
        given.setdefault("MASTER_PORT", str(_free_port()))
    missing = [name for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in given]
    if missing:
        raise ValueError(f"several ranks need {', '.join(missing)} in the environment (docs/launching.md)")
    if "LOCAL_WORLD_SIZE" not in given:  # the deepspeed launcher says LOCAL_SIZE; a container is a machine to itself
        given["LOCAL_WORLD_SIZE"] = given.get("LOCAL_SIZE", "1")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
