import json
import mmap
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from data_tools.crops import LEADS as DATA_LEADS
from data_tools.names import FORMAT as DATA_FORMAT
from data_tools.names import VIEWS
from engine.data.chance import LEADS
from engine.data.dataset import TRAINING_VIEWS, Dataset, open_dataset
from engine.data.description import FORMAT
from tests.engine.conftest import shard
from tests.recordings import noise, write


def copy(dataset: Path, to: Path) -> Path:
    return Path(shutil.copytree(dataset, to / "copy"))


def contents(dataset: Dataset) -> set[bytes]:
    samples = np.arange(len(dataset))
    return {segment.tobytes() for crop in dataset.signals(dataset.rows(samples)) for segment in crop}


def test_the_two_halves_agree_on_the_contract() -> None:
    assert list(LEADS) == list(DATA_LEADS)
    assert FORMAT == DATA_FORMAT
    assert set(TRAINING_VIEWS) <= {view for views in VIEWS.values() for view in views}


@pytest.mark.parametrize("view", ["pretrain", "diagnosis-train", "identification-valid", "identification-gallery"])
def test_samples_are_what_crops_parquet_says(dataset: Path, view: str) -> None:
    opened = open_dataset([str(dataset)], view, pairs=view == "pretrain")
    rows = opened.rows(np.arange(len(opened)))
    signals, keys = opened.signals(rows), opened.keys(np.arange(len(opened)))
    crops = {crop["key"]: crop for crop in pq.read_table(dataset / "crops.parquet").to_pylist()}
    stored = {
        key: np.fromfile(dataset / crop["file"], "<i2", 12 * crop["samples"], offset=crop["offset"])
        for key, crop in crops.items()
    }
    for number, (key, signal) in enumerate(zip(keys, signals, strict=True)):
        assert signal.shape == (opened.segments, 2500, 12)
        whole = stored[key].reshape(-1, 12)
        flat = signal.reshape(-1, 12)
        starts = [start for start in range(len(whole) - len(flat) + 1) if (whole[start] == flat[0]).all()]
        assert any((whole[start : start + len(flat)] == flat).all() for start in starts)
        masks = [sum(1 << lead for lead in np.flatnonzero(present)) for present in rows.present[number]]
        assert set(masks) <= set(crops[key]["lead_mask"])
        assert rows.classes[number] == crops[key]["classes"]
    subjects = [crops[key]["patient"] or crops[key]["record"] for key in keys]
    assert len(set(zip(subjects, rows.identity.tolist(), strict=True))) == len(set(subjects)) == opened.identities


def test_pairs_and_their_segments(dataset: Path) -> None:
    pairs = open_dataset([str(dataset)], "pretrain", pairs=True)
    segments = open_dataset([str(dataset)], "pretrain")
    assert len(segments) == 2 * len(pairs) and (segments.counts == 2 * pairs.counts).all()
    whole = pairs.signals(pairs.rows(np.arange(len(pairs))))
    single = segments.signals(segments.rows(np.arange(len(segments))))
    assert all((whole[n // 2][n % 2] == single[n][0]).all() for n in range(len(segments)))
    assert pairs.counts.sum() == len(pairs)


def test_nothing_is_copied(dataset: Path) -> None:
    opened = open_dataset([str(dataset)], "pretrain", pairs=True)
    signal = opened.signals(opened.rows(np.array([3])))[0]
    while isinstance(signal.base, np.ndarray):
        signal = signal.base
    assert isinstance(signal.base, (mmap.mmap, memoryview)) and not signal.flags.writeable


def test_tar_and_zarr_hold_the_same_samples(dataset: Path, zarr_dataset: Path) -> None:
    for view in ("pretrain", "diagnosis-valid"):
        tar, zarr = (open_dataset([str(path)], view) for path in (dataset, zarr_dataset))
        assert sorted(tar.keys(np.arange(len(tar)))) == sorted(zarr.keys(np.arange(len(zarr))))
        assert contents(tar) == contents(zarr)


def test_a_folder_of_the_home(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(dataset.parent))
    assert len(open_dataset([f"~/{dataset.name}"], "pretrain")) == len(open_dataset([str(dataset)], "pretrain"))


class TestDamage:
    """Each is found before training starts, and said in one line."""

    def test_a_missing_file(self, dataset: Path, tmp_path: Path) -> None:
        broken = copy(dataset, tmp_path)
        (broken / "train" / "shard-000001.tar").unlink()
        with pytest.raises(ValueError, match=r"shard-000001.tar is missing; restore it, or make the dataset again"):
            open_dataset([str(broken)], "pretrain")

    def test_a_truncated_file(self, dataset: Path, tmp_path: Path) -> None:
        broken = copy(dataset, tmp_path)
        path = broken / "train" / "shard-000000.tar"
        path.write_bytes(path.read_bytes()[:-512])
        with pytest.raises(ValueError, match=rf"{path} has \d+ bytes instead of \d+; restore it"):
            open_dataset([str(broken)], "pretrain")

    def test_a_flipped_byte_where_it_is_asked_for(self, dataset: Path, tmp_path: Path) -> None:
        broken = copy(dataset, tmp_path)
        path = broken / "train" / "shard-000000.tar"
        data = bytearray(path.read_bytes())
        data[5000] ^= 1
        path.write_bytes(data)
        open_dataset([str(broken)], "pretrain")
        with pytest.raises(ValueError, match=rf"{path} is damaged"):
            open_dataset([str(broken)], "pretrain", verify=True)
        open_dataset([str(dataset)], "pretrain", verify=True)

    @pytest.mark.parametrize("column", ["offset", "crop"])
    def test_a_truncated_view(self, dataset: Path, tmp_path: Path, column: str) -> None:
        broken = copy(dataset, tmp_path)
        path = broken / "views" / "pretrain" / f"{column}.npy"
        path.write_bytes(path.read_bytes()[:-8])
        with pytest.raises(ValueError, match=rf"{column}.npy has \d+ bytes"):
            open_dataset([str(broken)], "pretrain")

    def test_no_dataset(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="there is no such folder"):
            open_dataset([str(tmp_path / "nowhere")], "pretrain")
        with pytest.raises(ValueError, match="is no dataset folder: it has no dataset.json"):
            open_dataset([str(tmp_path)], "pretrain")

    def test_a_description_that_is_none(self, dataset: Path, tmp_path: Path) -> None:
        broken = copy(dataset, tmp_path)
        (broken / "dataset.json").write_text("{")
        with pytest.raises(ValueError, match=r"dataset.json is no JSON"):
            open_dataset([str(broken)], "pretrain")

    def test_another_format(self, dataset: Path, tmp_path: Path) -> None:
        broken = copy(dataset, tmp_path)
        description = json.loads((broken / "dataset.json").read_text()) | {"format": 2}
        (broken / "dataset.json").write_text(json.dumps(description))
        with pytest.raises(ValueError, match="format is 2, which should be 1"):
            open_dataset([str(broken)], "pretrain")

    @pytest.mark.parametrize("part", ["name", "bytes", "sha256"])
    @pytest.mark.parametrize("listed", ["files", "tables"])
    def test_an_entry_that_describes_no_file(self, dataset: Path, tmp_path: Path, listed: str, part: str) -> None:
        broken = copy(dataset, tmp_path)
        description = json.loads((broken / "dataset.json").read_text())
        del description[listed][0][part]
        (broken / "dataset.json").write_text(json.dumps(description))
        with pytest.raises(ValueError, match=rf"^{broken}/dataset.json describes .* without its {part}; restore it"):
            open_dataset([str(broken)], "pretrain")

    @pytest.mark.parametrize("name", ["crops.parquet", "views/pretrain/offset.npy"])
    def test_a_table_that_is_not_listed(self, dataset: Path, tmp_path: Path, name: str) -> None:
        broken = copy(dataset, tmp_path)
        description = json.loads((broken / "dataset.json").read_text())
        description["tables"] = [entry for entry in description["tables"] if entry["name"] != name]
        (broken / "dataset.json").write_text(json.dumps(description))
        with pytest.raises(ValueError, match=rf"^{broken}/dataset.json lists no {name}; restore it"):
            open_dataset([str(broken)], "pretrain").keys(np.arange(1))

    def test_a_view_that_is_not_there(self, dataset: Path) -> None:
        with pytest.raises(ValueError, match="has no view 'pretrian'; it has diagnosis-test, .* --views"):
            open_dataset([str(dataset)], "pretrian")

    def test_pairs_of_a_view_of_segments(self, dataset: Path) -> None:
        with pytest.raises(ValueError, match="pairs are asked of a view of single segments"):
            open_dataset([str(dataset)], "diagnosis-train", pairs=True)


def test_a_changed_dataset_has_another_fingerprint(dataset: Path, zarr_dataset: Path, tmp_path: Path) -> None:
    moved = copy(dataset, tmp_path)
    assert open_dataset([str(moved)], "pretrain").fingerprints == open_dataset([str(dataset)], "pretrain").fingerprints
    assert (
        open_dataset([str(zarr_dataset)], "pretrain").fingerprints
        != open_dataset([str(moved)], "pretrain").fingerprints
    )


@pytest.fixture(scope="module")
def other(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hospital's folder: 30 recordings of its own, and some of the public archive, under other names, by content."""
    raw = tmp_path_factory.mktemp("hospital")
    for number in range(30):
        write(raw, f"own{number}", noise(9000 + number))
    for number in range(1, 13):
        write(raw, f"cpsc{number}", noise(number, 5000 + 2500 * (number % 4)))
    for number in range(1, 27):
        write(raw, f"ptbxl{number}", noise(400 + number))
    return shard(raw, tmp_path_factory.mktemp("other") / "set")


def test_what_one_folder_holds_out_no_other_trains_on(dataset: Path, other: Path) -> None:
    together = open_dataset([str(dataset), str(other)], "pretrain", pairs=True)
    alone = [open_dataset([str(path)], "pretrain", pairs=True) for path in (dataset, other)]
    assert len(together) < len(alone[0]) + len(alone[1])
    trained = contents(together)
    held_out = set()
    for path in (dataset, other):
        crops = pq.read_table(path / "crops.parquet").to_pylist()
        for crop in crops:
            if crop["split"] != "train":
                data = np.fromfile(path / crop["file"], "<i2", 12 * crop["samples"], offset=crop["offset"])
                held_out |= {segment.tobytes() for segment in data.reshape(-1, 2500, 12)}
    assert len(held_out & (contents(alone[0]) | contents(alone[1]))) > 10  # what the check is for
    assert not trained & held_out
    # No more than that is left out, and what stands in both is there once.
    whole = {
        segment.tobytes()
        for one in alone
        for crop in one.signals(one.rows(np.arange(len(one))))
        if not {segment.tobytes() for segment in crop} & held_out
        for segment in crop
    }
    assert trained <= whole and len(whole - trained) <= 24  # neighbours in the records of what is held out
    assert 2 * len(together) == len(trained)


def test_several_folders_are_numbered_one_after_another(dataset: Path, other: Path) -> None:
    together = open_dataset([str(dataset), str(other)], "pretrain-valid", pairs=True)
    alone = [open_dataset([str(path)], "pretrain-valid", pairs=True) for path in (dataset, other)]
    assert len(together) == len(alone[0]) + len(alone[1])
    assert together.keys(np.arange(len(together))) == [key for one in alone for key in one.keys(np.arange(len(one)))]
    rows = together.rows(np.arange(len(together)))
    assert len(set(rows.identity.tolist())) == together.identities == sum(one.identities for one in alone)
    shuffled = np.random.default_rng(0).permutation(len(together))
    again = together.signals(together.rows(shuffled))
    straight = together.signals(rows)
    assert all((again[place] == straight[number]).all() for place, number in enumerate(shuffled))


def test_a_record_of_which_a_part_is_held_out_elsewhere_is_left_out_whole(dataset: Path, tmp_path: Path) -> None:
    """The hospital's recordings begin with a held-out one of the public archive, and go on."""
    crops = [crop for crop in pq.read_table(dataset / "crops.parquet").to_pylist() if crop["samples"] == 5000]
    held_out = [crop for crop in crops if crop["split"] not in ("train", "pretrain-valid")][:12]
    for number, crop in enumerate(held_out):
        first = np.fromfile(dataset / crop["file"], "<i2", 60_000, offset=crop["offset"]).reshape(5000, 12)
        write(tmp_path / "raw", f"long{number}", np.concatenate([first, noise(7000 + number, 10_000)]))
    for number in range(20):
        write(tmp_path / "raw", f"own{number}", noise(8000 + number))
    hospital = shard(tmp_path / "raw", tmp_path / "set")
    together = open_dataset([str(dataset), str(hospital)], "pretrain", pairs=True)
    tails = {segment.tobytes() for n in range(12) for segment in noise(7000 + n, 10_000).reshape(4, 2500, 12)}
    assert tails & contents(open_dataset([str(hospital)], "pretrain", pairs=True))
    assert not tails & contents(together)


def test_the_validation_of_identification_is_held_out_elsewhere_too(
    archive: Path, dataset: Path, tmp_path: Path
) -> None:
    """The same archive with another seed: other splits, other validation."""
    raw = Path(shutil.copytree(archive, tmp_path / "raw"))
    for number in range(30):  # so that something is left of it
        write(raw / "training" / "chapman_shaoxing" / "g1", f"JS{100 + number:05d}", noise(5000 + number))
    metadata = ("--ptbxl-metadata", str(raw / "ptbxl_database.csv"))
    other_seed = shard(raw / "training", tmp_path / "set", "--seed", "7", *metadata)
    folders = [str(dataset), str(other_seed)]
    trained = contents(open_dataset(folders, "identification-train"))
    for folder in folders:
        assert contents(open_dataset([folder], "identification-train"))
        assert not trained & contents(open_dataset([folder], "identification-valid"))


def test_what_stands_in_two_folders_is_taken_from_the_first(dataset: Path, zarr_dataset: Path) -> None:
    with pytest.raises(ValueError, match="all of it is in another of the datasets, or held out there"):
        open_dataset([str(dataset), str(zarr_dataset)], "pretrain")


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 1}'])
def test_json_that_describes_no_dataset(tmp_path: Path, text: str) -> None:
    (tmp_path / "dataset.json").write_text(text)
    with pytest.raises(ValueError, match="dataset.json describes no dataset of format 1"):
        open_dataset([str(tmp_path)], "pretrain")
