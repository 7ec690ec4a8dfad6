"""A believable archive for who has none: python -m data_tools.synthesize --out RAW --patients 3000

RAW/challenge-2021 looks like PhysioNet's challenge-2021; RAW/ptb-xl holds its recordings of PTB-XL as PTB-XL itself has
them, with its table; RAW/ledger.parquet says what is in each. Same seed, same bytes, for any number of workers.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from data_tools import console, files, pool
from data_tools.console import progress, say
from data_tools.crops import INVALID
from data_tools.synthetic import classes, layout
from data_tools.synthetic.layout import COHORTS, PTBXL_TABLE_HEAD, Cohort
from data_tools.synthetic.recordings import patient, record

_PATIENTS_PER_TASK = 200
_EPILOG = """examples:
  python -m data_tools.synthesize --out data/raw --patients 3000
  python -m data_tools.shard data/raw/challenge-2021 --out data/set --ptbxl-metadata data/raw/ptb-xl/ptbxl_database.csv
"""


class Task(NamedTuple):
    out: Path
    seed: int
    cohort: int
    patients: range
    first_recording: int  # how many of the cohort come before


class Entry(NamedTuple):
    """A recording, as the ledger has it."""

    record: str
    cohort: str
    patient: str
    age: str
    sex: str
    day: str
    classes: int
    samples: int
    twin_of: str | None  # the same samples under another name


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_tools.synthesize",
        description="Makes an artificial archive of 12-lead recordings in the layouts of challenge-2021 and PTB-XL: "
        "patients who keep their hearts from one to the next, and the 26 scored classes as cardiology describes them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", required=True, type=Path, metavar="RAW")
    parser.add_argument("--patients", required=True, type=int, metavar="N", help="in all six cohorts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes (default: one a core)")
    return console.run(_synthesize, parser.parse_args())


def _synthesize(arguments: argparse.Namespace) -> int:
    most = sum(cohort.patients for cohort in COHORTS)
    if not len(COHORTS) <= arguments.patients <= most:
        raise ValueError(f"--patients {arguments.patients}: from {len(COHORTS)} to {most:,}, which the real one has")
    if arguments.workers < 1 or arguments.seed < 0:
        raise ValueError("--workers has to be positive, --seed not negative")
    out = Path(os.path.realpath(arguments.out))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out}: exists already; remove it, or choose another --out")
    partial = out.with_name(f"{out.name}.partial")
    with files.locked(partial):
        _begin(partial, {"patients": arguments.patients, "seed": arguments.seed})
        tasks = _tasks(partial / "raw", arguments.patients, arguments.seed)
        with pool.opened(arguments.workers, cluster=None) as run:
            done = dict(progress(run(write, tasks), len(tasks), "recording"))
        entries = [entry for place in range(len(tasks)) for entry in done[place]]
        _finish(partial / "raw", entries)
        (partial / "raw").rename(out)
        shutil.rmtree(partial)
    say(f"{out}: {len(entries):,} recordings of {arguments.patients:,} patients")
    return 0


def _begin(partial: Path, job: dict[str, int]) -> None:
    """What an interrupted run of the same arguments has left is written over with the same bytes; nothing else is."""
    note = partial / "job.json"
    if not note.exists() and set(os.listdir(partial)) - {"lock"}:
        raise ValueError(f"{partial}: is no unfinished archive; remove it, or choose another --out")
    if note.exists() and files.read_json(note) != job:
        raise ValueError(f"{partial}: was begun with other arguments; give those again, or remove it")
    files.remove_temporary(partial)
    files.write_json(job, note)


def _tasks(out: Path, patients: int, seed: int) -> list[Task]:
    tasks = []
    for index, count in enumerate(layout.shares(patients)):
        cohort = COHORTS[index]
        for first in range(0, count, _PATIENTS_PER_TASK):
            before = sum(cohort.recordings_of(number) for number in range(first))
            tasks.append(Task(out, seed, index, range(first, min(first + _PATIENTS_PER_TASK, count)), before))
    return tasks


def write(task: Task) -> list[Entry]:
    """All recordings of the task's patients."""
    cohort = COHORTS[task.cohort]
    entries = []
    number = task.first_recording
    for of in task.patients:
        for visit in range(cohort.recordings_of(of)):
            entries.append(_write_one(task, cohort, of, visit, number))
            number += 1
    return entries


def _write_one(task: Task, cohort: Cohort, of: int, visit: int, number: int) -> Entry:
    name = cohort.name_of(number)
    # About 71 recordings of Ningbo are Chapman's under another name, many with another Dx.
    twin = layout.twin_of(cohort, number)
    source, of, visit = (layout.CHAPMAN, twin, 0) if twin is not None else (task.cohort, of, visit)
    of_patient = np.random.default_rng([task.seed, source, of])
    heart, lasting = patient(of_patient), classes.lasting(source, of_patient)
    age, sex, day = layout.person(of_patient, cohort, visit)
    chance = np.random.default_rng([task.seed, source, of, 1 + visit])
    names = classes.passing(source, lasting, chance)
    seconds = COHORTS[source].seconds(chance)
    signal = record(heart, names, seconds, chance)
    defects = np.random.default_rng([task.seed, task.cohort, number, 99])
    if twin is None:
        _damage(signal, cohort, defects)
    codes = layout.codes(names if twin is None else names[1:], defects)
    layout.write(task.out, cohort, number, name, signal, age, sex, codes, defects)
    return Entry(
        record=name,
        cohort=cohort.name,
        patient=f"{COHORTS[source].name}-{of + 1}",
        age=age,
        sex=sex,
        day=day,
        classes=classes.bits(names),
        samples=len(signal),
        twin_of=COHORTS[source].name_of(of) if twin is not None else None,
    )


def _damage(signal: NDArray[np.int16], cohort: Cohort, chance: np.random.Generator) -> None:
    """As in the real archive: 1,021 of 87,663 recordings at the 16-bit rail; in Ningbo 1,480 of 34,905 with all-zero
    leads, in 976 of these V1 to V6, and about 105 with invalid samples."""
    begin, lead = int(chance.integers(0, len(signal) - 200)), int(chance.integers(12))
    if chance.random() < 0.012:
        signal[begin : begin + int(chance.integers(5, 60)), lead] = 32767
        return
    lot = chance.random() if cohort.name == "ningbo" else 1.0
    if lot < 0.028:
        signal[:, 6:] = 0
    elif lot < 0.042:
        signal[:, lead] = 0
    elif lot < 0.045:
        signal[begin : begin + 120, lead] = INVALID


def _finish(out: Path, entries: Sequence[Entry]) -> None:
    """What needs all of them: lists, the table of PTB-XL, the ledger."""
    root = out / "challenge-2021"
    folders = sorted(root.glob("training/*/g*"))
    for folder in folders:
        names = sorted(path.stem for path in folder.glob("*.hea"))
        (folder / "RECORDS").write_text("".join(f"{name}\n" for name in names))
    (root / "RECORDS").write_text("".join(f"{folder.relative_to(root).as_posix()}/\n" for folder in folders))
    of_ptbxl = [entry for entry in entries if entry.cohort == layout.PTBXL]
    rows = [layout.ptbxl_row(entry.record, entry.patient, entry.age, entry.sex, entry.day) for entry in of_ptbxl]
    (out / "ptb-xl" / "ptbxl_database.csv").write_text("".join(f"{row}\n" for row in (PTBXL_TABLE_HEAD, *rows)))
    columns = dict(zip(Entry._fields, zip(*entries, strict=True), strict=True))
    files.write_table(pa.table(columns), out / "ledger.parquet")


if __name__ == "__main__":
    sys.exit(main())
