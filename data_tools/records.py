"""One WFDB recording on disk -> Recording: 12 leads in order, microvolts at 500 Hz, verified.

The challenge's .mat and plain format 16 are read here, a hundred times faster than through wfdb and checked against
it in the tests; every other form goes through wfdb. A ValueError says why a recording is refused and names no file
and no person, so that it may stand in a dataset.
"""

import errno
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_tools import headers
from data_tools.crops import INVALID, LEADS, RATE, column_sums
from data_tools.folders import Folder
from data_tools.headers import Header, SignalLine
from data_tools.resample import to_rate

_LEAD = {name.upper(): index for index, name in enumerate(LEADS)}
_PER_MILLIVOLT = {"mv": 1.0, "uv": 1e3, "\u00b5v": 1e3, "\u03bcv": 1e3, "v": 1e-3, "nv": 1e6}  # units in 1 mV
_BITS = {8: 8, 16: 16, 24: 24, 32: 32, 61: 16, 80: 8, 160: 16, 212: 12, 310: 32 / 3, 311: 32 / 3}  # a sample on disk
_RATES = (50, 50_000)  # Hz, what is resampled; neither an ECG nor a number to allocate by, beyond them
_DECODED_LIMIT = 4 << 30  # bytes: the compressed formats 508 to 524 can claim any length


@dataclass(slots=True)
class Recording:
    signal: NDArray[np.int16]  # [samples, 12] uV at 500 Hz; INVALID where a sample is, absent leads 0
    leads: int  # bit i: lead i is there
    comments: dict[str, str]
    rate: float  # before resampling
    gain_corrected: bool
    stamp: int  # another one once a file of the recording has changed
    names: tuple[str, ...]  # of its signal files, and of the headers of its segments
    stored: tuple[str, int] | None  # file and byte where `signal` lies just as it is; None: it is not so


class _Leads(NamedTuple):
    signals: tuple[int, ...]  # which signals of the file are leads
    columns: tuple[int, ...]  # which lead each of them is
    mask: int  # bit i: lead i is there


class _Digital(NamedTuple):
    microvolts: NDArray[np.int16]  # [samples, leads]
    leads: _Leads
    rate: float
    statuses: list[os.stat_result]
    file: NDArray[np.int16] | None = None  # the samples as they lie in the file


_MICROVOLTS = {(1000.0, "mV", 0), (1000.0, "mv", 0)}  # gain, unit and baseline of samples that are microvolts
_IN_ORDER = tuple(range(len(LEADS)))


def read(root: str, header: str, wrong_gain: float | None = None, resampled: bool = False) -> Recording:
    """The recording of `root`/`header`; gains of `wrong_gain` are read as 1000/mV; other rates only if `resampled`."""
    folder = Folder(root, os.path.dirname(f"{root}/{header}"))
    name = os.path.basename(header)
    try:
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
    except ArithmeticError:
        raise ValueError("header holds impossible numbers") from None
    except MemoryError:
        raise ValueError("larger than the memory there is") from None
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise ValueError("a file of the recording is missing") from None
        raise ValueError(f"a file of the recording cannot be read: {os.strerror(error.errno or 0)}") from None
    signal = digital.microvolts
    if digital.leads.columns != _IN_ORDER:
        signal = np.zeros((len(signal), len(LEADS)), np.int16)
        signal[:, digital.leads.columns] = digital.microvolts
    if digital.rate != RATE:
        signal = to_rate(signal, digital.rate, RATE)
    return Recording(
        signal=signal,
        leads=digital.leads.mask,
        comments=headers.fields(parsed.comments),
        rate=digital.rate,
        gain_corrected=corrected,
        stamp=_stamp(status, *digital.statuses),
        names=_names(parsed),
        stored=(parsed.signals[0].file, parsed.signals[0].offset) if signal is digital.file else None,
    )


def _is_plain(signals: tuple[SignalLine, ...]) -> bool:
    """All in one file, frame by frame, in 16 bits."""
    places = {line[:5] for line in signals}  # file, format, samples a frame, skew, offset
    return len(places) == 1 and signals[0][1:4] == (16, 1, 0)


def _read_plain(folder: Folder, header: Header, resampled: bool) -> _Digital:
    signals = header.signals
    leads = _leads(tuple([(line.name, line.unit) for line in signals]))
    _check_rate(header.rate, resampled)
    frame = 2 * len(signals)  # bytes
    descriptor = folder.open(signals[0].file)
    try:
        status = os.fstat(descriptor)
        available = (status.st_size - signals[0].offset) // frame
        samples = available if header.samples is None else header.samples
        if samples > available:
            raise ValueError("signal file is shorter than its header says")
        if samples * frame > _DECODED_LIMIT:
            raise ValueError("larger than 4 GiB once decoded")
        data = _read_exactly(descriptor, samples * frame, signals[0].offset)
    finally:
        os.close(descriptor)
    digital = np.frombuffer(data, "<i2").reshape(samples, len(signals))
    _check_sums(signals, column_sums(digital))
    of_leads = digital[:, leads.signals] if len(leads.signals) < len(signals) else digital
    microvolts = _to_microvolts(of_leads, [signals[i] for i in leads.signals])
    return _Digital(microvolts, leads, header.rate, [status], file=digital)


def _read_exactly(descriptor: int, count: int, offset: int) -> bytes:
    data = os.pread(descriptor, count, offset)  # Linux reads at most 2 GiB at once
    while len(data) < count:
        more = os.pread(descriptor, count - len(data), offset + len(data))
        if not more:
            raise ValueError("signal file is shorter than its header says")
        data += more
    return data


@lru_cache(256)
def _leads(names_and_units: tuple[tuple[str, str], ...]) -> _Leads:
    found = [
        (index, _LEAD[name.upper()])
        for index, (name, unit) in enumerate(names_and_units)
        if name.upper() in _LEAD and unit.lower() in _PER_MILLIVOLT
    ]
    if not found:
        raise ValueError("none of the twelve leads, in a unit of voltage")
    used, columns = zip(*found, strict=True)
    if len(set(columns)) < len(columns):
        raise ValueError("a lead stands there twice")
    return _Leads(used, columns, sum(1 << lead for lead in columns))


def _check_rate(rate: float, resampled: bool) -> None:
    if rate != RATE and not (resampled and _RATES[0] <= rate <= _RATES[1]):
        raise ValueError(f"not sampled at {RATE} Hz: {rate:g} Hz")


class _WrongSumError(ValueError):
    pass


def _check_sums(signals: tuple[SignalLine, ...], sums: NDArray[Any]) -> None:
    wrong = [
        line.name
        for line, found in zip(signals, sums.tolist(), strict=True)
        if line.checksum is not None and (line.checksum - found) & 0xFFFF
    ]
    if wrong:
        leads = [name for name in wrong if name.upper() in _LEAD]  # other names may be anybody's
        raise _WrongSumError(f"checksum does not hold: {', '.join(leads) or 'a signal that is no lead'}")


def _to_microvolts(digital: NDArray[np.int16], lines: list[SignalLine]) -> NDArray[np.int16]:
    scales = {(line.gain, line.unit, line.baseline) for line in lines}
    if scales <= _MICROVOLTS:
        return digital
    gains = np.array([line.gain * _PER_MILLIVOLT[line.unit.lower()] for line in lines])  # ADC units per mV
    with np.errstate(all="ignore"):  # a gain may be anything; what becomes of it is checked
        physical = (digital - np.array([line.baseline for line in lines], float)) * (1e3 / gains)
    physical[digital == INVALID] = np.nan
    return to_int16(physical)


def to_int16(microvolts: NDArray[np.float64]) -> NDArray[np.int16]:
    """NaN, and what 16 bits cannot hold, becomes INVALID."""
    rounded = np.rint(microvolts)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(rounded) < -INVALID, rounded, INVALID).astype(np.int16)


def _read_through_wfdb(folder: Folder, name: str, header: Header, resampled: bool) -> _Digital:
    """All the forms of WFDB; leads of several samples a frame keep their own rate."""
    segments = tuple(segment for segment in header.segments if segment != "~")  # "~" is a gap
    parts = [header, *(_segment_header(folder, segment) for segment in segments)]
    statuses = [status for part in parts for status in _check_sizes(folder, part)]
    if max(header.samples or 0, sum(part.samples or 0 for part in parts)) * len(LEADS) * 8 > _DECODED_LIMIT:
        raise ValueError("larger than 4 GiB once decoded")
    if not header.segments:  # refuse before decoding what can be refused
        leads = _leads(tuple((line.name, line.unit) for line in header.signals))
        _check_rate(header.rate * header.signals[leads.signals[0]].samples_per_frame, resampled)
    record = _decode(f"{folder.path}/{name.removesuffix('.hea')}", segments, parts)
    leads = _leads(tuple((name or "", unit or "mV") for name, unit in zip(record.sig_name, record.units, strict=True)))
    per_frame = {record.samps_per_frame[i] for i in leads.signals}
    if len(per_frame) > 1:
        raise ValueError("leads are sampled at different rates")
    rate = record.fs * per_frame.pop()
    _check_rate(rate, resampled)
    physical = [record.e_p_signal[i] * (1e3 / _PER_MILLIVOLT[record.units[i].lower()]) for i in leads.signals]
    return _Digital(to_int16(np.stack(physical, 1)), leads, rate, statuses)


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


def read_stored(
    root: str, header: str, stored: tuple[str, int], start: int, samples: int
) -> tuple[NDArray[np.int16], int]:
    """-> a part of the recording, as `read` has found it to lie in the file, and the stamp it has now."""
    folder = Folder(root, os.path.dirname(f"{root}/{header}"))
    frame = 2 * len(LEADS)
    descriptor = folder.open(stored[0])
    try:
        stamp = _stamp(os.stat(f"{root}/{header}"), os.fstat(descriptor))
        data = _read_exactly(descriptor, samples * frame, stored[1] + start * frame)
    finally:
        os.close(descriptor)
    return np.frombuffer(data, "<i2").reshape(samples, len(LEADS)), stamp


def _stamp(*statuses: os.stat_result) -> int:
    return hash(tuple((status.st_size, status.st_mtime_ns) for status in statuses))


def names(root: str, header: str) -> tuple[str, ...]:
    """Signal files, and headers of segments, that a header names, even if they cannot be read."""
    folder = Folder(root, os.path.dirname(f"{root}/{header}"))
    try:
        return _names(headers.parse(folder.read_header(os.path.basename(header))[0]))
    except (ValueError, OSError):
        return ()


def _names(header: Header) -> tuple[str, ...]:
    segments = [f"{segment}.hea" for segment in header.segments if segment != "~"]
    return (*dict.fromkeys(line.file for line in header.signals), *segments)
