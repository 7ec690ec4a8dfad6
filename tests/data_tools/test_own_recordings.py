"""Everyone's own recordings, from files of every format to a dataset with labels."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from data_tools import own_labels
from data_tools.labels import CLASS_NAMES
from data_tools.splits import limited
from data_tools.views import open_view
from tests import others
from tests.data_tools.test_shard import description, fingerprint, rows, run, stored
from tests.recordings import noise, public_archive, write

SECRET = b"0" * 32
_LEADS = ("I", "II", "V2", "V5")
_COLUMNS = [0, 1, 7, 10]


def table(path: Path, *lines: str, head: str = "recording,classes,patient") -> Path:
    path.write_text("\n".join([head, *lines, ""]))
    return path


def read(path: Path, recordings: tuple[str, ...] = ("a.csv", "b/c.hea", "b/d.npy", "b/d.edf")) -> own_labels.Labels:
    return own_labels.read(path, recordings, SECRET)


# --- the table ---


def test_classes_by_name_half_a_name_or_code(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "a.csv,164889003;lbbb,", "b/c.hea,CRBBB|RBBB | NSR,", '"b/d.npy","AF,SB, AF",')
    found = [labelled.classes for labelled in read(path).of.values()]
    names = [["AF", "CLBBB|LBBB"], ["CRBBB|RBBB", "NSR"], ["AF", "SB"]]
    assert found == [sum(1 << CLASS_NAMES.index(name) for name in of) for of in names]


def test_suffixes_may_be_left_out_where_nothing_is_lost(tmp_path: Path) -> None:
    assert len(read(table(tmp_path / "t.csv", "a,AF,", "./b/c,AF,", "b/d.npy,AF,")).of) == 3
    with pytest.raises(ValueError, match=r"line 2: b/d is b/d.npy and b/d.edf; name one with its suffix"):
        read(table(tmp_path / "t.csv", "b/d,AF,"))


def test_patients_become_keyed_hashes(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "a,AF,Jane Doe", "b/c,AF,Jane Doe", "b/d.npy,AF,", "b/d.edf,AF,John Roe")
    patients = [labelled.patient for labelled in read(path).of.values()]
    assert patients[0] == patients[1] and patients[2] is None and patients[3] not in (None, patients[0])
    assert all(re.fullmatch("[0-9a-f]{16}", patient) for patient in patients if patient)
    other = own_labels.read(path, ("a.csv", "b/c.hea", "b/d.npy", "b/d.edf"), b"1" * 32)
    assert not {labelled.patient for labelled in other.of.values()} & {patients[0], patients[3]}


def test_unknown_classes_are_counted(tmp_path: Path) -> None:
    found = read(table(tmp_path / "t.csv", "a,AF;sick;sick,", "b/c,123456,"))
    assert found.unknown == {"sick": 2, "123456": 1}
    assert [labelled.classes for labelled in found.of.values()] == [1, 0]


def test_a_table_as_a_german_spreadsheet_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffRecording;Classes;Patient\r\na;"AF;SB";J\u00f6rg\r\n'.encode())
    assert [labelled.classes for labelled in read(path).of.values()] == [1 | 1 << CLASS_NAMES.index("SB")]


@pytest.mark.parametrize(
    ("head", "lines", "message"),
    [
        ("recording,classes", ["a,AF", "a.csv,AF"], "line 3: a.csv stands there twice"),
        ("recording,classes", ["x,AF"], "no such recordings of your own: x (line 2)"),
        ("recording,classes", [f"x{n},AF" for n in range(5)], "x2 (line 4) and 2 more"),
        (
            "recording,classes",
            ["a,nothing of ours"],
            "none of its classes is known: found nothing of ours; right would",
        ),
        ("recording,classes", ["a,"], "names no patient and no class"),
        ("recording,classes", [], "lists no recordings"),
        ("recording,patient", ["a,"], "names no patient"),
        ("recording,classes,patient", ["a,,"], "names no patient and no class"),
        ("name,classes", ["a,AF"], "its first line is name, classes; right would be recording, and classes or patient"),
        ("recording", ["a"], "its first line is recording; right would be recording, and"),
        ("recording,classes,classes", ["a,AF,AF"], "its first line is recording, classes, classes"),
        ("", [], "its first line is nothing"),
        ("recording,classes", ["a,AF,more"], "line 2 has 3 values, not 2 as the first"),
        ("recording,classes", ['a,"AF'], "is no CSV file in UTF-8"),
    ],
)
def test_wrong_tables_say_what_is_wrong(tmp_path: Path, head: str, lines: list[str], message: str) -> None:
    with pytest.raises(ValueError) as error:
        read(table(tmp_path / "t.csv", *lines, head=head))
    assert message in str(error.value)


def test_no_text_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"recording,classes\n\xff\xfe\x00,AF\n")
    with pytest.raises(ValueError, match="is no CSV file in UTF-8"):
        read(tmp_path / "t.csv")


# --- gallery and probe ---


def test_gallery_and_probe_leave_three_quarters_to_train_on() -> None:
    """A hundred patients of one's own with two recordings each, and ten of PTB-XL: 25 and all ten."""
    pairs = {f"p{n:03d}": (2 * n, 2 * n + 1) for n in range(110)}
    group = np.repeat(np.arange(110), 2)
    own = np.arange(220) < 200
    kept = limited(pairs, own, group, seed=0)
    assert sum(own[first] for first, _ in kept.values()) == 25
    assert {f"p{n:03d}" for n in range(100, 110)} <= set(kept)
    assert kept != limited(pairs, own, group, seed=1)
    assert limited({"a": (0, 1)}, np.array([True, True]), np.array([0, 0]), 0)  # one at least


# --- as a whole ---


def own_archive(root: Path) -> Path:
    """60 recordings in every format; recording 2n and 2n + 1 are patient n's, the first 30 have classes."""
    writers = list(others.WRITERS.items())
    lines = []
    for number in range(60):
        suffix, writer = writers[number % len(writers)]
        folder = root / "ward" / suffix[1:]
        folder.mkdir(parents=True, exist_ok=True)
        writer(folder / f"Jane Doe {number}{suffix}", noise(number)[:, _COLUMNS], _LEADS)
        labels = "AF;LBBB" if number % 3 else "164889003;gout"
        lines.append(f"ward/{suffix[1:]}/Jane Doe {number},{labels if number < 30 else ''},Jane Doe {number // 2}")
    table(root / "who.csv", *lines)
    return root


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_archive(tmp_path_factory.mktemp("own") / "raw")


@pytest.fixture(scope="module")
def labelled(raw: Path) -> Path:
    data = raw.with_name("labelled")
    said = run(raw, "--out", data, "--workers", 1, "--labels", raw / "who.csv")
    assert "60 of 60 recordings of your own are in it" in said
    assert "10 labels are none of the 26 classes: gout (10)" in said
    return data


def test_recordings_of_all_formats_become_one_dataset(raw: Path, tmp_path: Path) -> None:
    run(raw, "--out", tmp_path / "data", "--workers", 2)
    assert description(tmp_path / "data")["crops"] == {"in": 60, "kept": 60, "rejected": 0}
    assert set(description(tmp_path / "data")["views"]) == {"pretrain", "pretrain-valid"}
    found = {stored(tmp_path / "data", row)[:, _COLUMNS].tobytes() for row in rows(tmp_path / "data")}
    assert found == {noise(number)[:, _COLUMNS].tobytes() for number in range(60)}
    assert {tuple(row["lead_mask"]) for row in rows(tmp_path / "data")} == {(1 | 2 | 1 << 7 | 1 << 10,) * 2}


def test_labels_give_all_views(labelled: Path) -> None:
    crops = rows(labelled)
    views = {path.name: open_view(path) for path in (labelled / "views").iterdir()}
    # Of every patient there are two, more than a hundredth of all: nobody is spared for pretrain-valid.
    assert len(views) == 8
    assert all(row["patient"] is not None for row in crops)
    split = {name: {row["patient"] for row in crops if row["split"] == name} for name in {r["split"] for r in crops}}
    assert sum(map(len, split.values())) == 30  # no patient in two
    gallery, probe = views["identification-gallery"], views["identification-probe"]
    assert len(gallery["crop"]) == len(probe["crop"]) == len(split["identification-test"]) == 7  # a quarter of 60 / 2
    for a, b in zip(gallery["crop"], probe["crop"], strict=True):
        assert crops[a]["patient"] == crops[b]["patient"] and crops[a]["record"] != crops[b]["record"]
    remaining = 60 - 14
    held_out = {row["record"] for row in crops if row["split"].startswith("diagnosis")}
    assert round(remaining * 0.2) - 2 <= len(held_out) <= round(remaining * 0.2) + 2
    assert {crops[crop]["classes"] for crop in views["diagnosis-train"]["crop"]} <= {0, 1, 1 | 1 << 4}


def test_nothing_of_the_person_is_in_the_dataset(raw: Path, labelled: Path) -> None:
    for path in labelled.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for trace in (b"Jane", b"Doe", b"ward", b"MRN", b"gout", b"20240229", b"who.csv"):
                assert trace not in data, f"{trace!r} in {path.name}"
    of_dicom = {row["age"] for row in rows(labelled) if row["age"] is not None}
    assert of_dicom == {61, 90}  # MATLAB's 61, and DICOM's 93
    found = description(labelled)["found"]
    assert found["codes without a class/not a code"] == 10
    assert found["labelled/own"] == 60 and found["with a class/own"] == 30


def test_two_workers_and_any_order_make_the_same_bytes(raw: Path, labelled: Path, tmp_path: Path) -> None:
    shutil.copy(raw.with_name("raw.secret"), tmp_path / "raw.secret")
    shutil.copytree(raw, tmp_path / "raw")
    run(tmp_path / "raw", "--out", tmp_path / "data", "--workers", 2, "--labels", tmp_path / "raw" / "who.csv")
    assert fingerprint(tmp_path / "data") == fingerprint(labelled)


def test_verify_finds_nothing_wrong_with_it(labelled: Path) -> None:
    command = [sys.executable, "-m", "data_tools.verify", str(labelled)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert "60 crops, nothing wrong" in done.stdout, done.stdout + done.stderr


def test_classes_alone_and_patients_alone(raw: Path, tmp_path: Path) -> None:
    lines = (raw / "who.csv").read_text().splitlines()
    for name, columns in (("classes", (0, 1)), ("patients", (0, 2))):
        cut = [",".join(line.split(",")[column] for column in columns) for line in lines]
        (tmp_path / f"{name}.csv").write_text("\n".join(cut))
        run(raw, "--out", tmp_path / name, "--workers", 1, "--labels", tmp_path / f"{name}.csv")
    assert {name.split("-")[0] for name in description(tmp_path / "classes")["views"]} == {"pretrain", "diagnosis"}
    assert {name.split("-")[0] for name in description(tmp_path / "patients")["views"]} == {
        "pretrain",
        "identification",
    }


def test_what_the_table_leaves_out_is_pretrained_on(raw: Path, tmp_path: Path) -> None:
    lines = (raw / "who.csv").read_text().splitlines()
    (tmp_path / "t.csv").write_text("\n".join(lines[:41]))
    said = run(raw, "--out", tmp_path / "data", "--workers", 1, "--labels", tmp_path / "t.csv")
    assert "of the others nobody knows the patient: each counts as one of its own" in said
    assert len(rows(tmp_path / "data")) == 60
    assert sum(row["patient"] is None for row in rows(tmp_path / "data")) == 20


def test_own_labels_beside_a_public_archive(tmp_path: Path) -> None:
    raw = public_archive(tmp_path / "raw")
    for number in range(30):
        write(raw / "mine", f"m{number}", noise(9000 + number))
    lines = [f"mine/m{number},AF,p{number // 2}" for number in range(30)]
    path = table(tmp_path / "t.csv", *lines)
    run(raw, "--out", tmp_path / "data", "--workers", 1, "--labels", path)
    crops = rows(tmp_path / "data")
    test = {row["cohort"] for row in crops if row["split"] == "identification-test"}
    assert test == {"ptb-xl", "own"}
    trained = {crops[crop]["cohort"] for crop in open_view(tmp_path / "data" / "views" / "diagnosis-train")["crop"]}
    assert trained == {"cpsc_2018", "georgia", "own"}
    assert "no such recordings of your own" in run(
        raw, "--out", tmp_path / "b", "--labels", table(tmp_path / "u.csv", "training/georgia/g1/E00001,AF,x"), code=1
    )


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--rate", "500", "--resample"], "--rate has no effect: every recording that can be read says it itself", 1),
        (["--rate", "fast"], "rate 'fast' is no number of Hz", 2),
        (["--unit", "mmHg"], "unit 'mmHg' is no unit of voltage such as uV, mV, V or 4.88uV", 2),
        (["--leads", "I,X"], "leads: 'X' is none of I, II", 2),
        (["--leads", "I,I"], "leads: none at all, or one of them twice", 2),
        (["--labels", "nowhere.csv"], "error: --labels nowhere.csv: no such file", 1),
        (["--views", "identification"], "or of your own recordings --labels", 1),
    ],
)
def test_wrong_arguments_are_one_line(raw: Path, tmp_path: Path, arguments: list[str], message: str, code: int) -> None:
    last = run(raw / "ward" / "csv", "--out", tmp_path / "data", *arguments, code=code).splitlines()[-1]
    assert "error: " in last and message in last


def test_files_that_say_nothing_ask_for_flags(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for number in range(5):
        np.save(raw / f"{number}.npy", noise(number)[:, :2])
    (raw / "notes.csv").write_text("who,what\nme,nothing\n")
    message = run(raw, "--out", tmp_path / "data", "--workers", 1, code=1)
    assert (
        "every recording is refused: 5 x its file does not say the leads, rate, unit; "
        "give --leads, --rate, --unit, or a recordings.json"
    ) in message
    assert "1 CSV files that hold no samples are left alone, such as notes.csv" in message
    run(raw, "--out", tmp_path / "data", "--workers", 1, "--leads", "I,V1", "--rate", 500, "--unit", "uV")
    assert description(tmp_path / "data")["arguments"]["told"] == {
        "rate": 500.0,
        "unit": "uV",
        "leads": ["I", "V1"],
        "key": None,
    }


def test_tables_of_leads_that_cannot_be_read_are_in_the_census(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for number in range(5):
        others.csv(raw / f"{number}.csv", noise(number))
    lines = (raw / "0.csv").read_text().splitlines()
    (raw / "commas.csv").write_text("\n".join([lines[0], *(line.replace(".", ",") for line in lines[1:])]))
    (raw / "uv.csv").write_text((raw / "1.csv").read_text().replace("(mV)", "(V)"))
    (raw / "empty.csv").touch()
    (raw / "text.csv").write_text("\n".join(["comment," + lines[0], *("x," + line[:-1] + "1" for line in lines[1:])]))
    run(raw, "--out", tmp_path / "data", "--workers", 1)
    assert description(tmp_path / "data")["rejected"] == {
        "holds a row with another number of values": 1,
        "is empty, or its first line is too long": 1,
        "no usable lead; it has values beyond +-32.767 mV, is it in uV?": 1,
    }
    assert description(tmp_path / "data")["crops"] == {"in": 9, "kept": 6, "rejected": 3}
    assert description(tmp_path / "data")["found"]["columns that are no leads"] == 1
    assert "0.csv: is a file; a folder of recordings would be right" in run(
        raw / "0.csv", "--out", tmp_path / "b", code=1
    )


def test_other_flags_do_not_go_on_with_a_begun_dataset(raw: Path, tmp_path: Path) -> None:
    partial = tmp_path / "data.partial"
    partial.mkdir()
    begun = {"version": "0.1.0", "raw": str(raw), "cohorts": [], "resample": False, "told": {"rate": 250.0}}
    (partial / "job.json").write_text(json.dumps({"begun": begun, "archive": [[], [], [], [], []]}))
    assert "begun with another flag for what the files do not say" in run(raw, "--out", tmp_path / "data", code=1)


def test_a_changed_sidecar_is_noticed(tmp_path: Path) -> None:
    """Between the pass that checks and the one that packs."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for number in range(5):
        others.npy(raw / f"{number}.npy", noise(number))
    code = (
        "import sys; from data_tools import decide, shard; from pathlib import Path\n"
        f"real, path = decide.decide, Path({str(raw / 'recordings.json')!r})\n"
        "def decide_(*a): path.write_text(path.read_text().replace('mV', '2mV')); return real(*a)\n"
        "decide.decide = decide_; sys.exit(shard.main())"
    )
    command = [sys.executable, "-c", code, str(raw), "--out", str(tmp_path / "data"), "--workers", "1"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 1 and "has changed since it was checked" in done.stderr
