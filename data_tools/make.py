"""An archive into a dataset, in three passes: check every recording, decide what becomes of it, pack what is kept.

Each pass goes on where an earlier run of the same job was interrupted.
"""

import shutil
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data_tools import __version__, archive, check, cohorts, decide, files, pack, pool, privacy, publish, views
from data_tools.archive import Archive
from data_tools.cohorts import OWN, PtbxlRow
from data_tools.console import progress, say
from data_tools.decide import Decision
from data_tools.pack import Packed
from data_tools.splits import SPLITS
from data_tools.views import VIEWS, Stretches
from data_tools.writers import CROP_BYTES

_HEADERS_PER_TASK = 500


@dataclass(frozen=True)
class Job:
    """What makes the content of a dataset."""

    raw: Path
    format: str
    views: tuple[str, ...]  # empty: all that the archive can serve
    cohorts: tuple[str, ...]  # empty: all there are
    seed: int
    resample: bool
    shard_mb: int
    ptbxl_metadata: Path | None

    @property
    def crops_per_shard(self) -> int:
        return max(1, self.shard_mb * 1_000_000 // CROP_BYTES)

    def arguments(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "views": list(self.views),
            "cohorts": list(self.cohorts),
            "seed": self.seed,
            "resample": self.resample,
            "shard_mb": self.shard_mb,
            "ptbxl_metadata": files.digest(self.ptbxl_metadata) if self.ptbxl_metadata else None,
        }


@dataclass(frozen=True)
class Workers:
    count: int
    cluster: str | None

    def run(self, function: Any, tasks: list[Any], what: str) -> list[Any]:
        """The results in the order of `tasks`, which are tuples of a function of this package."""
        results = pool.unordered(partial(_numbered, function), list(enumerate(tasks)), self.count, self.cluster)
        return [result for _, result in sorted(progress(results, len(tasks), what), key=lambda pair: pair[0])]


def _numbered(function: Any, task: tuple[int, Any]) -> tuple[int, Any]:
    return task[0], function(task[1])


def make(job: Job, scratch: Path, workers: Workers) -> None:
    """Leaves the finished dataset in `scratch`/data."""
    data = scratch / "data"
    data.mkdir(exist_ok=True)
    files.remove_temporary(scratch)
    found = _find(job, scratch)
    job = _with_ptbxl_table(job, found)
    secret = privacy.secret_of(found.root) if _any_private(found) else None
    say(f"{found.root}: {len(found.headers):,} recordings")
    rows, segments, counts = _check(job, found, secret, scratch, workers)
    patients = cohorts.read_ptbxl_table(job.ptbxl_metadata) if job.ptbxl_metadata else {}
    job, decision, chosen = _decide(job, rows, segments, patients)
    crops_in = len(rows)
    del rows
    packed = _pack(job, found.root, decision.crops, scratch, workers)
    _publish(job, data, decision, chosen, packed, counts, crops_in)
    _report(decision, data)


def _find(job: Job, scratch: Path) -> Archive:
    """The archive as it was when the job began; recordings that came later are another job's."""
    note = scratch / "job.json"
    begun = {"version": __version__, "raw": str(job.raw.absolute()), "arguments": job.arguments()}
    if note.exists():
        saved = files.read_json(note)
        if saved["begun"] != begun:
            raise ValueError(f"{scratch}: begun with other arguments; give those again, or remove it to start anew")
        return Archive(job.raw.absolute(), *saved["archive"])
    found = archive.find(job.raw.absolute(), job.cohorts)
    if not found.headers:
        of = f" of {', '.join(job.cohorts)}" if job.cohorts else ""
        raise ValueError(f"{job.raw}: no recordings{of} there: no WFDB header (.hea)")
    files.write_json({"begun": begun, "archive": found[1:]}, note)
    return found


def _any_private(found: Archive) -> bool:
    return any(archive.cohort_of(found.root, path) is OWN for path in (*found.headers, *found.strays))


def _with_ptbxl_table(job: Job, found: Archive) -> Job:
    if job.ptbxl_metadata is not None or not found.ptbxl_tables:
        return job
    if len(found.ptbxl_tables) > 1:
        raise ValueError(
            f"{job.raw}: several tables of PTB-XL; choose one of {', '.join(found.ptbxl_tables)} with --ptbxl-metadata"
        )
    return replace(job, ptbxl_metadata=found.root / found.ptbxl_tables[0])


def _check(
    job: Job, found: Archive, secret: bytes | None, scratch: Path, workers: Workers
) -> tuple[pa.Table, set[str], Counter[str]]:
    """-> check.ROWS of the whole archive, headers that are segments of others, counts."""
    tasks = [
        check.Task(
            root=found.root,
            secret=secret,
            resample=job.resample,
            headers=found.headers[first : first + _HEADERS_PER_TASK],
            out=scratch / "checked" / f"{first // _HEADERS_PER_TASK:06d}.parquet",
        )
        for first in range(0, len(found.headers), _HEADERS_PER_TASK)
    ]
    workers.run(check.run, tasks, "checking")
    checked = [check.read(task.out) for task in tasks]
    counts: Counter[str] = Counter()
    named: set[str] = set()
    for part in checked:
        counts.update(part.counts)
        named.update(name for names in part.named.values() for name in names)
    strays = [path for path in found.strays if path not in named]
    tables = [part.rows for part in checked] + [check.strays(found.root, secret, strays)]
    _check_labels(counts)
    return pa.concat_tables(tables), {name for name in named if name.endswith(".hea")}, counts


def _check_labels(counts: Counter[str]) -> None:
    for name in cohorts.NAMES:
        if counts[f"labelled/{name}"] and not counts[f"with a class/{name}"]:
            raise ValueError(
                f"{name}: none of its {counts[f'labelled/{name}']} recordings has a scored class in its header's Dx; "
                f"get headers with labels, or choose other --cohorts"
            )


def _decide(
    job: Job, rows: pa.Table, segments: set[str], patients: dict[str, PtbxlRow]
) -> tuple[Job, Decision, dict[str, Stretches]]:
    """Of views that were not asked for by name, those that would be empty are left out."""
    wanted = job.views or _possible_views(rows, patients)
    if "identification" in wanted and not patients:
        raise ValueError(
            "the identification view needs to know the patients of PTB-XL: "
            f"give --ptbxl-metadata {cohorts.PTBXL_TABLE}, or choose other --views"
        )
    while True:
        decision = decide.decide(rows, segments, patients, job.seed, "diagnosis" in wanted, "identification" in wanted)
        if not len(decision.crops):
            reasons = Counter(decision.rejected["reason"].to_pylist()).most_common(3)
            found = "; ".join(f"{count} x {reason}" for reason, count in reasons)
            raise ValueError(f"{job.raw}: nothing to keep, every recording is refused: {found}")
        chosen = views.choose(decision.crops, decision.pairs, job.seed, wanted)
        empty = [name for name, stretches in chosen.items() if not len(stretches.crop)]
        if not empty:
            return replace(job, views=wanted), decision, chosen
        if job.views or wanted == ("pretrain",):
            raise ValueError(f"{job.raw}: too few recordings: nothing for the view {', '.join(empty)}")
        lost = tuple(task for task in wanted if set(VIEWS[task]) & set(empty))
        say(f"left out: the views of {', '.join(lost)}, for which there is nothing in {', '.join(empty)}")
        wanted = tuple(task for task in wanted if task not in lost) or ("pretrain",)


def _possible_views(rows: pa.Table, patients: dict[str, PtbxlRow]) -> tuple[str, ...]:
    present = set(rows["cohort"].unique().to_pylist())
    wanted = ["pretrain"]
    if present & set(cohorts.DIAGNOSIS):
        wanted.append("diagnosis")
    if "ptb-xl" in present and patients:
        wanted.append("identification")
    elif "ptb-xl" in present:
        say(f"left out: the views of identification; they need --ptbxl-metadata {cohorts.PTBXL_TABLE}")
    return tuple(wanted)


def _pack(job: Job, root: Path, crops: pa.Table, scratch: Path, workers: Workers) -> list[Packed]:
    decided = scratch / "decided.parquet"
    tasks: list[pack.Task] = []
    with files.replacing(decided) as temporary, pq.ParquetWriter(temporary, crops.schema) as writer:
        for split in SPLITS:
            of_split = crops.filter(pa.compute.equal(crops["split"], split))
            for number, first in enumerate(range(0, len(of_split), job.crops_per_shard)):
                writer.write_table(of_split.slice(first, job.crops_per_shard), row_group_size=job.crops_per_shard)
                name = f"{split}/shard-{number:06d}" if job.format == "tar" else f"{split}.zarr/c/{number}/0/0"
                tasks.append(
                    pack.Task(
                        root=root,
                        resample=job.resample,
                        crops=decided,
                        row_group=len(tasks),
                        data=scratch / "data",
                        name=name,
                        format=job.format,
                        crops_per_shard=job.crops_per_shard,
                        done=scratch / "packed" / f"{split}-{number:06d}.json",
                    )
                )
    packed: list[Packed] = workers.run(pack.run, tasks, "packing")
    return packed


def _publish(
    job: Job,
    data: Path,
    decision: Decision,
    chosen: dict[str, Stretches],
    packed: list[Packed],
    counts: Counter[str],
    crops_in: int,
) -> None:
    shutil.rmtree(data / "views", ignore_errors=True)
    (data / "dataset.json").unlink(missing_ok=True)
    publish.tables(data, decision.crops, decision.rejected, packed, chosen, publish.data_suffix(job.format))
    if job.format == "zarr":
        publish.zarr_metadata(data, decision.crops, job.crops_per_shard)
    description = publish.describe(data, job.arguments(), decision.crops, decision.rejected, packed, counts, crops_in)
    files.write_json(description, data / "dataset.json")
    for path in (*data.glob("*.*"), *data.glob("views/*/*"), data):
        files.flush_to_disk(path)


def _report(decision: Decision, data: Path) -> None:
    description = files.read_json(data / "dataset.json")
    crops = description["crops"]
    say(f"{crops['kept']:,} crops of {description['recordings']:,} recordings kept, {crops['rejected']:,} rejected")
    for reason, count in description["rejected"].items():
        example = decision.rejected.filter(pa.compute.equal(decision.rejected["reason"], reason))["record"][0]
        say(f"  rejected {count:,} x {reason} (such as {example})")
    for split, count in description["splits"].items():
        say(f"  {split}: {count:,} crops")
    for view, count in description["views"].items():
        say(f"  view {view}: {count:,} rows")
