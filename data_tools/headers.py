"""WFDB headers: text -> Header. Pure; knows both header styles of the PhysioNet challenges and WFDB's defaults."""

import math
import re
from functools import lru_cache
from typing import NamedTuple

DEFAULT_RATE = 250.0  # what WFDB assumes where a record line names no rate
DEFAULT_GAIN = 200.0  # ADC units per mV, what WFDB assumes for a missing or zero gain

_FORMAT = re.compile(r"(\d+)(?:x(\d+))?(?::(\d+))?(?:\+(\d+))?")
_GAIN = re.compile(r"([-+]?[\d.]+(?:[eE][-+]?\d+)?)(?:\((-?\d+)\))?(?:/(\S+))?")


class SignalLine(NamedTuple):
    """One signal of a recording: where its samples are and what they mean."""

    file: str
    format: int
    samples_per_frame: int
    skew: int
    offset: int
    gain: float  # ADC units per physical unit
    baseline: int  # ADC units at 0 physical units
    unit: str
    checksum: int | None
    name: str


class Header(NamedTuple):
    rate: float
    samples: int | None  # None: the signal file's size tells
    signals: tuple[SignalLine, ...]
    segments: tuple[str, ...]  # records this one is pieced together from; empty for an ordinary record
    comments: tuple[str, ...]


def parse(text: str) -> Header:
    """Raises ValueError, naming no file, where `text` is no WFDB header."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    comments = tuple(line.lstrip("#").strip() for line in lines if line[0] == "#")
    lines = [line for line in lines if line[0] != "#"]
    if not lines:
        raise ValueError("header is empty")
    try:
        count, segment_count, rate, samples = _record_line(lines[0])
        body = lines[1:]
        if segment_count is not None:
            segments = tuple(line.split()[0] for line in body)
            return Header(rate, samples, (), segments[:segment_count], comments)
        signals = tuple(_signal_line(line) for line in body)
    except (ValueError, IndexError, OverflowError):
        raise ValueError("header is malformed") from None
    if len(signals) != count:
        raise ValueError("header's number of signal lines is wrong")
    return Header(rate, samples, signals, (), comments)


def _record_line(line: str) -> tuple[int, int | None, float, int | None]:
    """-> signals, segments (None: not a multi-segment record), rate, samples. The record's own name is of no use:
    old mirrors write the signal file's there."""
    name, count, *rest = line.split()
    _, slash, segments = name.partition("/")
    rate = float(re.split(r"[/(]", rest[0])[0]) if rest else DEFAULT_RATE
    samples = int(rest[1]) if len(rest) > 1 else 0
    if not 0 < rate < math.inf or int(count) < 0 or samples < 0:
        raise ValueError
    return int(count), int(segments) if slash else None, rate, samples or None


def _signal_line(line: str) -> SignalLine:
    """`file format gain resolution zero first checksum block name`, where all but the first two may be missing."""
    fields = line.split(None, 8)
    format_, per_frame, skew, offset = _format(fields[1])
    gain, baseline, unit = _gain(fields[2]) if len(fields) > 2 else (DEFAULT_GAIN, None, "mV")
    if baseline is None:
        baseline = int(fields[4]) if len(fields) > 4 else 0
    checksum = int(fields[6]) if len(fields) > 6 else None
    name = fields[8].strip() if len(fields) > 8 else ""
    return SignalLine(fields[0], format_, per_frame, skew, offset, gain, baseline, unit, checksum, name)


@lru_cache(4096)
def _format(field: str) -> tuple[int, int, int, int]:
    match = _FORMAT.fullmatch(field)
    if match is None:
        raise ValueError
    format_, per_frame, skew, offset = match.groups()
    return int(format_), int(per_frame or 1), int(skew or 0), int(offset or 0)


@lru_cache(4096)
def _gain(field: str) -> tuple[float, int | None, str]:
    match = _GAIN.fullmatch(field)
    if match is None:
        raise ValueError
    gain, baseline, unit = match.groups()
    return float(gain) or DEFAULT_GAIN, None if baseline is None else int(baseline), unit or "mV"


def fields(comments: tuple[str, ...]) -> dict[str, str]:
    """`#Age: 60` and `# Age: 60` alike -> {"age": "60"}; the first of a name counts."""
    found: dict[str, str] = {}
    for comment in comments:
        name, colon, value = comment.partition(":")
        if colon:
            found.setdefault(name.strip().lower(), value.strip())
    return found


def age(text: str | None) -> int | None:
    """Years; None where unknown (empty, NaN, -1). PTB-XL writes 300 for "older than 89", which becomes 90."""
    try:
        years = float(text or "nan")
    except ValueError:
        return None
    if years == 300:
        return 90
    return int(years) if 0 <= years <= 130 else None


def sex(text: str | None) -> str | None:
    return {"male": "M", "m": "M", "female": "F", "f": "F"}.get((text or "").lower())
