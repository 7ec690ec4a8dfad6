"""What every reader hands over: as much as its file says."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_tools.hints import SIDECAR, Hints
from data_tools.physical import (
    LEAD,
    Leads,
    Refusal,
    beyond_16_bits,
    check_size,
    lead_name,
    leads_among,
    microvolts_in,
    to_int16,
)

# How arrays of HDF5 and MATLAB files are described by what stands beside them.
_RATE = ("fs", "sampling_rate", "sampling_frequency", "sample_rate", "curr_sample_rate")
_UNIT = ("unit", "units")
_LEADS = ("leads", "lead_names", "channels", "channel_names", "sig_name")
_ABOUT = ("age", "sex")


class Raw(NamedTuple):
    signal: NDArray[Any]  # [samples, channels], NaN where a sample is invalid; or transposed, if `either_way`
    names: tuple[str, ...] | None = None  # of the channels; None: the file does not say
    units: tuple[str | None, ...] | None = None
    rate: float | None = None
    comments: dict[str, str] = {}  # noqa: RUF012 (never changed)
    either_way: bool = False  # only the number of leads can tell samples from channels
    aside: tuple[str, ...] = ()  # names of what else is there


class Read(NamedTuple):
    microvolts: NDArray[np.int16]  # [samples, leads]
    leads: Leads
    rate: float
    units: tuple[str, ...]
    comments: dict[str, str]
    hinted: tuple[str, ...]  # the hints that were of use
    aside: tuple[str, ...]
    beyond: bool  # 16 bits: some samples are


def check_array(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> None:
    """Of an array in a file, before it is read."""
    if dtype.kind not in "iuf":
        raise Refusal("holds no numbers")
    if len(shape) == 3:
        raise Refusal("holds several recordings in one array; give each a file of its own")
    if len(shape) not in (1, 2):
        raise Refusal("holds no array of samples and leads")
    check_size(math.prod(shape) * max(8, dtype.itemsize))


def choose(shapes: Mapping[str, tuple[int, ...]], key: str | None) -> str:
    """Which of the arrays of a file is the recording."""
    if key is not None:
        if key not in shapes:
            raise Refusal("holds no array of numbers of the name that --key gives")
        return key
    tables = [name for name, shape in shapes.items() if len(shape) > 1 and min(shape) > 0]
    found = [name for name in tables if min(shapes[name]) > 1] or tables or list(shapes)
    if len(found) != 1:
        raise Refusal("holds no array of numbers" if not found else "holds several arrays; give --key")
    return found[0]


def wanted_fields(name: str) -> bool:
    return name.lower() in (*_RATE, *_UNIT, *_LEADS, *_ABOUT)


def described(signal: NDArray[Any], fields: Mapping[str, Any]) -> Raw:
    """An array, and the attributes or variables beside it for which `wanted_fields`."""
    by_name = {name.lower(): value for name, value in fields.items()}

    def first(names: tuple[str, ...]) -> tuple[str, ...]:
        return next((texts for name in names if (texts := _texts(by_name.get(name)))), ())

    rate, units, leads = first(_RATE), first(_UNIT), first(_LEADS)
    if len(leads) == 1:
        leads = tuple(leads[0].replace(";", ",").split(","))
    return Raw(
        signal,
        names=leads or None,
        units=units or None,
        rate=_number(rate[0]) if len(rate) == 1 else None,
        comments={name: texts[0] for name in _ABOUT if len(texts := _texts(by_name.get(name))) == 1},
        either_way=True,
    )


def _texts(value: Any) -> tuple[str, ...]:
    """`"mV"`, `b"mV"`, an array of either, MATLAB's cells of them, numbers: each as text."""
    if isinstance(value, np.ndarray):
        return tuple(text for item in value.flat for text in _texts(item))
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return (str(value).strip(),) if value is not None else ()


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def complete(raw: Raw, told: Hints) -> Read:
    """With what the file does not say from `told`; never guessed."""
    names = tuple(lead_name(name) for name in raw.names or ())
    units = raw.units or (None,)
    missing = {
        "leads": not any(name.upper() in LEAD for name in names),
        "rate": raw.rate is None,
        "unit": None in units,
    }
    hinted = tuple(name for name, is_missing in missing.items() if is_missing)
    unknown = [name for name in hinted if getattr(told, name) is None]
    if unknown:
        flags = ", ".join(f"--{name}" for name in unknown)
        raise Refusal(f"its file does not say the {', '.join(unknown)}; give {flags}, or a {SIDECAR}")
    names = told.leads if told.leads and missing["leads"] else names
    rate = raw.rate if raw.rate is not None else told.rate
    units = tuple(unit if unit is not None else told.unit for unit in units)
    signal = _oriented(raw, len(names))
    units = units * len(names) if len(units) == 1 else units
    if len(units) != len(names):
        raise Refusal("has another number of units than of channels")
    scales = [microvolts_in(unit or "") for unit in units]
    leads = leads_among(tuple((name, "uV" if scale else "") for name, scale in zip(names, scales, strict=True)))
    with np.errstate(all="ignore"):  # a value may be anything; what becomes of it is checked
        microvolts = signal[:, leads.signals] * np.array([scales[i] for i in leads.signals], np.float64)
    of_leads = tuple(dict.fromkeys(units[i] or "" for i in leads.signals))
    beyond = beyond_16_bits(microvolts)
    return Read(to_int16(microvolts), leads, rate or 0.0, of_leads, raw.comments, hinted, raw.aside, beyond)


def _oriented(raw: Raw, channels: int) -> NDArray[Any]:
    """[samples, channels]"""
    signal = raw.signal if raw.signal.ndim == 2 else raw.signal[:, None]
    rows, columns = signal.shape
    if not raw.either_way or signal.shape == (1, 1):
        ways = [columns == channels, False]
    else:
        ways = [columns == channels, rows == channels]
    if all(ways):
        raise Refusal("has as many samples as leads; which is which cannot be told")
    if not any(ways):
        raise Refusal("has another number of channels than there are names of leads")
    return signal if ways[0] else signal.T
