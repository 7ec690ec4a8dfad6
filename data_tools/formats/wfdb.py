"""WFDB: every form of it, verified.

The challenge's .mat and plain format 16 are read here, a hundred times faster than through wfdb and checked against
it in the tests; every other form goes through wfdb.
"""

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_tools import headers
from data_tools.crops import INVALID, LEADS, column_sums
from data_tools.folders import Folder
from data_tools.headers import Header, SignalLine
from data_tools.physical import LEAD, PER_MILLIVOLT, Leads, check_rate, check_size, leads_among, to_int16

_BITS = {8: 8, 16: 16, 24: 24, 32: 32, 61: 16, 80: 8, 160: 16, 212: 12, 310: 32 / 3, 311: 32 / 3}  # a sample on disk
_MICROVOLTS = {(1000.0, "mV", 0), (1000.0, "mv", 0)}  # gain, unit and baseline of samples that are microvolts


class Digital(NamedTuple):
    microvolts: NDArray[np.int16]  # [samples, leads]
    leads: Leads
    rate: float
    statuses: list[os.stat_result]
    file: NDArray[np.int16] | None = None  # the samples as they lie in the file


class Wfdb(NamedTuple):
    digital: Digital
    header: Header
    gain_corrected: bool
    statuses: tuple[os.stat_result, ...]  # of all its files


def read(folder: Folder, name: str, wrong_gain: float | None, resampled: bool) -> Wfdb:
    """The record whose header is `name`; gains of `wrong_gain` are read as 1000/mV."""
    text, status = folder.read_header(name)
    parsed = headers.parse(text)
    corrected = wrong_gain is not None and any(line.gain == wrong_gain for line in parsed.signals)
    if corrected:
        lines = tuple(line._replace(gain=1000.0) if line.gain == wrong_gain else line for line in parsed.signals)
        parsed = parsed._replace(signals=lines)
    if parsed.signals and all(line.file == "~" for line in parsed.signals):
        raise ValueError("a layout header, which names signals and holds none")
    if _is_plain(parsed.signals):
        digital = _read_plain(folder, parsed, resampled)
    else:
        _check_ascii(text)
        digital = _read_through_wfdb(folder, name, parsed, resampled)
    return Wfdb(digital, parsed, corrected, (status, *digital.statuses))


def _is_plain(signals: tuple[SignalLine, ...]) -> bool:
    """All in one file, frame by frame, in 16 bits."""
    places = {line[:5] for line in signals}  # file, format, samples a frame, skew, offset
    return len(places) == 1 and signals[0][1:4] == (16, 1, 0)


def _read_plain(folder: Folder, header: Header, resampled: bool) -> Digital:
    signals = header.signals
    leads = leads_among(tuple([(line.name, line.unit) for line in signals]))
    check_rate(header.rate, resampled)
    frame = 2 * len(signals)  # bytes
    descriptor = folder.open(signals[0].file)
    try:
        status = os.fstat(descriptor)
        available = (status.st_size - signals[0].offset) // frame
        samples = available if header.samples is None else header.samples
        if samples > available:
            raise ValueError("signal file is shorter than its header says")
        check_size(samples * frame)
        data = read_exactly(descriptor, samples * frame, signals[0].offset)
    finally:
        os.close(descriptor)
    digital = np.frombuffer(data, "<i2").reshape(samples, len(signals))
    _check_sums(signals, column_sums(digital))
    of_leads = digital[:, leads.signals] if len(leads.signals) < len(signals) else digital
    microvolts = _to_microvolts(of_leads, [signals[i] for i in leads.signals])
    return Digital(microvolts, leads, header.rate, [status], file=digital)


def read_exactly(descriptor: int, count: int, offset: int) -> bytes:
    data = os.pread(descriptor, count, offset)  # Linux reads at most 2 GiB at once
    while len(data) < count:
        more = os.pread(descriptor, count - len(data), offset + len(data))
        if not more:
            raise ValueError("signal file is shorter than its header says")
        data += more
    return data


class _WrongSumError(ValueError):
    pass


def _check_sums(signals: tuple[SignalLine, ...], sums: NDArray[Any]) -> None:
    wrong = [
        line.name
        for line, found in zip(signals, sums.tolist(), strict=True)
        if line.checksum is not None and (line.checksum - found) & 0xFFFF
    ]
    if wrong:
        leads = [name for name in wrong if name.upper() in LEAD]  # other names may be anybody's
        raise _WrongSumError(f"checksum does not hold: {', '.join(leads) or 'a signal that is no lead'}")


def _to_microvolts(digital: NDArray[np.int16], lines: list[SignalLine]) -> NDArray[np.int16]:
    scales = {(line.gain, line.unit, line.baseline) for line in lines}
    if scales <= _MICROVOLTS:
        return digital
    gains = np.array([line.gain * PER_MILLIVOLT[line.unit.lower()] for line in lines])  # ADC units per mV
    with np.errstate(all="ignore"):  # a gain may be anything; what becomes of it is checked
        physical = (digital - np.array([line.baseline for line in lines], float)) * (1e3 / gains)
    physical[digital == INVALID] = np.nan
    return to_int16(physical)


def _read_through_wfdb(folder: Folder, name: str, header: Header, resampled: bool) -> Digital:
    """All the forms of WFDB; leads of several samples a frame keep their own rate."""
    segments = tuple(segment for segment in header.segments if segment != "~")  # "~" is a gap
    parts = [header, *(_segment_header(folder, segment) for segment in segments)]
    statuses = [status for part in parts for status in _check_sizes(folder, part)]
    check_size(max(header.samples or 0, sum(part.samples or 0 for part in parts)) * len(LEADS) * 8)
    if not header.segments:  # refuse before decoding what can be refused
        leads = leads_among(tuple((line.name, line.unit) for line in header.signals))
        check_rate(header.rate * header.signals[leads.signals[0]].samples_per_frame, resampled)
    record = _decode(f"{folder.path}/{name.removesuffix('.hea')}", segments, parts)
    leads = leads_among(
        tuple((name or "", unit or "mV") for name, unit in zip(record.sig_name, record.units, strict=True))
    )
    per_frame = {record.samps_per_frame[i] for i in leads.signals}
    if len(per_frame) > 1:
        raise ValueError("leads are sampled at different rates")
    rate = record.fs * per_frame.pop()
    check_rate(rate, resampled)
    physical = [record.e_p_signal[i] * (1e3 / PER_MILLIVOLT[record.units[i].lower()]) for i in leads.signals]
    return Digital(to_int16(np.stack(physical, 1)), leads, rate, statuses)


def _check_ascii(text: str) -> None:
    """wfdb leaves out whatever is not, and would open another file than the one that was checked."""
    if not all(line.isascii() for line in text.splitlines() if not line.startswith("#")):
        raise ValueError("header is not plain ASCII")


def _segment_header(folder: Folder, segment: str) -> Header:
    text, _ = folder.read_header(f"{segment}.hea")
    _check_ascii(text)
    parsed = headers.parse(text)
    if parsed.segments:
        raise ValueError("a segment is itself pieced together")
    return parsed


def _check_sizes(folder: Folder, header: Header) -> list[os.stat_result]:
    """Every signal file is there and long enough, before anything is allocated for it."""
    by_file: dict[str, list[SignalLine]] = {}
    for line in header.signals:
        if line.file != "~":  # a layout segment: names signals, holds none
            by_file.setdefault(line.file, []).append(line)
    samples = header.samples or 0
    statuses = []
    for file, lines in by_file.items():
        descriptor = folder.open(file)
        statuses.append(os.fstat(descriptor))
        os.close(descriptor)
        bits = samples * sum(line.samples_per_frame * _BITS.get(line.format, 0) for line in lines)
        if lines[0].offset + int(bits // 8) > statuses[-1].st_size:
            raise ValueError("signal file is shorter than its header says")
    return statuses


def _decode(path: str, segments: tuple[str, ...], parts: list[Header]) -> Any:
    """wfdb's record with its physical signals, once the checksum of every part holds."""
    import wfdb  # half a second and pandas: only where it is needed

    def rdrecord(path: str, **options: bool) -> Any:
        return wfdb.rdrecord(path, physical=False, smooth_frames=False, **options)

    try:
        # Checksums are of the samples as stored: segment by segment, and before a skew shifts them.
        stored = [os.path.join(os.path.dirname(path), segment) for segment in segments] or [path]
        for place, part in zip(stored, parts[-len(stored) :], strict=True):
            if part.samples != 0 and part.signals:
                sums = rdrecord(place, ignore_skew=True).calc_checksum(expanded=True)
                _check_sums(part.signals, np.array(sums))
        record = rdrecord(path)
        if not segments:
            record.adc_gain = [line.gain for line in parts[0].signals]  # of which some may have been put right
        record.dac(expanded=True, inplace=True)  # NaN where a sample is invalid
    except _WrongSumError:
        raise
    except Exception as error:  # wfdb raises whatever it stumbles over
        raise ValueError(f"wfdb cannot read it: {type(error).__name__}") from None
    return record


def names(header: Header) -> tuple[str, ...]:
    """Signal files, and headers of segments, that a header names."""
    segments = [f"{segment}.hea" for segment in header.segments if segment != "~"]
    return (*dict.fromkeys(line.file for line in header.signals), *segments)
