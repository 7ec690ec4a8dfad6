"""From an archive of recordings to a dataset folder of 10 s crops: python -m data_tools.shard RAW --out DATA

DATA.partial holds the unfinished dataset and what is known so far; after an interruption the same command goes on from
there, and only a finished dataset is called DATA.
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_tools import cohorts, console, files, hints, pool
from data_tools.names import VIEWS

_MOST = 1_000_000  # workers, or MB a shard
_EPILOG = """examples:
  # the challenge-2021 archive as PhysioNet serves it; patients of PTB-XL from its own table
  python -m data_tools.shard challenge-2021 --out data/cinc --ptbxl-metadata ptb-xl/ptbxl_database.csv
  # a folder of your own recordings, at whatever rate they have
  python -m data_tools.shard hospital --out data/hospital --resample
  # arrays that say nothing of themselves, with classes and patients from a table
  python -m data_tools.shard arrays --out data/arrays --rate 400 --resample --unit mV --leads I,II,V2 --labels who.csv
  # two cohorts, for diagnosis alone, as zarr
  python -m data_tools.shard challenge-2021 --out data/dx --views diagnosis --cohorts cpsc_2018,georgia --format zarr
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_tools.shard",
        description="Makes a dataset folder (tar or zarr shards of 10 s crops, and views of them) from an archive of "
        "recordings: PhysioNet's challenge-2021, PTB-XL, or a folder of your own in WFDB, EDF, DICOM, HDF5, CSV, NPY "
        "or MATLAB files.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("raw", metavar="RAW", type=Path, help="the folder of recordings; nothing in it is changed")
    parser.add_argument("--out", required=True, type=Path, metavar="DATA", help="the dataset folder to make")
    parser.add_argument("--format", choices=("tar", "zarr"), default="tar")
    parser.add_argument(
        "--views",
        type=_names(tuple(VIEWS)),
        default=(),
        metavar=",".join(VIEWS),
        help="the tasks to make views for (default: those that RAW can serve)",
    )
    parser.add_argument(
        "--cohorts",
        type=_names(cohorts.NAMES),
        default=(),
        metavar="NAME,...",
        help=f"only these of {', '.join(cohorts.NAMES)} (default: all)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of splits and order (default 0)")
    parser.add_argument("--resample", action="store_true", help="bring other rates to 500 Hz instead of refusing them")
    parser.add_argument("--shard-mb", type=_positive, default=256, help="size of a shard (default 256)")
    parser.add_argument(
        "--ptbxl-metadata", type=Path, metavar="CSV", help="ptbxl_database.csv, if it does not lie in RAW: who is who"
    )
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="CSV",
        help="of your own recordings: columns recording, and classes or patient or both",
    )
    hints.add_flags(parser)
    parser.add_argument("--workers", type=_positive, help="processes (default: one a core)")
    parser.add_argument("--cluster", metavar="tcp://...", help="a Dask scheduler, whose workers see the same folders")
    return console.run(_shard, parser.parse_args())


def _names(known: Sequence[str]) -> Any:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return parse


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_MOST:,}")
    return int(text)


def _shard(arguments: argparse.Namespace) -> int:
    if arguments.cluster and arguments.workers:
        raise ValueError("--workers has no effect beside --cluster, whose workers are counted there")
    if arguments.format == "zarr" and importlib.util.find_spec("zarr") is None:
        raise ValueError("--format zarr needs zarr: pip install 'leadwise[train]'")
    files.check_given("--labels", arguments.labels)
    files.check_given("--ptbxl-metadata", arguments.ptbxl_metadata)
    workers = arguments.workers or os.cpu_count() or 1
    with pool.opened(workers, arguments.cluster, ("data_tools.check", "data_tools.pack")) as run:
        from data_tools.job import Job  # after the workers have begun, who import the same
        from data_tools.unfinished import dataset

        job = Job(
            raw=Path(os.path.abspath(arguments.raw)),
            format=arguments.format,
            views=arguments.views,
            cohorts=arguments.cohorts,
            seed=arguments.seed,
            resample=arguments.resample,
            shard_mb=arguments.shard_mb,
            ptbxl_metadata=arguments.ptbxl_metadata,
            told=hints.of_flags(arguments),
            labels=arguments.labels,
        )
        out = Path(os.path.realpath(arguments.out))
        dataset(job, out, run)
    console.say(f"{out}: done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
