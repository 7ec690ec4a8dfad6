"""Figures as people read them."""

import statistics
from collections.abc import Sequence

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


def scaled(values: Sequence[float], unit: str) -> str:
    """Median (least to most), with four digits, in the unit's thousands where it counts bytes or operations."""
    scale, prefix = 1.0, ""
    if unit in ("B/s", "FLOP/s"):
        scale, prefix = next((s, p) for s, p in _SCALES if statistics.median(values) >= s or s == 1.0)
    shown = [f"{_rounded(value / scale)}" for value in (statistics.median(values), min(values), max(values))]
    inner = f" ({shown[1]} to {shown[2]})" if len(values) > 1 else ""
    return f"{shown[0]}{inner} {prefix}{unit}"


def _rounded(value: float) -> str:
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    return f"{value:,.{digits}f}"
