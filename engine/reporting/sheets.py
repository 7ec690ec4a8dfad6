"""ECG paper as SVG: 25 mm/s and 10 mm/mV, a square of 5 mm. One unit is 0.1 mm, which is 4 ms, or 0.01 mV."""

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from engine.reporting.markup import tag

_EVERY = 2  # samples: a unit is two of them
_MV = 100  # units
_SQUARE = 50
_ROW = 4 * _SQUARE  # 2 mV
_GAP = _SQUARE  # between columns


class Trace(NamedTuple):
    name: str
    signal: NDArray[np.float32]  # mV [SEGMENT]
    absent: bool = False


def sheet(columns: Sequence[Sequence[Trace]], described: str) -> Element:
    """Leads of a column one below another. It has no margin: what is beyond it is cut off, as on paper."""
    length = len(columns[0][0].signal) // _EVERY
    width = _GAP + len(columns) * (length + _GAP)
    height = (max(map(len, columns)) + 0.5) * _ROW
    parts = [tag("path", d=_lines(width, height), class_="paper-lines")]
    for number, column in enumerate(columns):
        left = _GAP + number * (length + _GAP)
        for row, trace in enumerate(column):
            middle = round((row + 0.75) * _ROW)
            look = "absent" if trace.absent else None
            parts.append(tag("path", d=_course(trace.signal, left, middle), class_=f"trace {look or ''}".strip()))
            parts.append(tag("text", trace.name, x=left, y=middle - 0.3 * _ROW, class_=look))
    return tag(
        "div",
        tag("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=described),
        class_="sheet",
    )


def _lines(width: float, height: float) -> str:
    across = "".join(f"M0 {y}H{width:g}" for y in range(_SQUARE, int(height), _SQUARE))
    return across + "".join(f"M{x} 0V{height:g}" for x in range(_SQUARE, int(width), _SQUARE))


def _course(signal: NDArray[np.float32], left: int, middle: int) -> str:
    """A step of one unit to the right, each time: only the height has to be said."""
    heights = np.rint(-signal[::_EVERY].astype(np.float64) * _MV).astype(int)
    steps = " ".join(f"1 {step}" if step >= 0 else f"1{step}" for step in np.diff(heights).tolist())
    return f"M{left} {middle + heights[0]}l{steps}"
