"""DATA.partial, where a dataset is made, and how it becomes DATA."""

import os
import re
import shutil
from pathlib import Path

from data_tools import console, files
from data_tools.job import Job, begun
from data_tools.make import make
from data_tools.pool import Run

_OURS = re.compile(r"lock|job\.json|checked|decided\.parquet|packed|data|zarr|(job\.json|decided\.parquet)\.\w+\.tmp")


def dataset(job: Job, out: Path, run: Run) -> None:
    """Makes `out`, going on where an interrupted run has left off."""
    partial = out.with_name(f"{out.name}.partial")
    _check_folders(job.raw, out, partial)
    with files.locked(partial):
        if not _is_finished(job, partial, out):
            if out.exists() and any(out.iterdir()):
                raise ValueError(
                    f"{out}: exists already; a dataset is never changed: remove it, or choose another --out"
                )
            make(job, partial, run)
            (partial / "data").rename(out)
            files.flush_to_disk(out.parent)
        shutil.rmtree(partial)


def _is_finished(job: Job, partial: Path, out: Path) -> bool:
    """Whether an earlier run of `job` was interrupted when all that was left to do was to clean up."""
    if (partial / "data").exists() or not (partial / "job.json").exists() or not (out / "dataset.json").exists():
        return False
    try:
        made, same = files.read_json(out / "dataset.json")["arguments"], files.read_json(partial / "job.json")["begun"]
        wanted = job.arguments()
        views = not job.views or list(job.views) == made["views"]
        table = not job.ptbxl_metadata or wanted["ptbxl_metadata"] == made["ptbxl_metadata"]
        names = ("format", "cohorts", "seed", "resample", "shard_mb", "told", "labels")
        rest = all(made[name] == wanted[name] for name in names)
    except (ValueError, KeyError, TypeError):
        return False
    return same == begun(job) and views and table and rest


def _check_folders(raw: Path, out: Path, partial: Path) -> None:
    if raw.is_file():
        raise ValueError(f"{raw}: is a file; a folder of recordings would be right")
    if not raw.is_dir():
        raise ValueError(f"{raw}: no such folder of recordings")
    if raw.resolve().is_relative_to(partial):
        raise ValueError(f"{partial}: is where the unfinished dataset would be, and holds RAW; choose another --out")
    for folder in (out, partial):
        if folder.is_relative_to(raw.resolve()):
            raise ValueError(f"--out {out}: lies inside RAW, where nothing may be changed")
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder}: is a file")
    names = os.listdir(partial) if partial.exists() else []
    foreign = [name for name in names if not _OURS.fullmatch(name)]
    if not foreign and "job.json" not in names:
        foreign = [name for name in names if name != "lock" and not name.endswith(".tmp")]
    if foreign:
        raise ValueError(f"{partial}: holds what is no part of an unfinished dataset: {console.shown(foreign[0])}")
