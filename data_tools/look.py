"""What one recording holds and what is odd about it: facts for `inspect`, none of which is refused for being odd."""

import secrets
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_tools import archive, check, formats, headers, privacy, records
from data_tools.cohorts import OWN
from data_tools.crops import INVALID, LEADS, RATE, SEGMENT, cut
from data_tools.hints import Hints
from data_tools.labels import read_dx
from data_tools.records import Recording

_LIMB_LEADS = tuple(LEADS.index(lead) for lead in ("I", "II", "III"))


class Look(NamedTuple):
    path: str  # relative to the archive
    name: str  # what a dataset calls it
    cohort: str
    refused: str | None = None  # why nothing else is known of it
    detail: str | None = None
    rate: float = 0.0  # Hz, as recorded
    seconds: float = 0.0
    leads: int = 0  # bit i: lead i is there
    units: tuple[str, ...] = ()
    gains: tuple[float, ...] = ()
    gain_corrected: bool = False
    hinted: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()  # names of columns that are no leads
    beyond: bool = False  # values that 16 bits cannot hold
    other_names: tuple[str, ...] = ()  # its header names files of another name
    invalid: tuple[int, ...] = (0,) * len(LEADS)  # samples of each lead
    flat: int = 0  # bit i: lead i never changes
    peaks: tuple[float, ...] = (0.0,) * len(LEADS)  # mV, the largest of each lead
    at_the_rail: int = 0  # samples at the end of 16 bits
    limb_error: float | None = None  # mV, how far II is from I + III in all but one sample of a hundred
    usable: int = 0  # segments with a usable lead
    contents: tuple[bytes, ...] = ()  # of these
    classes: int = 0
    other_codes: tuple[str, ...] = ()
    repeated_codes: int = 0
    age: int | None = None
    sex: str | None = None

    @property
    def peak(self) -> float:
        return max(self.peaks)


class Task(NamedTuple):
    root: str
    secret: bytes
    told: Hints
    paths: list[str]


def run(task: Task) -> list[Look]:
    return [at(task, path)[0] for path in task.paths]


def at(task: Task, path: str) -> tuple[Look, Recording | None]:
    """-> the facts, and the recording if it can be read."""
    cohort = archive.cohort_of(task.root, path)
    look = Look(path, check.public_name(task.root, task.secret, path), cohort.name)
    try:
        recording = records.read(task.root, path, cohort.wrong_gain, True, task.told)
    except ValueError as error:
        reason, _, detail = str(error).partition(": ")
        named = check.other_names(path, records.names(task.root, path))
        return look._replace(refused=reason, detail=detail or None, other_names=tuple(named)), None
    return _facts(look, recording, cohort is OWN), recording


def of_file(path: Path, told: Hints) -> tuple[Task, str]:
    """One recording, as a user names it -> a task, and its path in it."""
    path, told = records.named(path, told)
    formats.check_installed([path.name])
    return Task(str(path.parent), secrets.token_bytes(32), told, []), path.name


def _facts(look: Look, recording: Recording, private: bool) -> Look:
    signal = recording.signal
    invalid = signal == INVALID
    valid = np.where(invalid, 0, signal)
    found = read_dx(recording.comments.get("dx", ""))
    age = headers.age(recording.comments.get("age"))
    crops = cut(signal, recording.leads)
    contents = [content for crop in crops for content, mask in zip(crop.content, crop.lead_mask, strict=True) if mask]
    return look._replace(
        rate=recording.rate,
        seconds=len(signal) / RATE,
        leads=recording.leads,
        units=recording.units,
        gains=recording.gains,
        gain_corrected=recording.gain_corrected,
        hinted=recording.hinted,
        aside=recording.aside,
        beyond=recording.beyond,
        other_names=tuple(check.other_names(look.path, recording.names)),
        invalid=tuple(invalid.sum(0).tolist()),
        flat=_flat(signal, invalid) & recording.leads,
        peaks=tuple((np.abs(valid.astype(np.int32)).max(0, initial=0) / 1e3).tolist()),
        at_the_rail=int((np.abs(valid) == -INVALID - 1).sum()),
        limb_error=_limb_error(signal, invalid, recording.leads),
        usable=len(contents),
        contents=tuple(contents),
        classes=found.classes,
        other_codes=found.other,
        repeated_codes=found.repeated,
        age=privacy.private_age(age) if private else age,
        sex=headers.sex(recording.comments.get("sex")),
    )


def _flat(signal: NDArray[np.int16], invalid: NDArray[np.bool_]) -> int:
    """Bit i: the valid samples of lead i are all alike, and there are some."""
    if not len(signal):
        return 0
    low = np.where(invalid, -INVALID - 1, signal).min(0)
    high = np.where(invalid, INVALID, signal).max(0)
    return int((low == high) @ (1 << np.arange(len(LEADS))))


def _limb_error(signal: NDArray[np.int16], invalid: NDArray[np.bool_], leads: int) -> float | None:
    if not all(leads >> lead & 1 for lead in _LIMB_LEADS) or len(signal) < SEGMENT:
        return None
    rows = ~invalid[:, _LIMB_LEADS].any(1)
    one, two, three = (signal[rows][:, lead].astype(np.int32) for lead in _LIMB_LEADS)
    return float(np.percentile(np.abs(two - one - three), 99)) / 1e3 if rows.any() else None


def lead_names(mask: int) -> list[str]:
    return [lead for index, lead in enumerate(LEADS) if mask >> index & 1]
