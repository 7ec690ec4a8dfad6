"""CSV: a column a lead, named in the first line, perhaps with its unit: `II`, `II (mV)`; `time (s)` tells the rate."""

import csv
import os
import re
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from data_tools.formats.library import reading
from data_tools.formats.raw import Raw
from data_tools.physical import LEAD, Refusal, check_size, lead_name

BEGINNING = 64 << 10  # bytes, of which the first lines are
_MOST_COLUMNS = 1000
_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3}
_NULLS = ["", "NaN", "nan", "NA", "NULL", "null"]


class _Layout(NamedTuple):
    separator: str
    decimal_comma: bool
    names: tuple[str, ...] | None  # None: the first line is one of samples
    columns: int


def is_recording(beginning: bytes) -> bool:
    """Whether what begins so is a table of samples, not of something else: its second line is numbers alone."""
    return _layout(beginning) is not None


def read(file: BinaryIO, key: str | None) -> Raw:
    layout = _layout(file.read(BEGINNING))
    if layout is None:
        raise Refusal("is no table of numbers")
    check_size(os.fstat(file.fileno()).st_size // 2 * 8)  # a number has a digit and a separator at least
    file.seek(0)
    with reading("pyarrow"):
        table = _parse(file, layout)
    signal = np.stack([column.to_numpy() for column in table.columns], 1)
    if layout.names is None:
        return Raw(signal)
    split = [_name_and_unit(name) for name in layout.names]
    rate = _rate(signal, split)
    used = [i for i, (name, _) in enumerate(split) if name.upper() in LEAD]
    used = used or [i for i, (name, _) in enumerate(split) if name.lower() != "time"]
    units = tuple(split[i][1] for i in used)
    return Raw(signal[:, used], tuple(split[i][0] for i in used), units, rate)


def _layout(beginning: bytes) -> _Layout | None:
    lines = beginning.decode("utf-8-sig", "replace").splitlines()
    lines = [line for line in lines[: -1 if len(beginning) == BEGINNING else None] if line.strip()][:2]
    if not lines:
        return None
    separator = max(";\t,", key=lines[0].count) if any(s in lines[0] for s in ";\t,") else ","
    if separator == "," and ";" in lines[0]:
        separator = ";"
    comma = separator != "," and "," in lines[-1]
    rows = [next(csv.reader([line], delimiter=separator)) for line in lines]
    samples = [[value.replace(",", ".") if comma else value for value in row] for row in rows]
    if not 0 < len(rows[0]) <= _MOST_COLUMNS or len(rows[0]) != len(rows[-1]) or not _numbers(samples[-1]):
        return None
    named = not _numbers(samples[0])
    return _Layout(separator, comma, tuple(rows[0]) if named else None, len(rows[0]))


def _numbers(values: list[str]) -> bool:
    try:
        found = [float(value) for value in values if value.strip() not in _NULLS]
    except ValueError:
        return False
    return bool(found) or len(values) > 1


def _parse(file: BinaryIO, layout: _Layout) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow

    names = [str(index) for index in range(layout.columns)]
    return arrow.read_csv(
        file,
        arrow.ReadOptions(use_threads=False, column_names=names, skip_rows=0 if layout.names is None else 1),
        arrow.ParseOptions(delimiter=layout.separator),
        arrow.ConvertOptions(
            column_types=dict.fromkeys(names, pa.float64()),
            null_values=_NULLS,
            decimal_point="," if layout.decimal_comma else ".",
        ),
    )


_WITH_UNIT = re.compile(r"(.*?)\s*[\[(]\s*([^\])]*?)\s*[\])]")


def _name_and_unit(text: str) -> tuple[str, str | None]:
    match = _WITH_UNIT.fullmatch(text.strip())
    name, unit = (match[1], match[2]) if match else (text.strip(), None)
    return lead_name(name), unit or None


def _rate(signal: Any, columns: list[tuple[str, str | None]]) -> float | None:
    """From a column of times in a named unit, if its steps are even."""
    for index, (name, unit) in enumerate(columns):
        if name.lower() in ("time", "t") and (unit or "").lower() in _SECONDS and len(signal) > 1:
            times = signal[:, index] * _SECONDS[(unit or "").lower()]
            step = (times[-1] - times[0]) / (len(times) - 1)
            if not step > 0 or not (np.abs(np.diff(times) / step - 1) < 0.5).all():
                raise Refusal("its times are not evenly spaced")
            return float(np.round(1 / step, 3))
    return None
