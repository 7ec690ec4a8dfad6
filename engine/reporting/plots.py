"""Plots as SVG, in the colours of the page: a panel is 360 wide, so that a phone shows one of them as it is."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from engine.reporting.markup import tag

COLOURS = 8  # of the page, --c0 to --c7
_TOP, _RIGHT, _BOTTOM = 10.0, 12.0, 34.0
_CHARACTER = 6.2  # of a tick's label
_POINTS = 240  # of a line: more are told apart by nobody

Style = Literal["line", "points", "level", "intervals", "paper"]


@dataclass(frozen=True)
class Series:
    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int | None = 0  # None: as all that have none of their own
    style: Style = "line"
    low: Sequence[float] | None = None  # of a band, or of intervals
    high: Sequence[float] | None = None


class Size(NamedTuple):
    width: float
    height: float


_PANEL, _SCATTER = Size(360, 220), Size(560, 360)


@dataclass(frozen=True)
class Axes:
    """Where the values of a plot lie in it."""

    x: tuple[float, float]
    y: tuple[float, float]
    left: float
    size: Size = _PANEL

    @property
    def end(self) -> float:
        return self.size.width - _RIGHT

    @property
    def bottom(self) -> float:
        return self.size.height - _BOTTOM

    def right(self, x: float) -> float:
        low, high = self.x
        return self.left + (x - low) / (high - low) * (self.end - self.left)

    def down(self, y: float) -> float:
        low, high = self.y
        return self.bottom - (y - low) / (high - low) * (self.bottom - _TOP)

    def place(self, x: float, y: float) -> str:
        return f"{self.right(x):.1f} {self.down(y):.1f}"


def plot(
    title: str,
    series: Sequence[Series],
    *,
    described: str,
    x_label: str = "update",
    x_names: Sequence[str] = (),
    from_zero: bool = False,
    percent: bool = False,
) -> Element:
    """`x_names`: of x = 0, 1, ...; `described`: for who cannot see it."""
    series = [_thinned(one) for one in series]
    y_ticks = _ticks([value for one in series for value in (*one.y, *(one.low or ()), *(one.high or ()))], from_zero)
    labels = _labels(y_ticks, percent)
    last = max(x for one in series for x in one.x)
    x_ticks = list(range(len(x_names))) if x_names else [tick for tick in _ticks([last], True) if tick <= last]
    x_range = (-0.4, len(x_names) - 0.6) if x_names else (0.0, last or 1.0)
    axes = Axes(x_range, (y_ticks[0], y_ticks[-1]), 12 + _CHARACTER * max(map(len, labels)))
    names = x_names or _labels(x_ticks, False)
    return tag(
        "figure",
        tag("figcaption", title),
        tag(
            "svg",
            *_frame(axes, list(zip(x_ticks, names, strict=True)), list(zip(y_ticks, labels, strict=True)), x_label),
            *(_drawn(one, axes) for one in series),
            tag("line", class_="cursor", y1=_TOP, y2=axes.bottom, visibility="hidden"),
            viewBox=f"0 0 {_PANEL.width:g} {_PANEL.height:g}",
            role="img",
            aria_label=f"{title}. {described}",
            data_plot=_for_the_pointer(series, axes, x_label, x_names, percent),
        ),
        class_="plot",
    )


@dataclass(frozen=True)
class Group:
    """Of a scatter."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    colour: int | None  # and shape; None: what is of no group


def scatter(title: str, groups: Sequence[Group], *, described: str, x_label: str, y_label: str) -> Element:
    """Each group in its colour and shape, the first of them lowest."""
    x, y = np.concatenate([one.x for one in groups]), np.concatenate([one.y for one in groups])
    axes = Axes(_padded(x), _padded(y), 24, _SCATTER)
    return tag(
        "figure",
        tag("figcaption", title),
        tag(
            "svg",
            tag("path", d=_box(axes), class_="axis"),
            *(_marks(one, axes) for one in groups),
            tag("text", x_label, x=_SCATTER.width - _RIGHT, y=_SCATTER.height - 12, text_anchor="end"),
            tag("text", y_label, transform=f"translate(14 {_TOP:g}) rotate(-90)", text_anchor="end"),
            viewBox=f"0 0 {_SCATTER.width:g} {_SCATTER.height:g}",
            role="img",
            aria_label=f"{title}. {described}",
        ),
        class_="plot scatter",
    )


# About a point: disc, square, triangle, diamond, cross, and these turned.
_SHAPES = (
    "M{}m-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0 -4.8 0z",
    "M{}m-2.1-2.1h4.2v4.2h-4.2z",
    "M{}m0-2.9l2.6 4.6h-5.2z",
    "M{}m0-3l3 3l-3 3l-3-3z",
    "M{}m-.9-2.7h1.8v1.8h1.8v1.8h-1.8v1.8h-1.8v-1.8h-1.8v-1.8h1.8z",
    "M{}m0 2.9l2.6-4.6h-5.2z",
    "M{}m-2.9 0l4.6-2.6v5.2z",
    "M{}m2.9 0l-4.6-2.6v5.2z",
)


def _marks(group: Group, axes: Axes) -> Element:
    shape = _SHAPES[(group.colour or 0) % len(_SHAPES)]
    d = "".join(shape.format(axes.place(x, y)) for x, y in zip(group.x.tolist(), group.y.tolist(), strict=True))
    return tag("path", d=d, class_=_coloured("mark", group.colour))


def _coloured(what: str, colour: int | None) -> str:
    return what if colour is None else f"{what} c{colour}"


def legend(entries: Iterable[tuple[str, int | None]], *, shapes: bool = False) -> Element:
    """Names and colours, as lines have them, or with `shapes` a scatter's groups; without a colour: the others."""
    return tag("ul", *(tag("li", _swatch(colour, shapes), name) for name, colour in entries), class_="legend")


def _swatch(colour: int | None, shapes: bool) -> Element:
    d = _SHAPES[(colour or 0) % len(_SHAPES)].format("8 6") if shapes else "M1 6h14"
    of = _coloured("mark" if shapes else "line", colour)
    return tag("svg", tag("path", d=d, class_=of), viewBox="0 0 16 12", class_="swatch", aria_hidden="true")


def _thinned(series: Series) -> Series:
    """Means of neighbours, and between which values they lie."""
    if len(series.x) <= _POINTS or series.style in ("intervals", "paper"):
        return series
    parts = np.array_split(np.arange(len(series.x)), _POINTS)
    x, y = np.asarray(series.x, float), np.asarray(series.y, float)
    low, high = ([float(of(y[part])) for part in parts] for of in (np.min, np.max))
    mean_x, mean_y = ([float(values[part].mean()) for part in parts] for values in (x, y))
    thinned = replace(series, x=mean_x, y=mean_y)
    return replace(thinned, low=low, high=high) if series.style == "line" else thinned


def _ticks(values: Sequence[float], from_zero: bool) -> list[float]:
    """Round values around all of them."""
    low, high = min(values), max(values)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-300):
        low, high = (low - abs(low) / 2, high + abs(high) / 2) if low else (-1.0, 1.0)
    return [float(tick) for tick in MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)]


def _labels(ticks: Sequence[float], percent: bool) -> list[str]:
    scale = 100 if percent else 1
    step = (ticks[1] - ticks[0]) * scale
    places = next((n for n in range(7) if abs(step * 10**n - round(step * 10**n)) < 1e-6 * step * 10**n), None)
    largest = max(map(abs, ticks)) * scale
    if places is None or largest >= 1e6:
        return [f"{tick * scale:.3g}{' %' * percent}" for tick in ticks]
    return [f"{tick * scale + 0.0:,.{places}f}{' %' * percent}" for tick in ticks]


def _frame(
    axes: Axes, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]], x_label: str
) -> list[Element]:
    grid = "".join(f"M{axes.left:.1f} {axes.down(y):.1f}H{axes.end}" for y, _ in y_ticks)
    return [
        tag("path", d=grid, class_="grid"),
        tag("path", d=f"M{axes.left:.1f} {axes.bottom}H{axes.end}", class_="axis"),
        *(tag("text", name, x=axes.left - 5, y=axes.down(y) + 4, text_anchor="end") for y, name in y_ticks),
        *(tag("text", name, x=axes.right(x), y=axes.bottom + 14, text_anchor=_anchor(x, axes)) for x, name in x_ticks),
        tag("text", x_label, x=axes.end, y=axes.bottom + 29, text_anchor="end"),
    ]


def _anchor(x: float, axes: Axes) -> str:
    return "end" if math.isclose(x, axes.x[1]) else "middle"


def _drawn(series: Series, axes: Axes) -> Element:
    points = list(zip(series.x, series.y, strict=True))
    parts = []
    if series.low is not None and series.high is not None:
        if series.style == "line":
            there = " ".join(axes.place(*at) for at in zip(series.x, series.high, strict=True))
            back = " ".join(axes.place(*at) for at in reversed(list(zip(series.x, series.low, strict=True))))
            parts.append(tag("polygon", points=f"{there} {back}", class_="band"))
        else:
            ends = zip(series.x, series.low, series.high, strict=True)
            whiskers = "".join(f"M{axes.place(x, low)}V{axes.down(high):.1f}" for x, low, high in ends)
            parts.append(tag("path", d=whiskers, class_="whisker"))
    if series.style != "points" and len(points) > 1:
        parts.append(tag("polyline", points=" ".join(axes.place(*at) for at in points), class_="line"))
    if series.style in ("points", "intervals", "paper") or len(points) == 1:
        places = ((f"{axes.right(x):.1f}", f"{axes.down(y):.1f}") for x, y in points)
        parts += [tag("circle", cx=x, cy=y, r=3, class_="mark") for x, y in places]
    return tag("g", *parts, class_=_coloured(f"series {series.style}", series.colour))


def _for_the_pointer(series: Sequence[Series], axes: Axes, x_label: str, names: Sequence[str], percent: bool) -> str:
    """What page.js tells of the place it points at."""
    said = [
        {"name": one.name, "colour": one.colour, "x": list(map(_short, one.x)), "y": list(map(_short, one.y))}
        for one in series
    ]
    span = [round(axes.left, 1), axes.end]
    what = {"span": span, "x": axes.x, "label": x_label, "names": names, "percent": percent, "series": said}
    return json.dumps(what, separators=(",", ":"))


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _box(axes: Axes) -> str:
    return f"M{axes.left:.1f} {_TOP}H{axes.end}V{axes.bottom}H{axes.left:.1f}z"


def _padded(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    edge = (high - low or 1.0) * 0.04
    return low - edge, high + edge
