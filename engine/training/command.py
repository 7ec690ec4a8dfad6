"""What `deepspeed engine/pretrain.py` and `deepspeed engine/finetune.py` do with their arguments."""

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

import torch

from engine.config.common import AnyConfig, load
from engine.training import ranks, runs
from engine.training.runs import JobOf


def main(about: str | None, of: type[AnyConfig], job_of: JobOf[AnyConfig]) -> NoReturn:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True, help="one of configs/, or your own")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="a setting over the file's")
    parser.add_argument("--resume", metavar="auto|PATH", help="go on from the newest checkpoint of run.dir, or PATH")
    parser.add_argument(
        "--local_rank", help=argparse.SUPPRESS
    )  # the deepspeed launcher passes it; LOCAL_RANK says it too
    given = parser.parse_args()
    rank = os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0"))
    try:
        code = runs.train(job_of, load(of, given.config, given.set), given.resume, ranks.start())
    except (ValueError, OSError) as failure:  # of one rank alone it has been said already
        code = _failed(str(failure)) if rank == "0" else 1
    except torch.OutOfMemoryError as failure:
        code = _failed(f"rank {rank}: a smaller train.micro_batch needs less memory; {_first_line(failure)}")
    except RuntimeError as failure:
        if not ranks.is_lost(failure):
            raise
        code = _failed(f"rank {rank}: another rank has died; --resume auto goes on ({_first_line(failure)})")
    sys.stdout.flush()
    os._exit(code)  # torch's own exit would wait for ranks that are gone


def _failed(why: str) -> int:
    """-> the exit code."""
    print(f"error: {why}", file=sys.stderr, flush=True)
    return 1


def _first_line(failure: Exception) -> str:
    return str(failure).strip().partition("\n")[0]
