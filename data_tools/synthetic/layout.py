"""How the six cohorts of challenge-2021, and PTB-XL, write a recording down: names, folders, headers, lengths."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_tools.crops import LEADS, RATE, column_sums
from data_tools.labels import CLASS_NAMES, CLASSES

Chance = np.random.Generator
_FOLDER = 1000  # recordings in a gN


@dataclass(frozen=True)
class Cohort:
    name: str
    patients: int
    prefix: str
    digits: int
    first: int  # number of the first recording
    seconds: Callable[[Chance], float]
    unit: str = "mV"
    newer: float = 0.0  # part of the headers in the style of 1.0.3
    written: tuple[str, ...] = ()  # days on which the others were, some with their time
    span: int = 0  # of its numbers, of which some are missing; 0: as many as recordings

    def name_of(self, recording: int) -> str:
        number = self.first + recording * max(self.span, self.patients) // self.patients
        return f"{self.prefix}{number:0{self.digits}d}"

    def recordings_of(self, patient: int) -> int:
        """Of PTB-XL's 18,885 patients 2,127 have several, 2.4 each: every ninth, here."""
        if self.name != PTBXL or patient % 9 != 4:
            return 1
        return (2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 4, 5)[patient // 9 % 16]


def _long(low: float, high: float) -> Callable[[Chance], float]:
    def seconds(chance: Chance) -> float:
        return float(np.clip(np.round(np.exp(chance.normal(2.55, 0.5)), int(chance.integers(0, 2))), low, high))

    return seconds


def _ten(chance: Chance) -> float:
    return 10.0


def _georgia(chance: Chance) -> float:
    return 5.0 if chance.random() < 0.005 else 10.0  # 52 of 10,344


PTBXL = "ptb-xl"
_MARCH = ("23-Mar-2021", "24-Mar-2021")
COHORTS = (
    Cohort("cpsc_2018", 6_877, "A", 4, 1, _long(6, 144), written=("12-May-2020 12:33:59",)),
    Cohort("cpsc_2018_extra", 3_453, "Q", 4, 1, _long(8, 98), written=("15-May-2020 15:35:30",), span=3_581),
    Cohort(
        PTBXL, 18_885, "HR", 5, 1, _ten, unit="mv", newer=0.28, written=("04-Jun-2020 15:11:55", "04-Jun-2020 21:57:08")
    ),
    Cohort("georgia", 10_344, "E", 5, 1, _georgia, newer=0.5, written=("05-May-2020 14:50:55", "05-May-2020 09:49:17")),
    Cohort("chapman_shaoxing", 10_247, "JS", 5, 1, _ten, written=_MARCH, span=10_646),
    Cohort("ningbo", 34_905, "JS", 5, 10_647, _ten, newer=0.33, written=("26-Mar-2021", "27-Mar-2021", "29-Mar-2021")),
)
CHAPMAN = 4
_UNSCORED = ("55930002", "429622005", "164873001", "428750005", "164931005", "67741000119109")
PTBXL_TABLE_HEAD = "ecg_id,patient_id,age,sex,recording_date,strat_fold,filename_lr,filename_hr"


def shares(patients: int) -> list[int]:
    """`patients` over the cohorts in the real archive's proportions, at least one each."""
    real = np.array([cohort.patients for cohort in COHORTS])
    exact = real / real.sum() * patients
    counts = np.maximum(1, exact.astype(int))
    while counts.sum() < patients:
        counts[np.argmax(exact - counts)] += 1
    while counts.sum() > patients:
        counts[np.argmax(counts - exact + (counts > 1) * len(COHORTS))] -= 1
    return [int(count) for count in counts]


def twin_of(cohort: Cohort, recording: int) -> int | None:
    """Of every 491 recordings of Ningbo, one is one of Chapman's."""
    return recording // 491 if cohort.name == "ningbo" and recording % 491 == 490 else None


def person(chance: Chance, cohort: Cohort, visit: int) -> tuple[str, str, str]:
    """Age and sex, as a header has them, and the day, at a patient's first, second ... `visit`."""
    years = int(np.clip(chance.normal(60, 17), 4, 95)) + int(chance.integers(0, 4, 9)[:visit].sum())
    sex = "Unknown" if chance.random() < 0.003 else ("Male", "Female")[int(chance.random() < 0.47)]
    lot, minute = chance.random(), int(chance.integers(24 * 60))
    day = f"{1984 + 3 * visit}-{1 + minute % 12:02d}-{1 + minute % 28:02d} {minute // 60:02d}:{minute % 60:02d}:00"
    if lot < 0.004:
        return "NaN" if cohort.name == "georgia" else "-1", sex, day
    return "300" if cohort.name == PTBXL and years > 89 else str(years), sex, day


def codes(names: list[str], chance: Chance) -> str:
    """The Dx field, in no order, and now and then with a comma or a code too many."""
    found = [str(chance.choice(CLASSES[CLASS_NAMES.index(name)].codes)) for name in names]
    if not found or chance.random() < 0.3:
        found.append(str(chance.choice(_UNSCORED)))
    found = [found[place] for place in chance.permutation(len(found))]
    lot = chance.random()
    if lot < 0.002:
        found.append("")
    elif lot < 0.004:
        found.append(found[0])
    return ",".join(found)


def write(
    out: Path,
    cohort: Cohort,
    number: int,
    name: str,
    signal: NDArray[np.int16],
    age: str,
    sex: str,
    dx: str,
    chance: Chance,
) -> None:
    folder = out / "challenge-2021" / "training" / cohort.name / f"g{number // _FOLDER + 1}"
    folder.mkdir(parents=True, exist_ok=True)
    newer = chance.random() < cohort.newer
    after = "# " if newer else "#"
    comments = [f"{after}Age: {age}", f"{after}Sex: {sex}", f"{after}Dx: {dx}"]
    comments += [
        f"{after}{field}: Unknown" for field in (("Rx", "Hx") if cohort.name == "georgia" else ("Rx", "Hx", "Sx"))
    ]
    gain = f"16x1+24 1000.0(0)/{cohort.unit}" if newer else f"16+24 1000/{cohort.unit}"
    first = name if newer else f"{name}.mat" if cohort.name == "georgia" and number % 4 == 3 else name
    # ningbo/g13/S23074.hea belongs to JS23074.mat
    stem = name[1:] if name == "JS23074" else name
    day = str(chance.choice(cohort.written))
    if ":" not in day:
        second = int(chance.integers(24 * 3600))
        day += f" {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    line = f"{first} 12 {RATE} {len(signal)}" + ("" if newer else f" {day}")
    header = _header(line, f"{name}.mat {gain}", signal, LEADS, signed=True) + comments
    (folder / f"{stem}.hea").write_text("\n".join([*header, ""]))
    (folder / f"{name}.mat").write_bytes(mat_head(len(signal)) + signal.tobytes())
    if cohort.name == PTBXL:
        _write_ptbxl(out, int(name[2:]), signal)


def mat_head(samples: int) -> bytes:
    """Of MATLAB v4: int16, 12 rows, columns, no imaginary part, a name of 4 bytes."""
    return struct.pack("<5i4s", 30, len(LEADS), samples, 0, 4, b"val")


def _write_ptbxl(out: Path, ecg_id: int, signal: NDArray[np.int16]) -> None:
    stem = out / "ptb-xl" / f"{_ptbxl_path(ecg_id, 'records500')}_hr"
    stem.parent.mkdir(parents=True, exist_ok=True)
    line = f"{stem.name} 12 {RATE} {len(signal)}"
    names = [lead.upper() if lead.startswith("aV") else lead for lead in LEADS]
    header = _header(line, f"{stem.name}.dat 16 1000.0(0)/mV", signal, names, signed=False)
    stem.with_suffix(".hea").write_text("\n".join([*header, ""]))
    stem.with_suffix(".dat").write_bytes(signal.tobytes())


def _header(
    line: str, fields: str, signal: NDArray[np.int16], leads: tuple[str, ...] | list[str], signed: bool
) -> list[str]:
    sums = column_sums(signal)
    checks = (sums.astype(np.int16) if signed else sums).tolist()
    rows = zip(leads, signal[0].tolist(), checks, strict=True)
    return [line, *(f"{fields} 16 0 {first} {check} 0 {lead}" for lead, first, check in rows)]


def _ptbxl_path(ecg_id: int, folder: str) -> str:
    return f"{folder}/{ecg_id // 1000 * 1000:05d}/{ecg_id:05d}"


def ptbxl_row(record: str, patient: str, age: str, sex: str, day: str) -> str:
    ecg_id, number = int(record[2:]), int(patient.removeprefix(f"{PTBXL}-"))
    years = f"{float(age):.1f}" if age not in ("NaN", "-1") else ""
    files = f"{_ptbxl_path(ecg_id, 'records100')}_lr,{_ptbxl_path(ecg_id, 'records500')}_hr"
    return f"{ecg_id},{number}.0,{years},{'1' if sex == 'Female' else '0'},{day},{number % 10 + 1},{files}"
