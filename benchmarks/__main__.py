"""python -m benchmarks {shard,believable,loader,step,train,paper}"""

import argparse
import sys
from pathlib import Path

from benchmarks import believable, loader, shard, step, train
from benchmarks.paper import command as paper
from benchmarks.processes import ROOT
from engine.methods import SYSTEMS
from engine.model.sizes import SIZES

_EPILOG = """examples:
  python -m benchmarks shard --quick                                  a minute
  python -m benchmarks shard --large 94500 --source ARCHIVE           real recordings, the size of the paper's corpus
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="name", required=True)
    of_shard = commands.add_parser("shard", help="archive to dataset folder, beside a wfdb + webdataset loop")
    of_shard.add_argument("--recordings", type=int, default=8000)
    of_shard.add_argument("--repeats", type=int, default=5)
    of_shard.add_argument(
        "--large", type=int, default=0, help="also one run of so many recordings (240 kB of disk each)"
    )
    of_shard.add_argument(
        "--source", type=Path, help="repeat the 10 s recordings of this archive (default: random walks)"
    )
    of_shard.add_argument("--scratch", type=Path, help="folder to work in (default: the system's temporary one)")
    of_shard.add_argument("--quick", action="store_true", help="500 recordings, 3 repeats")
    of_shard.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    of_believable = commands.add_parser("believable", help="the artificial archive beside real recordings")
    of_believable.add_argument("--patients", type=int, default=600)
    of_believable.add_argument("--source", type=Path, help="an archive of real recordings to compare with")
    of_believable.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    of_loader = commands.add_parser("loader", help="dataset folder to augmented tensors, beside three other ways")
    of_loader.add_argument("--recordings", type=int, default=16_000)
    of_loader.add_argument("--repeats", type=int, default=3)
    of_loader.add_argument("--source", type=Path, help="repeat the 10 s recordings of this archive")
    of_loader.add_argument("--scratch", type=Path, help="folder to work in (default: the system's temporary one)")
    of_loader.add_argument("--quick", action="store_true", help="4,000 recordings, 1 repeat")
    of_loader.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    of_step = commands.add_parser("step", help="whole updates of pre-training, beside transformers' wav2vec 2.0")
    of_step.add_argument("--size", default="base", choices=SIZES)
    of_step.add_argument("--system", default="w2v_cmsc_rlm", choices=[n for n in SYSTEMS if n != "random_init"])
    of_step.add_argument("--pairs", type=int, default=8, help="of one update (a GPU: 512, the paper's)")
    of_step.add_argument("--updates", type=int, default=5)
    of_step.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    of_train = commands.add_parser("train", help="engine/pretrain.py itself: data, model, DeepSpeed, checkpoint")
    of_train.add_argument("--size", default="base", choices=SIZES)
    of_train.add_argument("--system", default="w2v_cmsc_rlm", choices=[n for n in SYSTEMS if n != "random_init"])
    of_train.add_argument("--pairs", type=int, default=8, help="of one update (a GPU: 512, the paper's)")
    of_train.add_argument("--updates", type=int, default=8)
    of_train.add_argument("--ranks", type=int, default=1, help="also with so many")
    of_train.add_argument("--scratch", type=Path, help="folder to work in (default: the system's temporary one)")
    of_train.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    paper.add_arguments(commands.add_parser("paper", help="the paper's four tables, by a queue that can be resumed"))
    chosen = parser.parse_args()
    if chosen.name == "paper":
        sys.exit(paper.run(chosen))
    if chosen.name == "step":
        print(step.run(chosen.size, chosen.system, chosen.pairs, chosen.updates, chosen.out).read_text())
        return
    if chosen.name == "train":
        about = (chosen.size, chosen.system, chosen.pairs, chosen.updates, chosen.ranks)
        print(train.run(*about, chosen.scratch, chosen.out).read_text())
        return
    if chosen.name == "believable":
        print(believable.run(chosen.patients, chosen.source, chosen.out).read_text())
        return
    if chosen.name == "loader":
        recordings, repeats = (4000, 1) if chosen.quick else (chosen.recordings, chosen.repeats)
        print(loader.run(recordings, repeats, chosen.source, chosen.scratch, chosen.out).read_text())
        return
    recordings, repeats = (500, 3) if chosen.quick else (chosen.recordings, chosen.repeats)
    page = shard.run(recordings, repeats, chosen.large, chosen.source, chosen.scratch, chosen.out)
    print(page.read_text())


if __name__ == "__main__":
    main()
