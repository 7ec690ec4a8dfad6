from pathlib import Path

import pytest

from data_tools import cohorts
from data_tools.archive import cohort_of, find
from tests.recordings import noise, write


@pytest.mark.parametrize(
    ("root", "path", "name"),
    [
        ("/data/challenge-2021", "training/cpsc_2018/g1/A0001.hea", "cpsc_2018"),
        ("/data/challenge-2021", "training/ningbo/g13/S23074.hea", "ningbo"),
        ("/data/challenge-2021", "training/ptb/g1/S0001.hea", "ptb"),
        ("/data/ptb-xl", "records500/00000/00001_hr.hea", "ptb-xl"),
        ("/data", "WFDB_Ga/E00001.hea", "georgia"),
        ("/data/georgia", "g1/E00001.hea", "georgia"),
        ("/data/georgia/g1", "E00001.hea", "georgia"),
        ("/data/georgia", "g1/SMITH_JOHN_19500101.hea", "own"),  # a public folder makes no public file
        ("/data/georgia", "g1/E195002.hea", "own"),
        ("/data/georgia", "g1/E\u0660\u0660\u0660\u0660\u0661.hea", "own"),  # digits, though not ours
        ("/srv/ptb/hospital", "S0001.hea", "own"),
        ("/data/hospital", "E00001.hea", "own"),
    ],
)
def test_a_cohort_is_known_by_folder_and_name(root: str, path: str, name: str) -> None:
    assert cohort_of(root, path).name == name


def test_wrong_gains_are_those_of_the_old_mirrors() -> None:
    assert {c.name: c.wrong_gain for c in cohorts.PUBLIC if c.wrong_gain} == {
        "georgia": 4880,
        "ptb": 2_000_000,
        "ptb-xl": 200,
        "st_petersburg_incart": 306_000,
    }


def test_ptbxl_and_the_challenge_name_a_recording_alike() -> None:
    assert cohorts.record_name("00123_hr") == cohorts.record_name("HR00123") == "HR00123"


def test_the_table_of_ptbxl(tmp_path: Path) -> None:
    path = tmp_path / "ptbxl_database.csv"
    path.write_text("ecg_id,patient_id,age,sex,more\n7,15709.0,300,1,x\n21837,3.0,,0,y\n")
    rows = cohorts.read_ptbxl_table(path)
    assert rows == {"HR00007": ("ptb-xl-15709", 90, "F"), "HR21837": ("ptb-xl-3", None, "M")}
    path.write_text("\ufeffecg_id,patient_id,age,sex\n7,1,50,0\n", encoding="utf-8")
    assert list(cohorts.read_ptbxl_table(path)) == ["HR00007"]
    head = "ecg_id,patient_id,age,sex\n"
    for text in ("id;patient\n1;2\n", f"{head}1\n", f"{head}1,inf,50,0\n", f"{head}{'1' * 200_000},1,50,0\n", head, ""):
        path.write_text(text)
        with pytest.raises(ValueError, match="is not PTB-XL's"):
            cohorts.read_ptbxl_table(path)


def test_an_archive_is_walked_in_order_and_strays_are_seen(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write(tmp_path / "x", name, noise(1, 10))
    (tmp_path / "x" / "b.hea").unlink()
    (tmp_path / "x" / "d.dat").touch()
    (tmp_path / "x" / "notes.txt").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    found = find(tmp_path, ())
    assert found.recordings == ["x/a.hea", "x/b.mat", "x/c.hea"]  # b.mat may be MATLAB's own
    assert found.strays == ["x/d.dat"]
