"""Every promise of a dataset folder, broken one at a time."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.recordings import public_archive

ROOT = Path(__file__).parents[2]


def verify(data: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "data_tools.verify", str(data), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify")
    public_archive(folder / "raw")
    command = [
        sys.executable,
        "-m",
        "data_tools.shard",
        str(folder / "raw"),
        "--out",
        str(folder / "data"),
        "--shard-mb",
        "2",
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder / "data"


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


def sign(data: Path) -> None:
    """Sizes and hashes of dataset.json as they would be, had the files been written so."""
    about = json.loads((data / "dataset.json").read_text())
    for file in (*about["files"], *about["tables"]):
        content = (data / file["name"]).read_bytes()
        file["bytes"], file["sha256"] = len(content), sha256(content).hexdigest()
    (data / "dataset.json").write_text(json.dumps(about))


def change_crops(data: Path, change: Callable[[list[dict]], None]) -> None:
    table = pq.read_table(data / "crops.parquet")
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), data / "crops.parquet")
    sign(data)


def change_view(data: Path, view: str, column: str, row: int, value: object) -> None:
    path = data / "views" / view / f"{column}.npy"
    values = np.load(path)
    values[row] = value
    np.save(path, values)
    sign(data)


def first_shard(data: Path) -> Path:
    return data / "train" / "shard-000000.tar"


def test_a_whole_dataset(whole: Path) -> None:
    assert verify(whole)[0] == verify(whole, "--quick")[0] == 0
    assert "nothing wrong" in verify(whole)[1]


def test_a_missing_file(data: Path) -> None:
    first_shard(data).unlink()
    assert verify(data, "--quick") == (1, f"train/shard-000000.tar: is missing\n{data}: 1 problems\n")


def test_a_short_file(data: Path) -> None:
    os.truncate(first_shard(data), 10_000)
    code, lines = verify(data, "--quick")
    assert code == 1 and "train/shard-000000.tar: 10000 bytes instead of" in lines


def test_a_flipped_bit(data: Path) -> None:
    content = bytearray(first_shard(data).read_bytes())
    content[50_000] ^= 1
    first_shard(data).write_bytes(content)
    assert verify(data, "--quick")[0] == 0
    code, lines = verify(data)
    assert code == 1 and "train/shard-000000.tar: its sha256 is another one" in lines


def test_samples_that_are_not_those_hashed(data: Path) -> None:
    content = bytearray(first_shard(data).read_bytes())
    content[50_000] ^= 1
    first_shard(data).write_bytes(content)
    sign(data)
    code, lines = verify(data)
    assert code == 1 and "is not what crops.parquet says" in lines


def test_a_file_too_many(data: Path) -> None:
    (data / "train" / "shard-000099.tar").touch()
    code, lines = verify(data, "--quick")
    assert code == 1 and "train/shard-000099.tar: does not belong to the dataset" in lines


def test_an_index_that_leads_elsewhere(data: Path) -> None:
    index = first_shard(data).with_suffix(".idx")
    index.write_text(index.read_text().replace("npy 512 ", "npy 513 "))
    sign(data)
    code, lines = verify(data)
    assert code == 1 and "its index does not lead to its members" in lines


def test_a_row_too_few(data: Path) -> None:
    change_crops(data, lambda rows: rows.pop())
    code, lines = verify(data, "--quick")
    assert code == 1 and "crops kept" in lines and "rows in crops.parquet" in lines


def test_a_crop_of_unusable_leads_that_are_not_zero(data: Path) -> None:
    def change(rows: list[dict]) -> None:
        rows[0]["lead_mask"][0] &= ~1

    change_crops(data, change)
    code, lines = verify(data)
    assert code == 1 and "has unusable leads that are not zero" in lines


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("file", 1),
        ("offset", 1),
        ("offset", 10**12),
        ("samples", 5001),
        ("classes", 3),
        ("lead_mask", [1, 1]),
        ("crop", 10**6),
    ],
)
def test_a_view_that_says_something_else(data: Path, column: str, value: object) -> None:
    change_view(data, "pretrain", column, 3, value)
    code, lines = verify(data, "--quick")
    assert code == 1 and "views/pretrain: " in lines


def test_a_view_of_crops_that_are_held_out(data: Path) -> None:
    """A whole, consistent row of the test set, in the pre-training view."""
    for column in ("file", "offset", "lead_mask", "classes", "crop"):
        stolen = np.load(data / "views" / "diagnosis-test" / f"{column}.npy")[0]
        change_view(data, "diagnosis-train", column, 0, stolen)
    code, lines = verify(data, "--quick")
    assert code == 1
    assert "views/diagnosis-train: crop of 1 rows is wrong, the first is row 0" in lines


def test_probes_of_other_patients(data: Path) -> None:
    for path in (data / "views" / "identification-probe").glob("*.npy"):
        np.save(path, np.load(path)[::-1])
    change_view(data, "identification-probe", "identity", slice(None), np.arange(10))
    code, lines = verify(data, "--quick")
    assert code == 1 and "its rows are not the patients of identification-gallery" in lines


def test_probes_that_are_the_gallery(data: Path) -> None:
    shutil.rmtree(data / "views" / "identification-probe")
    shutil.copytree(data / "views" / "identification-gallery", data / "views" / "identification-probe")
    sign(data)
    code, lines = verify(data, "--quick")
    assert code == 1 and "has recordings that are in identification-gallery" in lines


def test_identities_that_are_all_one(data: Path) -> None:
    change_view(data, "identification-train", "identity", slice(None), 0)
    code, lines = verify(data, "--quick")
    assert code == 1 and "views/identification-train: identity of" in lines


def test_a_view_without_a_column(data: Path) -> None:
    (data / "views" / "pretrain" / "file.npy").unlink()
    about = json.loads((data / "dataset.json").read_text())
    about["tables"] = [file for file in about["tables"] if file["name"] != "views/pretrain/file.npy"]
    (data / "dataset.json").write_text(json.dumps(about))
    code, lines = verify(data, "--quick")
    assert (
        code == 1 and "views/pretrain: columns classes, crop, identity, lead_mask, offset, samples instead of" in lines
    )


def test_columns_of_another_length_or_kind(data: Path) -> None:
    path = data / "views" / "pretrain" / "offset.npy"
    np.save(path, np.load(path)[:-1])
    path = data / "views" / "pretrain-valid" / "lead_mask.npy"
    np.save(path, np.load(path)[:, 0])
    sign(data)
    code, lines = verify(data, "--quick")
    assert (
        code == 1
        and "views/pretrain: offset is int64" in lines
        and "views/pretrain-valid: lead_mask is uint16" in lines
    )


def test_a_view_of_zeros(data: Path) -> None:
    path = data / "views" / "pretrain" / "offset.npy"
    path.write_bytes(bytes(path.stat().st_size))
    code, lines = verify(data, "--quick")
    assert code == 1 and "views/pretrain: columns" in lines


def test_crops_in_the_files_of_another_split(data: Path) -> None:
    def change(rows: list[dict]) -> None:
        rows[0]["split"] = "diagnosis-test"

    change_crops(data, change)
    code, lines = verify(data, "--quick")
    assert code == 1 and "crops.parquet: crops of the split diagnosis-test in train/" in lines


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b'"age":60', b'"age":61', ".json does not say what crops.parquet says"),
        (b"'shape': (5000, 12)", b"'shape': (6000, 10)", ".npy is not where or what crops.parquet says"),
    ],
)
def test_members_that_say_something_else(data: Path, old: bytes, new: bytes, what: str) -> None:
    content = first_shard(data).read_bytes()
    assert old in content
    first_shard(data).write_bytes(content.replace(old, new, 1))
    sign(data)
    code, lines = verify(data)
    assert code == 1 and what in lines


@pytest.fixture(scope="module")
def zarr(whole: Path) -> Path:
    folder = whole.with_name("zarr")
    command = [sys.executable, "-m", "data_tools.shard", str(whole.with_name("raw")), "--out", str(folder)]
    subprocess.run([*command, "--shard-mb", "2", "--format", "zarr"], cwd=ROOT, check=True, capture_output=True)
    return folder


def test_a_whole_zarr(zarr: Path) -> None:
    assert verify(zarr)[0] == 0


def test_a_zarr_index_that_leads_elsewhere(zarr: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(zarr, tmp_path / "data"))
    shard = data / "train.zarr" / "c" / "0" / "0" / "0"
    content = bytearray(shard.read_bytes())
    content[-16 * 16 : -16 * 14] = content[-16 * 15 : -16 * 14] + content[-16 * 16 : -16 * 15]
    shard.write_bytes(content)
    sign(data)
    code, lines = verify(data)
    assert code == 1 and "train.zarr/c/0/0/0: its index does not lead to its crops" in lines


def test_a_zarr_of_another_shape(zarr: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(zarr, tmp_path / "data"))
    path = data / "train.zarr" / "zarr.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"shape": [3, 5000, 12]}))
    sign(data)
    code, lines = verify(data)
    assert code == 1 and "train.zarr/zarr.json does not describe" in lines


def test_a_link_instead_of_a_file(data: Path, tmp_path: Path) -> None:
    shutil.move(first_shard(data), tmp_path / "elsewhere.tar")
    first_shard(data).symlink_to(tmp_path / "elsewhere.tar")
    code, lines = verify(data, "--quick")
    assert code == 1 and "train/shard-000000.tar: is a link" in lines


@pytest.mark.parametrize(
    "damage",
    [
        {"splits": {}},
        {"recordings": 1},
        {"rejected": None},
        {"rate": 250},
        {"leads": ["I"]},
        {"classes": []},
        {"views": {}},
    ],
)
def test_a_description_that_says_something_else(data: Path, damage: dict) -> None:
    about = json.loads((data / "dataset.json").read_text())
    (data / "dataset.json").write_text(json.dumps(about | damage))
    code, lines = verify(data, "--quick")
    assert code == 1 and "dataset.json: " in lines


@pytest.mark.parametrize(
    "damage", [{"views": ["pretrain"]}, {"views": {"../x": 1}}, {"files": [{}]}, {"crops": 5}, {"tables": None}]
)
def test_a_damaged_description_is_one_line(data: Path, damage: dict) -> None:
    about = json.loads((data / "dataset.json").read_text())
    (data / "dataset.json").write_text(json.dumps(about | damage))
    assert verify(data) == (1, f"error: {data}/dataset.json: damaged\n")


def test_a_table_without_a_column(data: Path) -> None:
    table = pq.read_table(data / "crops.parquet")
    pq.write_table(table.drop_columns(["age"]), data / "crops.parquet")
    sign(data)
    code, lines = verify(data, "--quick")
    assert code == 1 and "crops.parquet: its columns are not those of format 1" in lines


@pytest.mark.parametrize(("field", "what"), [("record", "record"), ("patient", "patient"), ("content", "content")])
def test_a_leak_between_splits(data: Path, field: str, what: str) -> None:
    def change(rows: list[dict]) -> None:
        train = next(row for row in rows if row["split"] == "train" and row["samples"] == 5000)
        test = next(row for row in rows if row["split"] == "diagnosis-test" and row["samples"] == 5000)
        if field == "content":
            test["content"][1] = train["content"][0]  # a segment, not the whole
        else:
            train[field] = test[field] = "P1"

    change_crops(data, change)
    code, lines = verify(data, "--quick")
    assert code == 1 and any(line.startswith(f"{what} ") for line in lines.splitlines())


def test_what_is_no_dataset(tmp_path: Path, data: Path) -> None:
    assert verify(tmp_path / "nowhere") == (1, f"error: {tmp_path}/nowhere: no dataset folder: no dataset.json\n")
    (data / "dataset.json").write_text("{")
    assert verify(data) == (1, f"error: {data}/dataset.json: damaged\n")


def test_a_dataset_cannot_name_files_outside(data: Path) -> None:
    about = json.loads((data / "dataset.json").read_text())
    about["tables"][0]["name"] = "../../etc/passwd"
    (data / "dataset.json").write_text(json.dumps(about))
    code, lines = verify(data)
    assert code == 1 and "names a file outside the folder" in lines
