"""deepspeed engine/pretrain.py --config configs/pretrain/w2v_cmsc_rlm.yaml --set data.path=DATA --set run.dir=RUN

The same file runs under torchrun, srun and plain python.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # a clone works from any folder; and engine/ hides no package

import argparse
import os
from typing import NoReturn

from engine import config as configs
from engine.training import ranks, runs


def main() -> NoReturn:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True, help="one of configs/pretrain/, or your own")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="a setting over the file's")
    parser.add_argument("--resume", metavar="auto|PATH", help="go on from the newest checkpoint of run.dir, or PATH")
    parser.add_argument(
        "--local_rank", help=argparse.SUPPRESS
    )  # the deepspeed launcher passes it; LOCAL_RANK says it too
    given = parser.parse_args()
    rank = os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0"))
    try:
        config = configs.load(given.config, given.set)
        code = runs.pretrain(config, given.resume, ranks.start())
    except (ValueError, OSError) as failure:  # the same on all ranks
        if rank == "0":
            print(f"error: {failure}", file=sys.stderr, flush=True)
        code = 1
    except RuntimeError as failure:
        if not ranks.is_lost(failure):
            raise
        print(f"error: rank {rank}: another rank has died; --resume auto goes on", file=sys.stderr, flush=True)
        code = 1
    sys.stdout.flush()
    os._exit(code)  # torch's own exit would wait for ranks that are gone


if __name__ == "__main__":
    main()
