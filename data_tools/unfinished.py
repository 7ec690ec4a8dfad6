"""DATA.partial, where a dataset is made, and how it becomes DATA."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data_tools import console, files
from data_tools.make import Job, make
from data_tools.pool import Run


def dataset(job: Job, out: Path, run: Run) -> None:
    """Makes `out`, going on where an interrupted run has left off."""
    partial = out.with_name(f"{out.name}.partial")
    _check_folders(job.raw, out, partial)
    with _locked(partial, out):
        if _is_finished(job, partial, out):
            return
        if out.exists() and any(out.iterdir()):
            raise ValueError(f"{out}: exists already; a dataset is never changed: remove it, or choose another --out")
        make(job, partial, run)
        (partial / "data").rename(out)
        files.flush_to_disk(out.parent)


def _is_finished(job: Job, partial: Path, out: Path) -> bool:
    """Whether an earlier run of `job` was interrupted when all that was left to do was to clean up."""
    if (partial / "data").exists() or not (partial / "job.json").exists() or not (out / "dataset.json").exists():
        return False
    made, wanted = files.read_json(out / "dataset.json")["arguments"], job.arguments()
    return all(made[name] == wanted[name] for name in ("format", "cohorts", "seed", "resample", "shard_mb"))


def _check_folders(raw: Path, out: Path, partial: Path) -> None:
    if not raw.is_dir():
        raise ValueError(f"{raw}: no such folder of recordings")
    if raw.resolve().is_relative_to(partial):
        raise ValueError(f"{partial}: is where the unfinished dataset would be, and holds RAW; choose another --out")
    for folder in (out, partial):
        if folder.is_relative_to(raw.resolve()):
            raise ValueError(f"--out {out}: lies inside RAW, where nothing may be changed")
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder}: is a file")
    known = ("lock", "job.json", "checked", "decided.parquet", "packed", "data", "zarr")
    if partial.exists() and (foreign := [n for n in os.listdir(partial) if not n.startswith(known)]):
        raise ValueError(f"{partial}: holds what is no part of an unfinished dataset: {console.shown(foreign[0])}")


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
