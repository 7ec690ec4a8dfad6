"""The 12-lead sheet as cardiologists lay it out: 25 mm/s, 10 mm/mV, three rows of four leads, and lead II below."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_tools.crops import INVALID, LEADS, RATE

_SPEED, _GAIN = 25.0, 10.0  # mm/s, mm/mV
_COLUMNS = (("I", "II", "III"), ("aVR", "aVL", "aVF"), ("V1", "V2", "V3"), ("V4", "V5", "V6"))
_COLUMN_SECONDS = 2.5
_RHYTHM = "II"
_ROW, _LEFT, _RIGHT, _TOP, _BOTTOM = 35.0, 15.0, 5.0, 12.0, 15.0  # mm
_PULSE = 5.0  # mm, 0.2 s of 1 mV
_DPI = 200


def save(signal: NDArray[np.int16], leads: int, path: Path, title: str) -> None:
    """Of the first ten seconds; a shorter recording shows its first 2.5 s in each column."""
    try:
        import matplotlib.figure
    except ImportError:
        raise ValueError("--plot needs matplotlib: pip install 'leadwise[formats]'") from None
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise ValueError(f"--plot {path}: ends with none of .png, .pdf and .svg")
    width = _LEFT + len(_COLUMNS) * _COLUMN_SECONDS * _SPEED + _RIGHT
    height = _TOP + 4 * _ROW + _BOTTOM
    figure = matplotlib.figure.Figure(figsize=(width / 25.4, height / 25.4), dpi=_DPI)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    axes.axis("off")
    _grid(axes, width, height)
    millivolts = np.where(signal == INVALID, np.nan, signal / 1e3)
    whole = len(signal) >= len(_COLUMNS) * _COLUMN_SECONDS * RATE
    for row in range(3):
        baseline = height - _TOP - (row + 0.5) * _ROW
        _pulse(axes, baseline)
        for column, names in enumerate(_COLUMNS):
            start = round(column * _COLUMN_SECONDS * RATE) if whole else 0
            part = millivolts[start : start + round(_COLUMN_SECONDS * RATE)]
            _trace(axes, part, leads, names[row], _LEFT + column * _COLUMN_SECONDS * _SPEED, baseline)
    baseline = height - _TOP - 3.5 * _ROW
    _pulse(axes, baseline)
    _trace(axes, millivolts[: 4 * round(_COLUMN_SECONDS * RATE)], leads, _RHYTHM, _LEFT, baseline)
    axes.text(_LEFT, height - 7, title, fontsize=10)
    note = "" if whole else "   each column: the first 2.5 s"
    axes.text(_LEFT, 4, f"25 mm/s   10 mm/mV{note}", fontsize=9)
    figure.savefig(path)


def _grid(axes: Any, width: float, height: float) -> None:
    """Lines every millimetre, bolder ones every five."""
    for step, line in ((1, 0.15), (5, 0.5)):
        axes.vlines(np.arange(0, width + 0.1, step), 0, height, color="#e8a0a0", linewidth=line)
        axes.hlines(np.arange(0, height + 0.1, step), 0, width, color="#e8a0a0", linewidth=line)


def _pulse(axes: Any, baseline: float) -> None:
    x = np.array([0, 1, 1, 1 + _PULSE, 1 + _PULSE, 2 + _PULSE]) + _LEFT - 3 - _PULSE
    axes.plot(x, baseline + _GAIN * np.array([0, 0, 1, 1, 0, 0]), color="black", linewidth=0.7)


def _trace(axes: Any, millivolts: NDArray[np.float64], leads: int, name: str, x: float, baseline: float) -> None:
    index = LEADS.index(name)
    there = leads >> index & 1
    axes.text(x + 1, baseline + 12, name if there else f"{name} (not recorded)", fontsize=9, weight="bold")
    if there and len(millivolts):
        times = x + np.arange(len(millivolts)) / RATE * _SPEED
        axes.plot(times, baseline + _GAIN * millivolts[:, index], color="black", linewidth=0.7, clip_on=True)
