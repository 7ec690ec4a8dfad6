"""From an archive of recordings to a dataset folder of 10 s crops: python -m data_tools.shard RAW --out DATA

DATA.partial holds the unfinished dataset and what is known so far; after an interruption the same command goes on from
there, and only a finished dataset is called DATA.
"""

import argparse
import fcntl
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from data_tools import cohorts, console, files, pool
from data_tools.make import Job, make
from data_tools.views import VIEWS

_EPILOG = """examples:
  # the challenge-2021 archive as PhysioNet serves it; patients of PTB-XL from its own table
  python -m data_tools.shard challenge-2021 --out data/cinc --ptbxl-metadata ptb-xl/ptbxl_database.csv
  # a folder of your own WFDB recordings, at whatever rate they have
  python -m data_tools.shard hospital --out data/hospital --resample
  # two cohorts, for diagnosis alone, as zarr
  python -m data_tools.shard challenge-2021 --out data/dx --views diagnosis --cohorts cpsc_2018,georgia --format zarr
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_tools.shard",
        description="Makes a dataset folder (tar or zarr shards of 10 s crops, and views of them) from an archive of "
        "WFDB recordings: PhysioNet's challenge-2021, PTB-XL, or a folder of your own.",
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
    parser.add_argument("--workers", type=_positive, default=os.cpu_count(), help="processes (default: a core each)")
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
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def _shard(arguments: argparse.Namespace) -> int:
    job = Job(
        raw=arguments.raw,
        format=arguments.format,
        views=arguments.views,
        cohorts=arguments.cohorts or (cohorts.DIAGNOSIS if arguments.views == ("diagnosis",) else ()),
        seed=arguments.seed,
        resample=arguments.resample,
        shard_mb=arguments.shard_mb,
        ptbxl_metadata=arguments.ptbxl_metadata,
    )
    out = Path(os.path.abspath(arguments.out))
    _check_folders(job.raw, out)
    if job.format == "zarr":
        _check_zarr()
    partial = out.with_name(f"{out.name}.partial")
    with _locked(partial, out):
        if out.exists() and any(out.iterdir()):
            raise ValueError(f"{out}: exists already; a dataset is never changed, so remove it or choose another --out")
        with pool.opened(arguments.workers, arguments.cluster) as run:
            make(job, partial, run)
        (partial / "data").rename(out)
        files.flush_to_disk(out.parent)
    console.say(f"{out}: done")
    return 0


def _check_zarr() -> None:
    """Before hours of work, not after them."""
    if importlib.util.find_spec("zarr") is None:
        raise ValueError("--format zarr needs zarr: pip install 'leadwise[train]'")


def _check_folders(raw: Path, out: Path) -> None:
    if not raw.is_dir():
        raise ValueError(f"{raw}: no such folder of recordings")
    if out.resolve().is_relative_to(raw.resolve()):
        raise ValueError(f"--out {out}: lies inside RAW, where nothing may be changed")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: is a file")


@contextmanager
def _locked(partial: Path, out: Path) -> Iterator[None]:
    """Two runs at once would undo each other's work. A folder with nothing to go on with does not stay behind."""
    partial.mkdir(parents=True, exist_ok=True)
    with (partial / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{partial}: another run is at work there") from None
        try:
            yield
        finally:
            if not (partial / "job.json").exists() or (out / "dataset.json").exists():
                shutil.rmtree(partial)


if __name__ == "__main__":
    sys.exit(main())
