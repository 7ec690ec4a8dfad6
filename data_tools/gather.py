"""What a job begins with: the recordings of its archive, and the tables that say who was recorded."""

from dataclasses import replace
from pathlib import Path

from data_tools import archive, cohorts, files, formats, own_labels, privacy
from data_tools.archive import Archive
from data_tools.cohorts import OWN
from data_tools.console import say, shown
from data_tools.job import Job, begun, difference, wanted_cohorts
from data_tools.own_labels import Labels


def find(job: Job, scratch: Path) -> Archive:
    """The archive as it was when the job began; recordings that came later are another job's."""
    note = scratch / "job.json"
    if note.exists():
        saved = files.read_json(note)
        if (
            not isinstance(saved, dict)
            or not {"begun", "archive"} <= set(saved)
            or len(saved["archive"]) != len(Archive._fields) - 1
        ):
            raise ValueError(f"{note}: is damaged; remove {scratch}")
        if saved["begun"] != begun(job):
            raise ValueError(f"{scratch}: begun {difference(saved['begun'], begun(job))}; remove it to start anew")
        return Archive(str(job.raw), *saved["archive"])
    found = archive.find(job.raw, wanted_cohorts(job), job.labels)
    present = {archive.cohort_of(found.root, path).name for path in found.recordings}
    missing = sorted(set(job.cohorts) - present)
    if missing or not found.recordings:
        of = f" of {', '.join(missing)}" if missing else ""
        kinds = ", ".join(sorted(formats.SUFFIXES))
        raise ValueError(f"{job.raw}: no recordings{of} there: no WFDB header (.hea), and none of {kinds}")
    formats.check_installed(found.recordings)
    files.write_json({"begun": begun(job), "archive": found[1:]}, note)
    return found


def with_ptbxl_table(job: Job, found: Archive) -> Job:
    """The one that was named, or the one that lies in the archive."""
    of_ptbxl = any(archive.cohort_of(found.root, path).name == cohorts.PTBXL for path in found.recordings)
    path = job.ptbxl_metadata
    if path is not None and not of_ptbxl:
        raise ValueError(f"--ptbxl-metadata {path}: there are no recordings of PTB-XL in {job.raw}")
    if path is None and len(found.ptbxl_tables) > 1:
        tables = ", ".join(found.ptbxl_tables)
        raise ValueError(f"{job.raw}: several tables of PTB-XL; choose one with --ptbxl-metadata: {tables}")
    if path is None and of_ptbxl and found.ptbxl_tables:
        path = job.raw / found.ptbxl_tables[0]
    if path is None and "identification" in job.views and (of_ptbxl or not job.labels):
        raise ValueError(
            "the view identification needs to know the patients of PTB-XL: "
            f"give --ptbxl-metadata {cohorts.PTBXL_TABLE} (or of your own recordings --labels), or choose other --views"
        )
    return replace(job, ptbxl_metadata=path)


def labels_of(job: Job, found: Archive) -> Labels:
    """Of own recordings, from the table that was named."""
    if job.labels is None:
        return Labels()
    own = [path for path in found.recordings if archive.cohort_of(found.root, path) is OWN]
    if not own:
        raise ValueError(f"--labels {job.labels}: there are no recordings of your own in {job.raw}")
    labels = own_labels.read(job.labels, own, privacy.secret_of(job.raw))
    say(f"{job.labels}: {len(labels.of):,} of {len(own):,} recordings of your own are in it")
    if labels.has_patients and len(labels.of) < len(own):
        say("  of the others nobody knows the patient: each counts as one of its own")
    if labels.unknown:
        words = ", ".join(f"{shown(word)} ({count:,})" for word, count in labels.unknown.most_common(10))
        say(f"  {sum(labels.unknown.values()):,} labels are none of the 26 classes: {words}")
    return labels
