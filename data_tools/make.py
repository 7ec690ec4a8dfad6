"""An archive into a dataset, in three passes: check every recording, decide what becomes of it, pack what is kept.

Each pass goes on where an earlier run of the same job was interrupted.
"""

import os
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data_tools import archive, check, cohorts, decide, files, gather, pack, privacy, publish, views
from data_tools.archive import Archive
from data_tools.check import Checked
from data_tools.cohorts import OWN, PtbxlRow
from data_tools.console import progress, say, shown
from data_tools.decide import Decision
from data_tools.job import Job
from data_tools.labels import NO_CODE
from data_tools.names import SPLITS, VIEWS
from data_tools.own_labels import Labels
from data_tools.pack import Packed
from data_tools.pool import Run
from data_tools.views import Stretches

_RECORDINGS_PER_TASK = 500


def make(job: Job, scratch: Path, run: Run) -> None:
    """Leaves the finished dataset in `scratch`/data."""
    files.remove_temporary(scratch)
    found = gather.find(job, scratch)
    say(f"{found.root}: {len(found.recordings):,} recordings")
    if found.tables:
        say(f"  {len(found.tables):,} CSV files that hold no samples are left alone, such as {shown(found.tables[0])}")
    try:
        job = gather.with_ptbxl_table(job, found)
        labels = gather.labels_of(job, found)
        patients = cohorts.read_ptbxl_table(job.ptbxl_metadata) if job.ptbxl_metadata else {}
        checked = _check(job, found, scratch, run)
        del found  # of an archive of millions, every list counts
        job, decision, chosen = _decide(job, checked, patients, labels)
    except ValueError:  # once the archive is mended, it is to be read again
        shutil.rmtree(scratch / "checked", ignore_errors=True)
        (scratch / "job.json").unlink()
        raise
    crops_in, counts = len(checked.rows), checked.counts
    if labels.has_classes:
        counts[f"labelled/{OWN.name}"] = len(labels.of)
        counts[f"with a class/{OWN.name}"] = sum(bool(labelled.classes) for labelled in labels.of.values())
        counts[f"codes without a class/{NO_CODE}"] += sum(labels.unknown.values())
    del checked
    packed = _pack(job, decision.crops, scratch, run)
    _publish(job, scratch, decision, chosen, packed, counts, crops_in)
    _report(decision, scratch / "data")


def _check(job: Job, found: Archive, scratch: Path, run: Run) -> Checked:
    """Everything that is known of the whole archive."""
    others = (*found.strays, *found.links)
    private = any(archive.cohort_of(found.root, path) is OWN for path in (*found.recordings, *others))
    secret = privacy.secret_of(job.raw) if private else None
    tasks = [
        check.Task(
            root=found.root,
            secret=secret,
            resample=job.resample,
            told=job.told,
            recordings=found.recordings[first : first + _RECORDINGS_PER_TASK],
            out=scratch / "checked" / f"{first // _RECORDINGS_PER_TASK:06d}.parquet",
        )
        for first in range(0, len(found.recordings), _RECORDINGS_PER_TASK)
    ]
    for _ in progress(run(check.run, tasks), len(tasks), "checking"):
        pass
    checked = check.read([task.out for task in tasks])
    named = pa.array([os.fsencode(name) for name in sorted(checked.named) if not name.endswith(".hea")], pa.binary())
    of_another = pc.is_in(checked.rows["header"], named)  # a header's signal file, under another name than its own
    checked = checked._replace(rows=checked.rows.filter(pc.invert(of_another)))
    strays = [path for path in found.strays if path not in checked.named]
    unread = [check.unread(found.root, secret, path, "no header goes with this file") for path in strays]
    link = "a link to a folder outside, which is not followed"
    unread += [check.unread(found.root, secret, path, link) for path in found.links]
    checked = checked._replace(rows=pa.concat_tables([checked.rows, check.to_table(unread)]))
    _check_usable(job, checked)
    return checked


def _check_usable(job: Job, checked: Checked) -> None:
    if not checked.rows["reason"].null_count:
        resample = " (--resample brings them to 500 Hz)"
        reasons = Counter(checked.rows["reason"].to_pylist()).most_common(3)
        found = "; ".join(
            f"{count} x {reason}{resample if reason == 'not sampled at 500 Hz' and not job.resample else ''}"
            for reason, count in reasons
        )
        raise ValueError(f"{job.raw}: nothing to keep, every recording is refused: {found}")
    for name in job.told.given():
        if not checked.counts[f"not in its file/{name}"]:
            raise ValueError(f"--{name} has no effect: every recording that can be read says it itself")
    for name in cohorts.NAMES:
        labelled = checked.counts[f"labelled/{name}"]
        if labelled and not checked.counts[f"with a class/{name}"]:
            raise ValueError(
                f"{name}: none of its {labelled} recordings has a scored class in its header's Dx; "
                f"get headers with labels, or choose other --cohorts"
            )


def _decide(
    job: Job, checked: Checked, patients: dict[str, PtbxlRow], labels: Labels
) -> tuple[Job, Decision, dict[str, Stretches]]:
    """Of views that were not asked for by name, those that would be empty are left out."""
    decision = decide.decide(checked.rows, checked.named, patients, labels, job.seed)
    wanted = job.views or _possible_views(checked.rows, patients, labels)
    chosen = views.choose(decision.crops, decision.pairs, job.seed, wanted)
    empty = {name for name, stretches in chosen.items() if not len(stretches.crop)}
    lost = tuple(task for task in wanted if empty.intersection(VIEWS[task]) - {"pretrain-valid"})
    if lost and (job.views or "pretrain" in lost):
        raise ValueError(f"{job.raw}: too few recordings: nothing for the view {', '.join(sorted(empty))}")
    for task in lost:
        say(f"left out: the views of {task}: nothing for {', '.join(sorted(empty.intersection(VIEWS[task])))}")
        chosen = {name: stretches for name, stretches in chosen.items() if name not in VIEWS[task]}
    if "pretrain-valid" in empty:
        say("left out: the view pretrain-valid: no recording is short enough to be spared")
        chosen.pop("pretrain-valid")
    return replace(job, views=tuple(task for task in wanted if task not in lost)), decision, chosen


def _possible_views(rows: pa.Table, patients: dict[str, PtbxlRow], labels: Labels) -> tuple[str, ...]:
    present = set(rows["cohort"].unique().to_pylist())
    wanted = ["pretrain"]
    if present & set(cohorts.DIAGNOSIS) or labels.has_classes:
        wanted.append("diagnosis")
    if patients:
        wanted.append("identification")
    elif cohorts.PTBXL in present:
        say(f"left out: the views of identification; they need --ptbxl-metadata {cohorts.PTBXL_TABLE}")
    elif labels.has_patients:
        wanted.append("identification")
    return tuple(wanted)


def _pack(job: Job, crops: pa.Table, scratch: Path, run: Run) -> list[Packed]:
    decided = scratch / "decided.parquet"
    with files.replacing(decided) as temporary:
        shards = _write_by_shard(job, crops, temporary)
        if decided.exists() and files.digest(decided) != files.digest(temporary):
            # An earlier run had other arguments for this pass: its shards are of no use.
            shutil.rmtree(scratch / "packed", ignore_errors=True)
            shutil.rmtree(scratch / "data", ignore_errors=True)
    tasks = [
        pack.Task(
            root=str(job.raw),
            resample=job.resample,
            told=job.told,
            crops=decided,
            row_group=place,
            data=scratch / "data",
            name=f"{split}/shard-{number:06d}" if job.format == "tar" else f"{split}.zarr/c/{number}/0/0",
            format=job.format,
            crops_per_shard=job.crops_per_shard,
            done=scratch / "packed" / f"{split}-{number:06d}.json",
        )
        for place, (split, number) in enumerate(shards)
    ]
    packed: dict[int, Packed] = {}
    with ThreadPoolExecutor(1) as flusher:  # the disk keeps up meanwhile, and a power cut finds no empty shards
        for place, shard in progress(run(pack.run, tasks), len(tasks), "packing"):
            packed[place] = shard
            for suffix in shard.bytes:
                flusher.submit(files.flush_to_disk, scratch / "data" / f"{shard.name}{suffix}")
    return [packed[place] for place in range(len(tasks))]


def _write_by_shard(job: Job, crops: pa.Table, path: Path) -> list[tuple[str, int]]:
    """The crops, a row group a shard; -> split and number of each."""
    shards = []
    size = job.crops_per_shard
    schema = crops.schema.with_metadata({"format": job.format, "crops_per_shard": str(size)})
    with pq.ParquetWriter(path, schema) as writer:
        end = 0  # of a split, in `crops`, which are in the order of SPLITS
        for split in SPLITS:
            begin, end = end, end + (pc.sum(pc.equal(crops["split"], split)).as_py() or 0)
            for number, first in enumerate(range(begin, end, size)):
                writer.write_table(crops.slice(first, min(size, end - first)), row_group_size=size)
                shards.append((split, number))
    return shards


def _publish(
    job: Job,
    scratch: Path,
    decision: Decision,
    chosen: dict[str, Stretches],
    packed: list[Packed],
    counts: Counter[str],
    crops_in: int,
) -> None:
    data = scratch / "data"
    shutil.rmtree(data / "views", ignore_errors=True)
    (data / "dataset.json").unlink(missing_ok=True)
    publish.tables(data, decision.crops, decision.rejected, packed, chosen, publish.data_suffix(job.format))
    if job.format == "zarr":
        publish.zarr_metadata(data, decision.crops, job.crops_per_shard, scratch / "zarr")
    description = publish.describe(data, job.arguments(), decision.crops, decision.rejected, packed, counts, crops_in)
    files.write_json(description, data / "dataset.json")
    for path in (*data.glob("*.*"), *data.glob("*.zarr/*.json"), *data.glob("views/*/*"), data):
        files.flush_to_disk(path)


def _report(decision: Decision, data: Path) -> None:
    description = files.read_json(data / "dataset.json")
    crops = description["crops"]
    say(f"{crops['kept']:,} crops of {description['recordings']:,} recordings kept, {crops['rejected']:,} rejected")
    for reason, count in description["rejected"].items():
        headers = decision.rejected.filter(pc.equal(decision.rejected["reason"], reason))["header"]
        examples = ", ".join(shown(os.fsdecode(header)) for header in headers[:3].to_pylist())
        say(f"  rejected {count:,} x {reason}, such as {examples}")
    for split, count in description["splits"].items():
        say(f"  {split}: {count:,} crops")
    for view, count in description["views"].items():
        say(f"  view {view}: {count:,} rows")
