"""CSV as hospitals and spreadsheets write it: what is read, and why the rest is not."""

from pathlib import Path

import numpy as np
import pytest

from data_tools import records
from data_tools.crops import INVALID
from data_tools.formats import csv
from data_tools.hints import NONE, Hints

TOLD = Hints(500, "uV")


def read(path: Path, content: str | bytes, told: Hints = TOLD) -> records.Recording:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return records.read(str(path.parent), path.name, resampled=True, told=told)


def refusal(path: Path, content: str | bytes, told: Hints = TOLD) -> str:
    with pytest.raises(ValueError) as error:
        read(path, content, told)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "aside"),
    [
        ("time,I,II,comment\n0,1,2,\n1,3,4,Jane woke up\n", ("time", "comment")),
        ("when,I,II\n2026-11-20 10:00:00,1,2\n2026-11-20 10:00:01,3,4\n", ("when",)),
        ("I;II;who\n0,0;0,0;Doe, Jane\n".replace("0,0;0,0", "1,0;2,0") + "3,0;4,0;\n", ("who",)),
        ("# Device: X, 1\n# by Jane\n\nI,II\n1,2\n\n3,4\n", ()),
        ("# I,II\n1,2\n3,4\n", ()),  # as numpy.savetxt has it
        ("I;II\n1;2\n3,0;4,0\n", ()),
        ('I,II\n"1,0","2,0"\n"3,0","4,0"\n', ()),
        ("I_uV,II uV,temperature_C\n1,2,3\n3,4,5\n", ("temperature_C",)),
    ],
)
def test_leads_beside_other_columns_and_lines(tmp_path: Path, text: str, aside: tuple[str, ...]) -> None:
    found = read(tmp_path / "a.csv", text)
    assert found.signal[:, :2].tolist() == [[1, 2], [3, 4]]
    assert (found.leads, found.aside) == (3, aside)
    assert csv.is_recording(text.encode())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
def test_windows_exports(tmp_path: Path, encoding: str) -> None:
    content = "time (ms);I (\u00b5V);Gerät\n0;1,5;ä\n2;3,0;ö\n".encode(encoding)
    found = read(tmp_path / "a.csv", content, NONE)
    assert found.signal[:, 0].tolist() == [2, 3] and found.rate == 500
    assert csv.is_recording(content)


def test_utf_16_without_its_mark_is_refused(tmp_path: Path) -> None:
    content = "I,II\n1,2\n".encode("utf-16-le")
    assert refusal(tmp_path / "a.csv", content) == "is no text in UTF-8"
    assert csv.is_recording(content)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty, or its first line is too long: a lead should be a column, not a line"),
        ("1," * 40_000, "is empty, or its first line is too long: a lead should be a column, not a line"),
        (
            "1," * 2000 + "1\n" + "1," * 2000 + "1\n",
            "has more than 1,000 columns; a lead should be a column, not a line",
        ),
        (
            "I,II\n0,1,0,2\n",
            "holds a row with another number of values: row 2 has 4, not 2 (decimal commas need another separator)",
        ),
        ("I,II\n1,2\n3\n", "holds a row with another number of values: row 3 has 1, not 2"),
        ("# a\nI,II\n1,2\n3,Jane Doe\n", "holds what is no number: row 4, column 2"),
        ("time (s),II\n0,1\nJane,2\n", "holds what is no number: row 3, column 1"),
    ],
)
def test_what_cannot_be_read_is_a_recording_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    """And quotes no cell, which may hold a name."""
    assert refusal(tmp_path / "a.csv", text) == reason
    assert csv.is_recording(text.encode()[: csv.BEGINNING])


@pytest.mark.parametrize("text", ["recording,classes\na,AF\n", "who,what\n", "id,name,age\n1,Jane,61\n"])
def test_tables_of_other_things_are_no_recordings(text: str) -> None:
    assert not csv.is_recording(text.encode())


def test_cells_without_a_value_are_invalid(tmp_path: Path) -> None:
    found = read(tmp_path / "a.csv", "I,II\n1,2\nN/A,4\n,6\n").signal
    assert found[:, 0].tolist() == [1, INVALID, INVALID]


@pytest.mark.parametrize(
    "name", ["time (s)", "Time [s]", "t (ms)", "time_s", "Time_ms", "time ms", "time (us)", "time (\u00b5s)"]
)
def test_names_of_times(tmp_path: Path, name: str) -> None:
    per_second = 1e6 if "us" in name or "\u00b5s" in name else 1e3 if "ms" in name else 1
    lines = "".join(f"{index / 250 * per_second:.6g},{index}\n" for index in range(1000))
    assert read(tmp_path / "a.csv", f"{name},II_mV\n{lines}", NONE).rate == 250


def rounded(times: np.ndarray, decimals: int) -> str:
    return "time (s),II (uV)\n" + "".join(f"{time:.{decimals}f},{index % 9}\n" for index, time in enumerate(times))


def test_times_that_are_rounded_too_coarsely_say_no_rate(tmp_path: Path) -> None:
    """To 10 ms, at 500 Hz: with --rate they are read, and one gap of 0.1 s is still seen."""
    times = np.arange(5000) / 500
    text = rounded(times, 2)
    assert "does not say the rate; give --rate" in refusal(tmp_path / "a.csv", text, NONE)
    assert len(read(tmp_path / "a.csv", text, Hints(500)).signal) == 5000
    times[2000:] += 0.1
    assert refusal(tmp_path / "a.csv", rounded(times, 2), Hints(500)) == "its times are not evenly spaced"
    times = np.arange(5000) / 500
    times[2000:] += 0.002  # one sample is missing
    assert refusal(tmp_path / "a.csv", rounded(times, 3), Hints(500)) == "its times are not evenly spaced"
