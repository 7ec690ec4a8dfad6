"""One recording on disk -> Recording: 12 leads in order, microvolts at 500 Hz, whatever its format.

Datasets, inspection and embedding read through this and nothing else. A ValueError says why a recording is refused
and names no file and no person, so that it may stand in a dataset.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_tools import formats, headers, hints
from data_tools.crops import LEADS, RATE
from data_tools.folders import Folder
from data_tools.formats import wfdb
from data_tools.hints import NONE, Hints
from data_tools.physical import check_rate, check_size
from data_tools.resample import to_rate

KINDS = f"a WFDB header (.hea), or one of {', '.join(sorted(formats.SUFFIXES))}"
_IN_ORDER = tuple(range(len(LEADS)))


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
    units: tuple[str, ...] = ()  # of its leads, as the file or a hint has them
    gains: tuple[float, ...] = ()  # of a WFDB header: ADC units a unit
    hinted: tuple[str, ...] = ()  # what the file did not say, and flags or a sidecar did
    aside: tuple[str, ...] = ()  # names of columns that are no leads
    beyond: bool = False  # values that 16 bits cannot hold became INVALID


def read(
    root: str, path: str, wrong_gain: float | None = None, resampled: bool = False, told: Hints = NONE
) -> Recording:
    """The recording `root`/`path`, a WFDB header or a file of another format; opens no file outside of `root`.

    Gains of `wrong_gain` are read as 1000/mV; other rates only if `resampled`; `told`: what the files do not say."""
    folder = Folder(root, os.path.dirname(f"{root}/{path}"))
    name = os.path.basename(path)
    try:
        if name.endswith(".hea"):
            return _of_wfdb(wfdb.read(folder, name, wrong_gain, resampled))
        return _of_format(folder, name, resampled, told)
    except ArithmeticError:
        raise ValueError("header holds impossible numbers") from None
    except MemoryError:
        raise ValueError("larger than the memory there is") from None
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise ValueError("a file of the recording is missing") from None
        raise ValueError(f"a file of the recording cannot be read: {os.strerror(error.errno or 0)}") from None


def read_file(path: Path, wrong_gain: float | None = None, told: Hints = NONE) -> Recording:
    """The recording of a path as a user names it; at 500 Hz, whatever its rate."""
    path, told = named(path, told)
    try:
        return read(str(path.parent), path.name, wrong_gain, resampled=True, told=told)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def named(path: Path, told: Hints = NONE) -> tuple[Path, Hints]:
    """-> the file of a recording (of a WFDB record, named with or without a suffix, the header), and what a sidecar
    beside it or anywhere above says of it. ValueError where there is none."""
    asked = path
    if path.suffix.lower() not in formats.SUFFIXES or path.with_suffix(".hea").exists():
        beside = path if path.suffix == ".hea" else path.with_suffix(".hea")
        path = beside if beside.exists() else path.with_name(f"{path.name}.hea")
    if not path.exists() and asked.exists():
        raise ValueError(f"{asked}: is no recording; right would be {KINDS}")
    if not path.exists():
        raise ValueError(f"{asked}: no such file or folder")
    path = path.absolute()
    return path, told.over(hints.beside(Folder("/", str(path.parent)))[0]) if path.suffix != ".hea" else told


def _of_wfdb(found: wfdb.Wfdb) -> Recording:
    digital, lines = found.digital, found.header.signals
    used = [lines[i] for i in digital.leads.signals] if lines else []  # of a record of several segments, none
    signal = twelve(digital.microvolts, digital.leads.columns, digital.rate)
    return Recording(
        signal=signal,
        leads=digital.leads.mask,
        comments=headers.fields(found.header.comments),
        rate=digital.rate,
        gain_corrected=found.gain_corrected,
        stamp=_stamp(*found.statuses),
        names=wfdb.names(found.header),
        stored=(lines[0].file, lines[0].offset) if signal is digital.file else None,
        units=tuple(dict.fromkeys(line.unit for line in used)),
        gains=tuple(dict.fromkeys(line.gain for line in used)),
    )


def _of_format(folder: Folder, name: str, resampled: bool, told: Hints) -> Recording:
    with os.fdopen(folder.open(name), "rb") as file:
        status = os.fstat(file.fileno())
        sidecar, statuses = hints.beside(folder)
        raw = formats.read(file, os.path.splitext(name)[1].lower(), told.over(sidecar))
    check_rate(raw.rate, resampled)
    return Recording(
        signal=twelve(raw.microvolts, raw.leads.columns, raw.rate),
        leads=raw.leads.mask,
        comments=raw.comments,
        rate=raw.rate,
        gain_corrected=False,
        stamp=_stamp(status, *statuses),
        names=(name,),
        stored=None,
        units=raw.units,
        hinted=raw.hinted,
        aside=raw.aside,
        beyond=raw.beyond,
    )


def twelve(microvolts: NDArray[np.int16], columns: tuple[int, ...], rate: float) -> NDArray[np.int16]:
    """[samples, columns], each of which is the lead of that number, at `rate` Hz -> [samples, 12] at 500 Hz."""
    signal = microvolts
    if columns != _IN_ORDER:
        signal = np.zeros((len(microvolts), len(LEADS)), np.int16)
        signal[:, columns] = microvolts
    if rate == RATE:
        return signal
    check_size(int(len(signal) * RATE / rate) * len(LEADS) * 8)
    return to_rate(signal, rate, RATE)


def read_stored(
    root: str, header: str, stored: tuple[str, int], start: int, samples: int
) -> tuple[NDArray[np.int16], int]:
    """-> a part of the recording, as `read` has found it to lie in the file, and the stamp it has now."""
    folder = Folder(root, os.path.dirname(f"{root}/{header}"))
    frame = 2 * len(LEADS)
    descriptor = folder.open(stored[0])
    try:
        stamp = _stamp(os.stat(f"{root}/{header}"), os.fstat(descriptor))
        data = wfdb.read_exactly(descriptor, samples * frame, stored[1] + start * frame)
    finally:
        os.close(descriptor)
    return np.frombuffer(data, "<i2").reshape(samples, len(LEADS)), stamp


def _stamp(*statuses: os.stat_result) -> int:
    return hash(tuple((status.st_size, status.st_mtime_ns) for status in statuses))


def names(root: str, path: str) -> tuple[str, ...]:
    """Signal files, and headers of segments, that a header names, even if they cannot be read."""
    if not path.endswith(".hea"):
        return ()
    folder = Folder(root, os.path.dirname(f"{root}/{path}"))
    try:
        return wfdb.names(headers.parse(folder.read_header(os.path.basename(path))[0]))
    except (ValueError, OSError):
        return ()
