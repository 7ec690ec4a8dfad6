"""Where things stand in a plot, on ECG paper and in a table."""

import json
import re

import numpy as np
import pytest

from engine.reporting.markup import table, tag, text
from engine.reporting.plots import Group, Series, plot, scatter
from engine.reporting.sheets import Trace, sheet


def numbers(said: str) -> np.ndarray:
    return np.array(re.findall(r"-?\d+\.?\d*", said), float).reshape(-1, 2)


def test_a_line_runs_through_its_values() -> None:
    drawn = plot("loss", [Series("a", [0, 10, 40], [1.0, 3.0, 2.0])], described="", from_zero=True)
    places = numbers(drawn.find(".//polyline").get("points"))  # type: ignore[union-attr, arg-type]
    x, y = places.T
    assert (x[1] - x[0]) / (x[2] - x[0]) == pytest.approx(0.25, abs=1e-3)
    assert (y[2] - y[0]) / (y[1] - y[0]) == pytest.approx(0.5, abs=1e-2)
    assert y[1] < y[0]  # up is less
    labels = [one.text for one in drawn.iter("text")]
    assert labels[:5] == ["0", "1", "2", "3", "0"]
    assert labels[-1] == "update"


@pytest.mark.parametrize(
    ("values", "percent", "wanted"),
    [
        ([0.001, 0.004], False, ["0.000", "0.001", "0.002", "0.003", "0.004"]),
        ([0.0, 0.02], True, ["0.0 %", "0.5 %", "1.0 %", "1.5 %", "2.0 %"]),
        ([7.0, 7.0], False, ["0", "2", "4", "6", "8"]),
        ([0.0, 0.0], False, ["-1.0", "-0.5", "0.0", "0.5", "1.0"]),
        ([0.0, 40_000.0], False, ["0", "10,000", "20,000", "30,000", "40,000"]),
    ],
)
def test_ticks_are_round_and_around_all_values(values: list[float], percent: bool, wanted: list[str]) -> None:
    drawn = plot("", [Series("a", [1, 2], values)], described="", from_zero=True, percent=percent)
    assert [one.text for one in drawn.iter("text") if one.get("text-anchor") == "end"][: len(wanted)] == wanted


def test_many_reports_are_means_within_a_band() -> None:
    y = np.zeros(2400)
    y[1000] = 100.0  # one spike, which a mean would hide
    drawn = plot("loss", [Series("a", list(range(2400)), y.tolist())], described="")
    said = json.loads(drawn.find("svg").get("data-plot"))["series"][0]  # type: ignore[union-attr, arg-type]
    assert len(said["y"]) == 240
    assert max(said["y"]) == 10.0  # of ten
    assert sum(said["x"]) / 240 == pytest.approx(2399 / 2, rel=1e-4)
    band = numbers(drawn.find(".//polygon").get("points"))  # type: ignore[union-attr, arg-type]
    line = numbers(drawn.find(".//polyline").get("points"))  # type: ignore[union-attr, arg-type]
    bottom = line[:, 1].max()
    assert bottom - band[:, 1].min() == pytest.approx(10 * (bottom - line[:, 1].min()), rel=0.02)


def test_a_group_has_a_mark_for_each_of_its_points() -> None:
    groups = [Group(np.arange(5.0), np.arange(5.0), None), Group(np.arange(3.0), np.ones(3), 2)]
    drawn = scatter("", groups, described="", x_label="", y_label="")
    _, others, own = drawn.iter("path")
    assert [len(re.findall("M", one.get("d", ""))) for one in (others, own)] == [5, 3]
    assert [one.get("class") for one in (others, own)] == ["mark", "mark c2"]


def test_paper_runs_at_25_mm_a_second_and_10_mm_a_millivolt() -> None:
    """A unit is a tenth of a millimetre."""
    signal = np.zeros(2500, np.float32)
    signal[500:] = 1.0
    drawn = sheet([[Trace("I", signal), Trace("II", -signal, absent=True)]], "two leads")
    grid, one, two = (path.get("d", "") for path in drawn.iter("path"))
    start, steps = numbers(one)[0], numbers(one)[1:]
    assert steps[:, 0].sum() * 2 == pytest.approx(2498)  # a unit is 4 ms: two samples
    assert steps[249].tolist() == [1, -100]  # after 1 s, up by 1 mV
    assert not steps[np.arange(len(steps)) != 249, 1].any()
    assert numbers(two)[0, 1] - start[1] == 200  # a lead below the other
    assert numbers(two)[250].tolist() == [1, 100]
    assert re.findall(r"M0 (\d+)H", grid)[:2] == ["50", "100"]


def test_nothing_in_a_name_is_markup() -> None:
    said = text(tag("p", "<script>alert(1)</script>", title='"&'))
    assert said == '<p title="&quot;&amp;">&lt;script&gt;alert(1)&lt;/script&gt;</p>'


def test_parts_stand_in_their_order() -> None:
    assert text(tag("p", "a", tag("b", "c"), "d", None, "e", class_="x", aria_label=None)) == (
        '<p class="x">a<b>c</b>de</p>'
    )


def test_a_table_has_names_and_figures() -> None:
    said = text(table("what", ["name", "", "count"], [["a", "b", "1"]], names=2))
    assert '<th scope="col">name</th>' in said
    assert '<th scope="row">a</th><td>b</td><td class="figure">1</td>' in said
    assert "<caption>what</caption>" in said
