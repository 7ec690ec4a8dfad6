"""What each public cohort is: where it lies, how its recordings are called, which of its header gains are wrong."""

import csv
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from data_tools import headers


@dataclass(frozen=True)
class Cohort:
    name: str
    folders: tuple[str, ...]  # as PhysioNet names it, then as the challenge's own archives do
    stem: str  # pattern of a header's file name without .hea
    labelled: bool = True  # its headers hold Dx codes
    diagnosis: bool = False  # one of the paper's diagnosis cohorts
    wrong_gain: float | None = None  # in headers of old mirrors, where 1000/mV is right


PTBXL = "ptb-xl"
# In the order in which a recording that stands in several of them is kept.
PUBLIC = (
    Cohort("cpsc_2018", ("cpsc_2018", "WFDB_CPSC2018"), r"A\d{4}", diagnosis=True),
    Cohort("georgia", ("georgia", "WFDB_Ga"), r"E\d{5}", diagnosis=True, wrong_gain=4880),
    Cohort(PTBXL, ("ptb-xl", "WFDB_PTBXL"), r"HR\d{5}", wrong_gain=200),
    Cohort(PTBXL, ("records500", "records100"), r"\d{5}_[hl]r", labelled=False),  # PTB-XL as it publishes itself
    Cohort("cpsc_2018_extra", ("cpsc_2018_extra", "WFDB_CPSC2018_2"), r"Q\d{4}"),
    Cohort("chapman_shaoxing", ("chapman_shaoxing", "WFDB_ChapmanShaoxing"), r"JS\d{5}"),
    Cohort("ningbo", ("ningbo", "WFDB_Ningbo"), r"J?S\d{5}"),  # S23074.hea belongs to JS23074.mat
    Cohort("ptb", ("ptb", "WFDB_PTB"), r"S\d{4}", wrong_gain=2_000_000),
    Cohort("st_petersburg_incart", ("st_petersburg_incart", "WFDB_StPetersburg"), r"I\d{4}", wrong_gain=306_000),
)
OWN = Cohort("own", (), "", labelled=False)  # anyone else's recordings: names and ages are private
NAMES = tuple(dict.fromkeys(cohort.name for cohort in (*PUBLIC, OWN)))
DIAGNOSIS = tuple(cohort.name for cohort in PUBLIC if cohort.diagnosis)
PTBXL_TABLE = "ptbxl_database.csv"


def cohort_of(folders: str, name: str) -> Cohort:
    """The public cohort whose folder and naming a file has; both, so that a private file there stays private."""
    stem = name.rpartition(".")[0]
    for cohort in _of_folders(folders):
        if re.fullmatch(cohort.stem, stem, re.ASCII):
            return cohort
    return OWN


@lru_cache
def _of_folders(folders: str) -> tuple[Cohort, ...]:
    parts = set(folders.split("/"))
    return tuple(cohort for cohort in PUBLIC if parts.intersection(cohort.folders))


def record_name(stem: str) -> str:
    """A public recording's name: PTB-XL's 00123_hr is the challenge's HR00123."""
    return re.sub(r"(\d{5})_[hl]r", r"HR\1", stem)


class PtbxlRow(NamedTuple):
    patient: str
    age: int | None
    sex: str | None


def read_ptbxl_table(path: Path) -> dict[str, PtbxlRow]:
    """ptbxl_database.csv -> record name -> who was recorded."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = {
                f"HR{int(row['ecg_id']):05d}": PtbxlRow(
                    patient=f"ptb-xl-{int(float(row['patient_id']))}",
                    age=headers.age(row["age"]),
                    sex={"0": "M", "1": "F"}.get(row["sex"]),
                )
                for row in csv.DictReader(file)
            }
    except (KeyError, TypeError, ValueError, OverflowError, csv.Error) as error:
        raise ValueError(f"{path} is not PTB-XL's {PTBXL_TABLE}: {error}") from None
    if not rows:
        raise ValueError(f"{path} is not PTB-XL's {PTBXL_TABLE}: it has no rows")
    return rows
