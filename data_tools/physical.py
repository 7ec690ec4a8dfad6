"""Leads, units and rates: what every reader makes of a file's own words for them. Pure."""

import math
import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_tools.crops import INVALID, LEADS, RATE

LEAD = {name.upper(): index for index, name in enumerate(LEADS)}
PER_MILLIVOLT = {"mv": 1.0, "uv": 1e3, "\u00b5v": 1e3, "\u03bcv": 1e3, "v": 1e-3, "nv": 1e6}  # units in 1 mV
DECODED_LIMIT = 4 << 30  # bytes: files can claim any length
_RATES = (50, 50_000)  # Hz, what is resampled; neither an ECG nor a number to allocate by, beyond them


class Refusal(ValueError):  # noqa: N818 (it is a verdict)
    """Why a recording is not taken, in words of our own: no library's, which may quote the file."""


class Leads(NamedTuple):
    signals: tuple[int, ...]  # which signals of the file are leads
    columns: tuple[int, ...]  # which lead each of them is
    mask: int  # bit i: lead i is there


@lru_cache(256)
def leads_among(names_and_units: tuple[tuple[str, str], ...]) -> Leads:
    found = [
        (index, LEAD[name.upper()])
        for index, (name, unit) in enumerate(names_and_units)
        if name.upper() in LEAD and unit.lower() in PER_MILLIVOLT
    ]
    if not found:
        raise ValueError("none of the twelve leads, in a unit of voltage")
    used, columns = zip(*found, strict=True)
    if len(set(columns)) < len(columns):
        raise ValueError("a lead stands there twice")
    return Leads(used, columns, sum(1 << lead for lead in columns))


def check_rate(rate: float, resampled: bool) -> None:
    if rate != RATE and not (resampled and _RATES[0] <= rate <= _RATES[1]):
        raise ValueError(f"not sampled at {RATE} Hz: {rate:g} Hz")


def check_size(decoded: int) -> None:
    """Of so many bytes, before they are allocated."""
    if decoded > DECODED_LIMIT:
        raise Refusal("larger than 4 GiB once decoded")


def to_int16(microvolts: NDArray[np.float64]) -> NDArray[np.int16]:
    """NaN, and what 16 bits cannot hold, becomes INVALID."""
    rounded = np.rint(microvolts)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(rounded) < -INVALID, rounded, INVALID).astype(np.int16)


def beyond_16_bits(microvolts: NDArray[np.float64]) -> bool:
    """Whether there are such numbers: an artefact's, or those of a wrong unit."""
    size = np.abs(microvolts)
    return bool(((size >= -INVALID) & (size < math.inf)).any())


def no_usable_lead(beyond: bool) -> str:
    return "no usable lead" + ("; it has values beyond +-32.767 mV, is it in uV?" if beyond else "")


_UNIT = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)?\s*([a-zA-Z\u00b5\u03bc]+)")


@lru_cache(256)
def microvolts_in(unit: str) -> float | None:
    """Of "mV" 1000, of "4.88uV" 4.88; None: no unit of voltage."""
    match = _UNIT.fullmatch(unit.strip())
    if match is None or match[2].lower() not in PER_MILLIVOLT:
        return None
    steps = float(match[1] or 1)
    return steps * (1e3 / PER_MILLIVOLT[match[2].lower()]) if 0 < steps < math.inf else None


_PREFIX = re.compile(r"^(MDC[ _]ECG[ _]LEAD|ECG|EKG|LEAD)[ _:-]+", re.IGNORECASE)


@lru_cache(4096)
def lead_name(label: str) -> str:
    """`ECG Lead II`, `EKG V1`, `MDC_ECG_LEAD_AVR` -> II, V1, AVR; what is no lead stays as it is."""
    name = label.strip()
    while (shorter := _PREFIX.sub("", name)) != name:
        name = shorter
    return name if name.upper() in LEAD else label.strip()
