"""CSV: a column a lead, named in the first line, perhaps with its unit: `II`, `II (mV)`; `time (s)` tells the rate."""

import codecs
import csv
import os
import re
from itertools import takewhile
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_tools.formats.library import reading
from data_tools.formats.raw import Raw
from data_tools.physical import LEAD, PER_MILLIVOLT, Refusal, check_size, lead_name

BEGINNING = 64 << 10  # bytes, of which the first lines are
_MOST_COLUMNS = 1000
_LINES = 50  # that are looked at for decimal commas: the first samples may all be 0
_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6}
_NULLS = ["", "NaN", "nan", "NA", "N/A", "NULL", "null"]


class _Column(NamedTuple):
    name: str
    unit: str | None = None

    @property
    def is_lead(self) -> bool:
        return self.name.upper() in LEAD

    @property
    def is_time(self) -> bool:
        return self.name.lower() in ("time", "t")


class _Layout(NamedTuple):
    encoding: str
    separator: str
    skipped: int  # lines, before the first one of values
    columns: list[_Column]
    named: bool  # else the first line is one of values
    first: list[str]  # line of values
    decimal_comma: bool

    @property
    def has_leads(self) -> bool:
        return self.named and any(column.is_lead for column in self.columns)

    @property
    def has_numbers_alone(self) -> bool:
        return len(self.columns) == len(self.first) and all(map(_is_number, self.first))


def is_recording(beginning: bytes) -> bool:
    """Whether what begins so is a table of samples, not of something else: it names leads, or holds numbers alone.
    One that is broken is one too: nobody is to miss it."""
    try:
        layout = _layout(beginning)
    except Refusal:
        return True
    return layout.has_leads or not layout.named or (layout.has_numbers_alone and len(layout.columns) <= _MOST_COLUMNS)


def read(file: BinaryIO, key: str | None) -> Raw:
    layout = _layout(file.read(BEGINNING))
    columns = layout.columns
    if not (layout.has_leads or layout.has_numbers_alone):
        raise Refusal("is no table of numbers")
    if len(columns) > _MOST_COLUMNS:
        raise Refusal("has more than 1,000 columns; a lead should be a column, not a line")
    check_size(os.fstat(file.fileno()).st_size // 2 * 8)  # a number has a digit and a separator at least
    times = [i for i, value in enumerate(layout.first) if i < len(columns) and _is_clock(columns[i], value)][:1]
    used = [i for i, column in enumerate(columns) if column.is_lead or not (layout.has_leads or column.is_time)]
    file.seek(0)
    values = _parse(file, layout, [*times, *used])
    if not layout.named:
        return Raw(values)
    return Raw(
        values[:, len(times) :],
        names=tuple(columns[i].name for i in used),
        units=tuple(columns[i].unit for i in used),
        rate=_rate(values[:, 0] * _SECONDS[(columns[times[0]].unit or "").lower()]) if times else None,
        aside=tuple(column.name for i, column in enumerate(columns) if i not in (*times, *used)),
    )


def _layout(beginning: bytes) -> _Layout:
    text, encoding = _decoded(beginning)
    lines = re.split(r"\r\n|\r|\n", text)[: -1 if len(beginning) == BEGINNING else None]
    filled = [number for number, line in enumerate(lines) if line.strip()]
    comments = list(takewhile(lambda number: lines[number].startswith("#"), filled))
    below = filled[len(comments) :]
    if not below:
        raise Refusal("is empty, or its first line is too long: a lead should be a column, not a line")
    samples = [lines[number] for number in below]
    found = _of_lines(encoding, below[0], samples[0], samples)
    if found.named:
        return _of_lines(encoding, below[0] + 1, samples[0], samples[1:])
    if comments:  # numpy.savetxt begins the line of names like that
        with_names = _of_lines(encoding, below[0], lines[comments[-1]].lstrip("# "), samples)
        return with_names if with_names.has_leads else found
    return found


def _of_lines(encoding: str, skipped: int, head: str, samples: list[str]) -> _Layout:
    separator = next((mark for mark in ";\t" if mark in head), ",")
    names = next(csv.reader([head], delimiter=separator))
    rows = list(csv.reader(samples[:_LINES], delimiter=separator)) or [[]]
    commas = any("," in value and _is_number(value) for row in rows for value in row)
    named = not all(map(_is_number, names))
    return _Layout(encoding, separator, skipped, [_column(name) for name in names], named, rows[0], commas)


def _decoded(beginning: bytes) -> tuple[str, str]:
    """-> text, and the encoding for the numbers. Windows writes UTF-16, or a code page with the µ of Latin-1."""
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return codecs.getincrementaldecoder("utf-16")("replace").decode(beginning), "utf-16"
    if b"\0" in beginning:
        raise Refusal("is no text in UTF-8")
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(beginning), "utf8"
    except UnicodeDecodeError:
        return beginning.decode("latin-1"), "utf8"


def _is_number(text: str) -> bool:
    try:
        return text.strip() in _NULLS or float(text.replace(",", ".")) is not None
    except ValueError:
        return False


def _column(text: str) -> _Column:
    """`II (mV)`, `II [mV]`; of leads and times also `II_mV`."""
    match = re.fullmatch(r"(.*?)\s*[\[(]\s*([^\])]*?)\s*[\])]", text.strip())
    if match:
        return _Column(lead_name(match[1]), match[2] or None)
    stem, _, unit = re.sub(r"\s", "_", text.strip()).rpartition("_")
    column = _Column(lead_name(stem), unit)
    if (column.is_lead and unit.lower() in PER_MILLIVOLT) or (column.is_time and unit.lower() in _SECONDS):
        return column
    return _Column(lead_name(text))


def _is_clock(column: _Column, value: str) -> bool:
    return column.is_time and (column.unit or "").lower() in _SECONDS and _is_number(value)


def _parse(file: BinaryIO, layout: _Layout, wanted: list[int]) -> NDArray[np.float64]:
    """[samples, wanted]; no other column need be numbers."""
    with reading("pyarrow"):
        import pyarrow as pa
        from pyarrow import csv as arrow

        names = [str(index) for index in range(len(layout.columns))]
        used = [names[index] for index in wanted]
        try:
            table = arrow.read_csv(
                file,
                arrow.ReadOptions(
                    use_threads=False, column_names=names, skip_rows=layout.skipped, encoding=layout.encoding
                ),
                arrow.ParseOptions(delimiter=layout.separator),
                arrow.ConvertOptions(
                    column_types=dict.fromkeys(used, pa.float64()),
                    include_columns=used,
                    null_values=_NULLS,
                    decimal_point="," if layout.decimal_comma else ".",
                ),
            )
        except pa.ArrowInvalid as error:
            raise Refusal(_reason(str(error), layout.separator)) from None
        return np.stack([column.to_numpy() for column in table.columns], 1)


def _reason(error: str, separator: str) -> str:
    """What pyarrow says without the values that it quotes."""
    if found := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", error):
        row, expected, values = map(int, found.groups())
        commas = " (decimal commas need another separator)" if separator == "," and values > expected else ""
        return f"holds a row with another number of values: row {row} has {values}, not {expected}{commas}"
    if found := re.search(r"CSV column #(\d+): Row #(\d+): CSV conversion error", error):
        return f"holds what is no number: row {found[2]}, column {int(found[1]) + 1}"
    return "pyarrow cannot read it"


def _rate(times: Any) -> float | None:
    """If the steps of `times`, in seconds, are even; None where they are rounded too coarsely to tell."""
    if len(times) < 2:
        return None
    step = (times[-1] - times[0]) / (len(times) - 1)
    steps = np.diff(times)
    if step > 0 and (np.abs(steps / step - 1) < 0.5).all():
        return float(np.round(1 / step, 3))
    even = times[0] + step * np.arange(len(times))
    if step > 0 and not steps.all() and (np.abs(times - even) <= steps[steps > 0].min() * 1.001).all():
        return None
    raise Refusal("its times are not evenly spaced")
