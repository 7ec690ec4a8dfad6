"""What inspect says, of archives whose defects are known."""

import ast
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_tools import inspect, look, sheet
from data_tools.crops import LEADS
from data_tools.findings import findings
from data_tools.hints import NONE
from data_tools.look import Look, lead_names
from tests import others
from tests.recordings import noise, public_archive, write

ROOT = Path(__file__).parents[2]


def run(*arguments: object, code: int = 0) -> str:
    command = [sys.executable, "-m", "data_tools.inspect", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def found(raw: Path, *arguments: object) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(run(raw, "--json", "--workers", 1, *arguments))
    return described


def at(folder: Path, name: str) -> Look:
    return look.at(look.Task(str(folder), b"0" * 32, NONE, []), name)[0]


def test_a_sound_archive(tmp_path: Path) -> None:
    described = found(public_archive(tmp_path / "raw"))
    assert (described["recordings"], described["refused"]) == (70, 0)
    assert {name: of["recordings"] for name, of in described["cohorts"].items()} == {
        "cpsc_2018": 12,
        "georgia": 12,
        "ptb-xl": 26,
        "chapman_shaoxing": 10,
        "ningbo": 10,
    }
    of = described["cohorts"]["georgia"]
    assert of["rates"] == {"500": 12} and of["units"] == {"mV": 12} and of["gains"] == {"1000": 12}
    assert of["classes"] == {"NSR": 12} and of["leads"] == {"12": 12} and of["sex"] == {"M": 12}
    assert of["seconds"] == {"least": 5.0, "median": 10.0, "most": 10.0}
    assert described["patients"] == {"patients": 16, "with_several_recordings": 10, "unknown": 0}
    # Noise adds up to nothing: the leads of no heart.
    what = {finding["what"]: finding["count"] for finding in described["findings"]}
    assert what == {"lead II is not I + III (by more than 0.1 mV)": 70, "5 s and shorter than 10 s": 1}


def heart(seed: int, samples: int = 5000) -> np.ndarray:
    """Whose limb leads add up."""
    signal = noise(seed, samples) // 4
    signal[:, 1] = signal[:, 0] + signal[:, 2]
    return signal


def defective(root: Path) -> Path:
    write(root, "good", heart(1))
    write(root, "twin", heart(1))
    flat = heart(2)
    flat[:, 7] = 5
    write(root, "flat", flat)
    invalid = heart(3)
    invalid[100:110, 11] = -32768
    write(root, "invalid", invalid)
    high = heart(4)
    high[10, 6], high[11, 6] = 32767, 12_000
    write(root, "high", high)
    write(root, "low", np.clip(heart(5), -30, 30) * 0 + (heart(5) > 0) * np.arange(1, 13, dtype=np.int16))
    write(root, "short", heart(6, 2000))
    write(root, "half", heart(7, 2500))
    write(root, "slow", heart(8, 2500), rate="250")
    write(root, "other", heart(9), file="named.mat")
    write(root, "codes", heart(10), comments=["#Dx: 426783006,426783006,12345,gout"])
    (root / "torn.hea").write_text(write(root, "whole", heart(11)).read_text().replace("whole.mat", "missing.mat"))
    (root / "stray.dat").write_bytes(b"x")
    (root / "notes.csv").write_text("a,b\nx,y\n")
    return root


def test_every_defect_is_found_with_advice(tmp_path: Path) -> None:
    raw = defective(tmp_path / "raw")
    text = run(raw, "--workers", 1)
    expected = {
        "1 x cannot be read: a file of the recording is missing": "torn.hea",
        "1 x cannot be read: no header goes with this file": "stray.dat",
        "2 x the same content as another recording": "good.hea, twin.hea",
        "1 x flat leads: V2 (1)": "flat.hea",
        "1 x invalid samples: V6 (1)": "invalid.hea",
        "1 x a peak beyond 10 mV": "high.hea",
        "1 x samples at the end of 16 bits": "high.hea",
        "1 x no lead reaches 0.1 mV": "low.hea",
        "1 x shorter than 5 s": "short.hea",
        "1 x 5 s and shorter than 10 s": "half.hea",
        "1 x not sampled at 500 Hz: 250 (1)": "slow.hea",
        "1 x its header names files of another name": "other.hea",
        "1 x diagnosis codes that stand there twice": "codes.hea",
    }
    lines = [line.strip() for line in text.splitlines()]
    for what, examples in expected.items():
        assert what in lines, text
        assert lines[lines.index(what) + 1]  # advice
        assert lines[lines.index(what) + 2] == examples
    assert sum(" x " in line for line in lines) == len(expected)
    assert "1 CSV files hold no samples, such as notes.csv" in text
    assert "codes that are no scored class: not a code (1), 12345 (1)" in text or "12345" in text


def test_names_of_own_recordings_stay_out_of_what_may_be_passed_on(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write(raw, "Jane_Doe", heart(1), comments=["#Age: 97", "#Sex: F", "#Dx: gout"])
    write(raw, "John_Doe", heart(1))
    text = json.dumps(found(raw))
    assert "Doe" not in text and "gout" not in text
    assert found(raw)["cohorts"]["own"]["age"]["most"] == 90
    assert not raw.with_name("raw.secret").exists()  # nothing is written
    one = json.loads(run(raw / "Jane_Doe", "--json"))
    assert one["age"] == 90 and "Doe" not in json.dumps(one)


def test_the_names_are_those_of_a_dataset_that_was_made(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    raw = defective(tmp_path / "raw")
    command = [sys.executable, "-m", "data_tools.shard", str(raw), "--out", str(tmp_path / "d"), "--workers", "1"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    names = set(pq.read_table(tmp_path / "d" / "rejected.parquet")["record"].to_pylist())
    refused = [finding for finding in found(raw)["findings"] if finding["what"].startswith("cannot be read")]
    assert {name for finding in refused for name in finding["recordings"]} <= names


def test_labels_are_counted(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path / "raw", f"r{number}", heart(number))
    lines = [f"r{number},{'AF' if number < 4 else 'gout'},p{number // 2}" for number in range(6)]
    (tmp_path / "t.csv").write_text("\n".join(["recording,classes,patient", *lines]))
    described = found(tmp_path / "raw", "--labels", tmp_path / "t.csv")
    assert described["labels"] == {"recordings": 6, "none_of_ours": 2}
    assert described["patients"] == {"patients": 3, "with_several_recordings": 3}
    assert described["cohorts"]["own"]["classes"] == {"AF": 4}


def test_one_recording_of_every_format(tmp_path: Path) -> None:
    for suffix, writer in others.WRITERS.items():
        writer(tmp_path / f"a{suffix}", heart(1))
        one = json.loads(run(tmp_path / f"a{suffix}", "--json"))
        assert (one["cohort"], one["rate"], one["seconds"], list(one["leads"])) == ("own", 500, 10, list(LEADS))
        assert one["leads"]["V6"]["peak_mv"] == pytest.approx(np.abs(heart(1)[:, 11]).max() / 1000)


def test_one_recording_by_any_of_its_names(tmp_path: Path) -> None:
    write(tmp_path / "georgia", "E00001", heart(1))
    for name in ("E00001", "E00001.hea", "E00001.mat"):
        one = json.loads(run(tmp_path / "georgia" / name, "--json"))
        assert (one["name"], one["cohort"], one["classes"]) == ("E00001", "georgia", ["NSR"])


def test_tables_of_leads_are_recordings_whatever_is_wrong_with_them(tmp_path: Path) -> None:
    """Never tables of something else; and what stands beside the leads is said."""
    others.csv(tmp_path / "good.csv", heart(1))
    lines = (tmp_path / "good.csv").read_text().splitlines()
    (tmp_path / "text.csv").write_text("\n".join(f"{line},comment" for line in lines).replace("comment", "note", 1))
    (tmp_path / "torn.csv").write_text("\n".join(lines)[:-40])
    (tmp_path / "commas.csv").write_text("\n".join([lines[0], *(line.replace(".", ",") for line in lines[1:])]))
    (tmp_path / "uv.csv").write_text(_a_thousandfold(lines))
    (tmp_path / "notes.csv").write_text("who,what\nme,nothing\n")
    text = run(tmp_path, "--workers", 1)
    assert "5 recordings, 2 of them cannot be read" in text and "1 CSV files hold no samples, such as notes.csv" in text
    assert "2 x cannot be read: holds a row with another number of values" in text
    assert "1 x columns that are no leads" in text and "1 x values beyond +-32.767 mV" in text
    assert "no leads, left aside: note" in run(tmp_path / "text.csv")
    assert "no usable lead in any segment" in run(tmp_path / "uv.csv")
    assert "row 2 has 26, not 13 (decimal commas need another separator)" in run(tmp_path / "commas.csv", code=1)


def _a_thousandfold(lines: list[str]) -> str:
    values = [[float(value) for value in line.split(",")] for line in lines[1:]]
    return "\n".join([lines[0], *(",".join(map(str, [row[0], *(1000 * x for x in row[1:])])) for row in values)])


def test_an_interrupted_look_promises_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect, "_inspect", interrupted)
    monkeypatch.setattr(sys, "argv", ["inspect", "raw"])
    assert inspect.main() == 130
    assert capsys.readouterr().err == "error: interrupted; nothing was changed\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "error: nowhere: no such file or folder"),
        (["no/where.csv"], "error: no/where.csv: no such file or folder"),
        (["{raw}/notes.txt"], "notes.txt: is no recording; right would be a WFDB header (.hea), or one of .bdf"),
        (["{raw}", "--labels", "nowhere.csv"], "error: --labels nowhere.csv: no such file"),
        (["{raw}", "--plot", "x.png"], "--plot needs one recording"),
        (["{raw}/empty"], "no recordings there"),
        (["{raw}/a.hea", "--workers", "1"], "have no effect on one recording"),
        (["{raw}/a.hea", "--plot", "x.bmp"], "ends with none of .png"),
        (["{raw}/a.hea", "--plot", "{raw}/no/where.png"], "No such file or directory"),
        (["{raw}/b.npy"], "its file does not say the leads, rate, unit"),
        (["{raw}", "--workers", "0"], "is no number of processes"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    write(tmp_path, "a", heart(1))
    (tmp_path / "empty").mkdir()
    np.save(tmp_path / "b.npy", heart(1))
    (tmp_path / "notes.txt").touch()
    last = run(*[argument.format(raw=tmp_path) for argument in arguments], code=1).splitlines()[-1]
    assert last.startswith("error: ") and message in last


# --- the sheet ---


def test_the_sheet_is_true_to_scale(tmp_path: Path) -> None:
    """A step of 1 mV after 1 s in lead I: 10 mm high, 25 mm from where the lead begins; the paper in millimetres."""
    import matplotlib.image

    signal = np.zeros((5000, 12), np.int16)
    signal[500:, 0] = 1000
    sheet.save(signal, 1, tmp_path / "a.png", "")
    image = matplotlib.image.imread(tmp_path / "a.png")
    per_mm = sheet._DPI / 25.4
    width = sheet._LEFT + 250 + sheet._RIGHT
    assert image.shape[1] == pytest.approx(width * per_mm, abs=1)
    black = image[:, :, :3].max(2) < 0.3
    top, left = sheet._TOP * per_mm, sheet._LEFT * per_mm
    first = black[int(top + 4 * per_mm) : int(top + sheet._ROW * per_mm), :]

    def height_at(seconds: float) -> float:
        column = first[:, round(left + seconds * 25 * per_mm)]
        return float(np.flatnonzero(column).mean())

    assert (height_at(0.9) - height_at(1.1)) / per_mm == pytest.approx(10, abs=0.2)
    step = np.flatnonzero([height_at(s) < height_at(0.9) - 5 * per_mm for s in np.arange(0.95, 1.05, 0.001)])[0]
    assert 0.95 + step / 1000 == pytest.approx(1, abs=0.01)  # a quarter of a millimetre
    pulse = black[int(top + 4 * per_mm) : int(top + sheet._ROW * per_mm), int(left - 5.5 * per_mm)]
    assert np.flatnonzero(pulse).mean() == pytest.approx(height_at(1.1), abs=0.2 * per_mm)  # 1 mV as well


@pytest.mark.parametrize("samples", [0, 100, 2500, 5000, 20_000])
@pytest.mark.parametrize("leads", [1, 1 << 1, (1 << 12) - 1])
def test_every_length_and_set_of_leads_can_be_drawn(tmp_path: Path, samples: int, leads: int) -> None:
    sheet.save(heart(1, samples), leads, tmp_path / "a.svg", "title")
    assert (tmp_path / "a.svg").stat().st_size > 10_000


# --- real recordings ---


@pytest.mark.realdata
def test_what_is_known_of_the_real_recordings_is_found(realdata: Path) -> None:
    """Each recording of RECORD_TABLE.csv, which was made with other tools."""
    with (realdata / "RECORD_TABLE.csv").open() as file:
        table = list(csv.DictReader(file))
    looks = {row["path"]: at(realdata, f"{row['path']}.hea") for row in table}
    assert len(looks) == 190
    for row in table:
        seen = looks[row["path"]]
        assert seen.refused is None, (row["path"], seen.refused)
        assert (seen.rate, seen.seconds) == pytest.approx((float(row["fs"]), float(row["sec"])), abs=1e-3)
        assert [f"{gain:.1f}" for gain in seen.gains] == [str(gain) for gain in ast.literal_eval(row["gain"])]
        assert list(seen.units) == ast.literal_eval(row["units"])
        assert lead_names(seen.flat) == ast.literal_eval(row["flat"])
        assert sum(seen.invalid) == int(row["n_nan"]) and len(lead_names(seen.leads)) == int(row["nsig"])
        if seen.rate == 500:
            assert seen.peak == pytest.approx(float(row["maxabs_mV"]), abs=1e-9)
        if row["einthoven_maxabs_lsb"] and seen.limb_error is not None:
            assert seen.limb_error <= float(row["einthoven_maxabs_lsb"]) / 1000 or seen.rate != 500
    what = {finding.what: [seen.path for seen in finding.recordings] for finding in findings(list(looks.values()))}
    assert {Path(path).stem for path in what["a peak beyond 10 mV"]} == {"Q0010", "E00006", "JS20011", "JS23463"}
    assert "flat leads: V4 (2), V6 (2), V2 (1), V5 (1)" in what
