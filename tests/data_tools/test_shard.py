"""The command as a whole: what is in the dataset, that nothing leaks or gets lost, and that nothing stops it."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import wfdb

from benchmarks import archives
from data_tools.crops import LEADS, SEGMENT
from data_tools.views import open_view
from tests.recordings import noise, public_archive, write

ROOT = Path(__file__).parents[2]


def run(*arguments: object, code: int = 0, **options: Any) -> str:
    """-> what `python -m data_tools.shard` prints, its error included."""
    command = [sys.executable, "-m", "data_tools.shard", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def fingerprint(data: Path) -> dict[str, str]:
    files = [path for path in data.rglob("*") if path.is_file()]
    return {path.relative_to(data).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files}


def rows(data: Path, table: str = "crops") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(data / f"{table}.parquet").to_pylist()
    return found


def description(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((data / "dataset.json").read_text())
    return found


def stored(data: Path, row: dict[str, Any]) -> np.ndarray:
    return np.memmap(data / row["file"], "<i2", "r", row["offset"], (row["samples"], len(LEADS)))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return public_archive(tmp_path_factory.mktemp("archive") / "raw")


@pytest.fixture(scope="module")
def dataset(archive: Path) -> Path:
    data = archive.with_name("data")
    run(archive, "--out", data, "--workers", 1, "--shard-mb", 2)
    return data


# --- content ---


def test_all_views_are_there_and_counts_agree(dataset: Path) -> None:
    about = description(dataset)
    views = {path.name: open_view(path) for path in (dataset / "views").iterdir()}
    assert set(views) == {
        *("pretrain", "pretrain-valid", "diagnosis-train", "diagnosis-valid", "diagnosis-test"),
        *("identification-train", "identification-valid", "identification-gallery", "identification-probe"),
    }
    assert {name: len(view["crop"]) for name, view in views.items()} == about["views"]
    assert about["crops"]["in"] == about["crops"]["kept"] + about["crops"]["rejected"]
    assert len(rows(dataset)) == about["crops"]["kept"] == sum(file["crops"] for file in about["files"])
    # 12 of CPSC have 7.5, 10, 12.5 or 5 * 5000 samples ... counted by hand: 3 x (1 + 2 + 2 + 1) crops
    assert sum(row["cohort"] == "cpsc_2018" for row in rows(dataset)) == 3 * (2 + 2 + 3 + 1)
    assert about["seconds_left_over"] == 0


def test_crops_are_the_recordings_samples(dataset: Path) -> None:
    by_record = {row["record"]: row for row in rows(dataset) if row["start"] == 0}
    assert (stored(dataset, by_record["E00005"]) == noise(105, 2500)).all()
    assert (stored(dataset, by_record["JS10007"]) == noise(307)).all()
    last = next(row for row in rows(dataset) if row["record"] == "A0003" and row["start"] == 10_000)
    assert (stored(dataset, last) == noise(3, 12_500)[10_000:]).all()


def test_view_rows_point_to_segments_of_their_crop(dataset: Path) -> None:
    crops = rows(dataset)
    files = [file["name"] for file in description(dataset)["files"]]
    for name in description(dataset)["views"]:
        view = open_view(dataset / "views" / name)
        for row in range(len(view["crop"])):
            crop = crops[view["crop"][row]]
            start = (view["offset"][row] - crop["offset"]) // (2 * len(LEADS))
            assert files[view["file"][row]] == crop["file"]
            assert 0 <= start <= crop["samples"] - view["samples"][row]
            assert view["samples"][row] == (2 * SEGMENT if name.startswith("pretrain") else SEGMENT)
            assert view["classes"][row] == crop["classes"] == 1 << 14  # NSR


def test_gallery_and_probe_are_the_same_patients_in_the_same_order(dataset: Path) -> None:
    crops = rows(dataset)
    gallery, probe = (open_view(dataset / "views" / f"identification-{name}") for name in ("gallery", "probe"))
    assert len(gallery["crop"]) == 10
    assert gallery["identity"].tolist() == probe["identity"].tolist() == list(range(10))
    for a, b in zip(gallery["crop"], probe["crop"], strict=True):
        assert crops[a]["patient"] == crops[b]["patient"] and crops[a]["record"] != crops[b]["record"]
    starts = {
        (view["offset"][i] - crops[view["crop"][i]]["offset"]) // 24 for view in (gallery, probe) for i in range(10)
    }
    assert len(starts) > 10  # any sample, not only segment borders


def test_identification_valid_is_a_tenth_of_the_records_two_segments_each(dataset: Path) -> None:
    train, valid = (open_view(dataset / "views" / f"identification-{name}") for name in ("train", "valid"))
    records = np.array([row["record"] for row in rows(dataset)])
    subjects = set(records[train["crop"]]) | set(records[valid["crop"]])
    assert len(set(records[valid["crop"]])) == round(len(subjects) / 10)
    assert np.bincount(valid["identity"]).tolist() == [2] * len(set(records[valid["crop"]]))
    assert not set(records[train["crop"]]) & set(records[valid["crop"]])
    assert set(train["identity"]) == set(range(len(set(records[train["crop"]]))))


def test_ages_and_patients_come_from_the_table_of_ptbxl(dataset: Path) -> None:
    of_ptbxl = {row["record"]: row for row in rows(dataset) if row["cohort"] == "ptb-xl"}
    assert of_ptbxl["HR00003"]["patient"] == of_ptbxl["HR00004"]["patient"] == "ptb-xl-2"
    assert of_ptbxl["HR00003"]["age"] == 60  # the header's own, before the table's


# --- splits ---


def records_of(data: Path, view: str) -> set[str]:
    crops = rows(data)
    return {crops[crop]["record"] for crop in open_view(data / "views" / view)["crop"]}


def test_nothing_held_out_is_trained_on(dataset: Path) -> None:
    pretrain = records_of(dataset, "pretrain")
    held_out = {name: records_of(dataset, name) for name in ("pretrain-valid", "diagnosis-valid", "diagnosis-test")}
    patients = {row["record"] for row in rows(dataset) if row["split"] == "identification-test"}
    assert patients == {f"HR{number:05d}" for number in range(1, 21)}
    for records in (*held_out.values(), patients):
        assert records and not records & pretrain
    assert not records_of(dataset, "diagnosis-train") & (held_out["diagnosis-valid"] | held_out["diagnosis-test"])
    assert len(held_out["diagnosis-valid"]) == len(held_out["diagnosis-test"]) == 2  # of 24
    assert len(records_of(dataset, "diagnosis-train")) == 20


def test_neighbouring_segments_of_a_recording_are_in_one_split(dataset: Path) -> None:
    splits: dict[str, set[str]] = {}
    for row in rows(dataset):
        splits.setdefault(row["record"], set()).add(row["split"])
    assert any(row["start"] > 0 for row in rows(dataset))
    assert all(len(names) == 1 for names in splits.values())


def test_a_twin_under_another_name_or_cohort_is_kept_once(archive: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    shutil.copytree(archive, raw)
    g1 = raw / "training"
    for number in range(1, 13):  # every one of Georgia's, held out or not, again in Ningbo
        write(g1 / "ningbo" / "g2", f"JS{20_000 + number}", noise(100 + number, 2500 if number == 5 else 5000))
    write(g1 / "ptb-xl" / "g1", "HR00002", noise(401))  # patient 1: the same recording twice
    data = tmp_path / "data"
    run(raw, "--out", data, "--workers", 1)
    twins = {row["record"]: row["detail"] for row in rows(data, "rejected")}
    assert twins == {f"JS{20_000 + n}": f"E{n:05d}" for n in range(1, 13)} | {"HR00002": "HR00001"}
    assert {row["reason"] for row in rows(data, "rejected")} == {"same content as another recording"}
    gallery = open_view(data / "views" / "identification-gallery")
    assert "ptb-xl-1" not in {rows(data)[crop]["patient"] for crop in gallery["crop"]}


def test_recordings_that_share_a_segment_are_in_one_split(archive: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    shutil.copytree(archive, raw)
    for number in range(1, 13):  # Georgia's second half is the first of a recording of Ningbo
        signal = np.concatenate([noise(100 + number)[SEGMENT:], noise(900 + number, SEGMENT)])
        write(raw / "training" / "ningbo" / "g2", f"JS{20_000 + number}", signal)
    data = tmp_path / "data"
    run(raw, "--out", data, "--workers", 1)
    split = {row["record"]: row["split"] for row in rows(data)}
    shared = [number for number in range(1, 13) if number != 5]  # E00005 has 5 s only
    assert all(split[f"E{number:05d}"] == split[f"JS{20_000 + number}"] for number in shared)
    assert {"diagnosis-test", "diagnosis-valid"} <= set(split.values())


def test_file_order_and_names_of_folders_change_nothing(archive: Path, dataset: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for header in sorted(archive.rglob("*.hea"), reverse=True):
        folder = raw / header.relative_to(archive).parent.with_name("g7")
        folder.mkdir(parents=True, exist_ok=True)
        for path in (header, header.with_suffix(".mat")):
            shutil.copy(path, folder)
    shutil.copy(archive / "ptbxl_database.csv", raw)
    run(raw, "--out", tmp_path / "data", "--workers", 1, "--shard-mb", 2)
    assert fingerprint(tmp_path / "data") == fingerprint(dataset)


def test_what_one_dataset_pretrains_on_no_other_tests_on(archive: Path, dataset: Path, tmp_path: Path) -> None:
    run(archive, "--out", tmp_path / "p", "--workers", 1, "--views", "pretrain")
    run(archive, "--out", tmp_path / "d", "--workers", 1, "--views", "diagnosis")
    tested = records_of(tmp_path / "d", "diagnosis-test") | records_of(tmp_path / "d", "diagnosis-valid")
    patients = {row["record"] for row in rows(dataset) if row["split"] == "identification-test"}
    assert tested and patients and not (tested | patients) & records_of(tmp_path / "p", "pretrain")


def test_identification_shares_no_content_between_train_and_valid(tmp_path: Path) -> None:
    chapman = tmp_path / "raw" / "chapman_shaoxing"
    for number in range(1, 31):  # pairs of recordings share their second half
        signal = np.concatenate([noise(number)[:SEGMENT], noise(1000 + number // 2, SEGMENT)])
        write(chapman, f"JS{number:05d}", signal)
    ptbxl = tmp_path / "raw" / "ptb-xl"
    for number in range(1, 5):
        write(ptbxl, f"HR{number:05d}", noise(2000 + number))
    table = ["ecg_id,patient_id,age,sex", *(f"{n},{n // 3},50,0" for n in range(1, 5)), ""]
    (tmp_path / "raw" / "ptbxl_database.csv").write_text("\n".join(table))
    run(tmp_path / "raw", "--out", tmp_path / "data", "--workers", 1)
    contents = []
    for name in ("train", "valid"):
        view = open_view(tmp_path / "data" / "views" / f"identification-{name}")
        contents.append({content for crop in view["crop"] for content in rows(tmp_path / "data")[crop]["content"]})
    assert contents[1] and not contents[0] & contents[1]


def test_recordings_of_ptbxl_that_its_table_lacks_are_refused(archive: Path, tmp_path: Path) -> None:
    raw = Path(shutil.copytree(archive, tmp_path / "raw"))
    write(raw / "training" / "ptb-xl" / "g1", "HR00027", noise(427))
    run(raw, "--out", tmp_path / "data", "--workers", 1)
    assert [(row["record"], row["reason"]) for row in rows(tmp_path / "data", "rejected")] == [
        ("HR00027", "patient unknown to PTB-XL's table")
    ]


def test_of_two_copies_the_labelled_one_is_kept(archive: Path, tmp_path: Path) -> None:
    raw = Path(shutil.copytree(archive, tmp_path / "raw"))
    for number in range(1, 27):
        write(raw / "records500" / "00000", f"{number:05d}_hr", noise(400 + number), comments=[], head=b"")
    data = tmp_path / "data"
    run(raw, "--out", data, "--workers", 1)
    of_ptbxl = [row for row in rows(data) if row["cohort"] == "ptb-xl"]
    assert len(of_ptbxl) == 26 and all(row["classes"] for row in of_ptbxl)


def test_a_dropped_twin_takes_no_name_from_another(archive: Path, tmp_path: Path) -> None:
    raw = Path(shutil.copytree(archive, tmp_path / "raw"))
    write(raw / "training" / "chapman_shaoxing" / "g1", "JS30000", noise(2, 10_000))  # A0002's, and dropped for it
    write(raw / "training" / "ningbo" / "g1", "JS30000", noise(9999))
    data = tmp_path / "data"
    run(raw, "--out", data, "--workers", 1)
    assert [row["cohort"] for row in rows(data) if row["record"] == "JS30000"] == ["ningbo"]


# --- one result, however it is made ---


def test_two_workers_make_the_same_bytes(archive: Path, dataset: Path, tmp_path: Path) -> None:
    run(archive, "--out", tmp_path / "data", "--workers", 2, "--shard-mb", 2)
    assert fingerprint(tmp_path / "data") == fingerprint(dataset)


def test_a_dask_cluster_makes_the_same_bytes(archive: Path, dataset: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:  # type: ignore[no-untyped-call]
        run(archive, "--out", tmp_path / "data", "--cluster", cluster.scheduler_address, "--shard-mb", 2)
    assert fingerprint(tmp_path / "data") == fingerprint(dataset)


def test_zarr_holds_the_same_crops(archive: Path, dataset: Path, tmp_path: Path) -> None:
    import zarr

    data = tmp_path / "data"
    run(archive, "--out", data, "--workers", 1, "--shard-mb", 2, "--format", "zarr")
    in_tar, in_zarr = rows(dataset), rows(data)
    assert [row["key"] for row in in_tar] == [row["key"] for row in in_zarr]
    place: dict[str, int] = {}
    for a, b in zip(in_tar, in_zarr, strict=True):
        assert (stored(dataset, a) == stored(data, b)).all()
        place[b["split"]] = index = place.get(b["split"], -1) + 1
        array = zarr.open_array(str(data / f"{b['split']}.zarr"), mode="r")
        assert (np.asarray(array[index])[: b["samples"]] == stored(dataset, a)).all()


def start_and_kill(raw: Path, data: Path, *arguments: str, once: Callable[[], bool], group: bool = False) -> bool:
    """Kills the first process, or with `group` every one; -> False if it was done before that."""
    command = [sys.executable, "-m", "data_tools.shard", str(raw), "--out", str(data), *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while not once():
            if process.poll() is not None:
                assert process.returncode == 0
                return False
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
    return True


@pytest.mark.parametrize("moment", ["job.json", "checked/*.parquet", "data/train/*.tar", "packed/*.json"])
def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(
    archive: Path, dataset: Path, tmp_path: Path, moment: str
) -> None:
    data, partial = tmp_path / "data", tmp_path / "data.partial"
    arguments = ["--workers", "2", "--shard-mb", "2"]
    assert start_and_kill(archive, data, *arguments, once=lambda: any(partial.glob(moment)))
    assert not data.exists()
    run(archive, "--out", data, *arguments)
    assert fingerprint(data) == fingerprint(dataset)
    assert os.listdir(tmp_path) == ["data"]


def test_a_full_disk_is_one_line_and_no_loss(archive: Path, dataset: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk: the first write beyond it fails just so."""
    limit = 1_000_000

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    message = run(archive, "--out", tmp_path / "data", "--workers", 1, "--shard-mb", 2, code=1, preexec_fn=limited)
    assert message.splitlines()[-1].startswith("error: ") and "File too large" in message
    assert not (tmp_path / "data").exists()
    run(archive, "--out", tmp_path / "data", "--workers", 1, "--shard-mb", 2)
    assert fingerprint(tmp_path / "data") == fingerprint(dataset)


def test_a_shard_damaged_between_two_runs_is_made_again(archive: Path, dataset: Path, tmp_path: Path) -> None:
    partial = tmp_path / "data.partial"
    start_and_kill(archive, tmp_path / "data", once=lambda: any(partial.glob("packed/*.json")))
    done = next(partial.glob("packed/*.json"))
    shard = partial / "data" / f"{json.loads(done.read_text())['name']}.tar"
    os.truncate(shard, 1000)
    run(archive, "--out", tmp_path / "data", "--workers", 1, "--shard-mb", 2)
    assert fingerprint(tmp_path / "data") == fingerprint(dataset)


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path: Path) -> None:
    raw, data = tmp_path / "raw", tmp_path / "data"
    archives.make(raw, 4000, source=None)
    arguments = ["--views", "pretrain", "--workers", "2", "--shard-mb", "8"]
    begin = time.monotonic()
    run(raw, "--out", data, *arguments)
    expected, seconds = fingerprint(data), time.monotonic() - begin
    shutil.rmtree(data)
    chance = np.random.default_rng(0)
    kills = finished = 0
    while kills < 20:
        passed = threading.Event()
        timer = threading.Timer(chance.uniform(0, seconds), passed.set)
        timer.start()
        if start_and_kill(raw, data, *arguments, once=passed.is_set, group=bool(chance.integers(2))):
            kills += 1
            assert not data.exists() or fingerprint(data) == expected  # killed as it cleaned up behind itself
        else:
            finished += 1
        timer.cancel()
        if data.exists():
            assert fingerprint(data) == expected
            shutil.rmtree(data)
            shutil.rmtree(data.with_name("data.partial"), ignore_errors=True)
    run(raw, "--out", data, *arguments)
    assert fingerprint(data) == expected
    print(f"{kills} kills, {finished + 1} runs finished between them")


def fails_in(archive: Path, data: Path, module: str, function: str, *options: str) -> None:
    """A run that stops where `function` is called."""
    code = (
        f"import sys; from data_tools import {module}, shard\n"
        f"def fail(*arguments): raise OSError('stopped')\n"
        f"{module}.{function} = fail; sys.exit(shard.main())"
    )
    arguments = [str(archive), "--out", str(data), "--workers", "1", "--shard-mb", "2", *options]
    assert subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True).returncode == 1


@pytest.mark.parametrize("function", ["tables", "zarr_metadata", "describe"])
def test_stopped_while_it_publishes_it_goes_on(archive: Path, tmp_path: Path, function: str) -> None:
    run(archive, "--out", tmp_path / "expected", "--workers", 1, "--shard-mb", 2, "--format", "zarr")
    fails_in(archive, tmp_path / "data", "publish", function, "--format", "zarr")
    run(archive, "--out", tmp_path / "data", "--workers", 1, "--shard-mb", 2, "--format", "zarr")
    assert fingerprint(tmp_path / "data") == fingerprint(tmp_path / "expected")


def test_killed_while_it_cleans_up_it_is_done(archive: Path, dataset: Path, tmp_path: Path) -> None:
    fails_in(archive, tmp_path / "data", "publish", "tables")
    partial = tmp_path / "data.partial"
    shutil.rmtree(partial / "data")
    shutil.copytree(dataset, tmp_path / "data")
    run(archive, "--out", tmp_path / "data", "--workers", 1, "--shard-mb", 2)
    assert os.listdir(tmp_path) == ["data"] and fingerprint(tmp_path / "data") == fingerprint(dataset)


# --- what goes wrong ---


def test_one_bad_file_never_stops_a_run(archive: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    shutil.copytree(archive, raw)
    g1 = raw / "training" / "georgia" / "g1"
    os.truncate(g1 / "E00001.mat", 1000)
    (g1 / "E00002.hea").write_bytes(b"\xff\xfe\x00 not a header")
    (g1 / "E00003.mat").unlink()
    (g1 / "E00004.hea").unlink()
    write(g1, "E00006", noise(6, 2499))
    write(g1, "E00007", np.full((5000, 12), 3, np.int16))
    header = write(g1, "E00008", noise(108))
    header.write_text(header.read_text().replace("E00008.mat", "../g1/E00008.mat"))
    os.mkfifo(g1 / "E00013.hea")
    data = tmp_path / "data"
    run(raw, "--out", data, "--workers", 1)
    assert {row["record"]: row["reason"] for row in rows(data, "rejected")} == {
        "E00001": "signal file is shorter than its header says",
        "E00002": "header is malformed",
        "E00003": "a file of the recording is missing",
        "E00004": "no header goes with this file",
        "E00006": "shorter than 5 s",
        "E00007": "no usable lead",
        "E00008": "header names a file outside its folder",
        "E00013": "a file of the recording is no ordinary file",
    }
    about = description(data)
    assert about["crops"]["rejected"] == 8 and about["crops"]["in"] == about["crops"]["kept"] + 8


def test_a_recording_that_changes_meanwhile_is_noticed(archive: Path, tmp_path: Path) -> None:
    raw, data = Path(shutil.copytree(archive, tmp_path / "raw")), tmp_path / "data"
    start_and_kill(raw, data, once=lambda: any(data.with_name("data.partial").glob("checked/*.parquet")))
    write(raw / "training" / "georgia" / "g1", "E00001", noise(1234))
    message = run(raw, "--out", data, "--workers", 1, code=1)
    assert "E00001.hea: has changed since it was checked" in message


def test_wrong_gains_are_corrected_and_counted(tmp_path: Path) -> None:
    georgia = tmp_path / "raw" / "training" / "georgia" / "g1"
    for number in range(1, 31):
        write(georgia, f"E{number:05d}", noise(number), gain="4880/mV" if number <= 3 else "1000/mV")
    run(tmp_path / "raw", "--out", tmp_path / "data", "--workers", 1)
    assert description(tmp_path / "data")["found"]["gain corrected/georgia"] == 3
    first = next(row for row in rows(tmp_path / "data") if row["record"] == "E00001")
    assert (stored(tmp_path / "data", first) == noise(1)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: no such folder of recordings"),
        (["{raw}", "--cohorts", "ptb"], "no recordings of ptb there"),
        (["{raw}", "--cohorts", "georgia,ptb"], "no recordings of ptb there"),
        (["{raw}", "--cohorts", "gorgia"], "'gorgia' is none of"),
        (["{raw}", "--shard-mb", "9" * 30], "is no number from 1"),
        (["{raw}", "--workers", "2", "--cluster", "tcp://127.0.0.1:1"], "--workers has no effect beside --cluster"),
        (["{raw}", "--cohorts", "ningbo", "--ptbxl-metadata", __file__], "there are no recordings of PTB-XL"),
        (["{raw}", "--views", "diagnose"], "'diagnose' is none of"),
        (["{raw}", "--workers", "0"], "'0' is no number from 1"),
        (["{raw}", "--ptbxl-metadata", "{raw}/training/georgia/g1/E00001.hea"], "is not PTB-XL's"),
        (["{raw}", "--ptbxl-metadata", "nowhere.csv"], "nowhere.csv"),
        (["{raw}", "--cohorts", "ningbo", "--views", "diagnosis"], "nothing for the view diagnosis-test"),
        (["{raw}", "--cluster", "tcp://127.0.0.1:1"], "no Dask scheduler answers there"),
    ],
)
def test_wrong_arguments_are_one_line(archive: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    filled = [argument.format(raw=archive) for argument in arguments]
    code = 2 if "is none of" in message or "no number" in message else 1
    last = run(*filled, "--out", tmp_path / "data", code=code).splitlines()[-1]
    assert "error: " in last and message in last
    assert not (tmp_path / "data").exists()


def test_a_dataset_is_never_changed(archive: Path, dataset: Path) -> None:
    before = fingerprint(dataset)
    assert "exists already" in run(archive, "--out", dataset, code=1)
    assert fingerprint(dataset) == before
    assert not dataset.with_name("data.partial").exists()


def test_other_recordings_do_not_go_on_with_a_begun_dataset(archive: Path, tmp_path: Path) -> None:
    fails_in(archive, tmp_path / "data", "publish", "tables", "--cohorts", "ningbo")
    message = run(archive, "--out", tmp_path / "data", code=1)
    assert "data.partial: begun with another --cohorts; remove it to start anew" in message
    note = tmp_path / "data.partial" / "job.json"
    note.write_text(note.read_text().replace('"version": "', '"version": "9.'))
    assert "begun by another version of leadwise" in run(archive, "--out", tmp_path / "data", code=1)
    note.write_text("")
    assert "job.json: is damaged" in run(archive, "--out", tmp_path / "data", code=1)


def test_a_finished_dataset_is_not_another_jobs(archive: Path, dataset: Path, tmp_path: Path) -> None:
    """Killed as it cleaned up, then started with other arguments; and an unfinished folder of another job stays."""
    fails_in(archive, tmp_path / "data", "publish", "tables")
    shutil.copytree(dataset, tmp_path / "data")
    assert "exists already" in run(archive, "--out", tmp_path / "data", "--workers", 1, code=1)
    assert (tmp_path / "data.partial" / "packed").exists()
    shutil.rmtree(tmp_path / "data.partial" / "data")
    for options in (["--views", "identification"], ["--seed", "9"], ["--cohorts", "ningbo"]):
        assert "exists already" in run(archive, "--out", tmp_path / "data", "--shard-mb", 2, *options, code=1)
    (tmp_path / "data" / "dataset.json").write_text("{}")
    assert "exists already" in run(archive, "--out", tmp_path / "data", "--shard-mb", 2, code=1)


def test_checks_that_a_power_cut_has_emptied_are_made_again(archive: Path, dataset: Path, tmp_path: Path) -> None:
    fails_in(archive, tmp_path / "data", "publish", "tables")
    os.truncate(tmp_path / "data.partial" / "checked" / "000000.parquet", 0)
    run(archive, "--out", tmp_path / "data", "--workers", 1, "--shard-mb", 2)
    assert fingerprint(tmp_path / "data") == fingerprint(dataset)


def test_other_splits_and_formats_go_on_with_what_was_checked(archive: Path, dataset: Path, tmp_path: Path) -> None:
    """A run of another format and seed fails once its shards are written; nothing of it is left in the next one's."""
    fails_in(archive, tmp_path / "data", "publish", "tables", "--format", "zarr", "--seed", "5")
    assert list((tmp_path / "data.partial" / "data").glob("train.zarr/c/*"))
    run(archive, "--out", tmp_path / "data", "--workers", 1, "--shard-mb", 2)
    assert fingerprint(tmp_path / "data") == fingerprint(dataset)


def test_nothing_is_written_into_the_archive(archive: Path) -> None:
    assert "lies inside RAW" in run(archive, "--out", archive / "data", code=1)


def test_identification_without_patients_is_refused_or_left_out(archive: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    shutil.copytree(archive / "training", raw / "training")
    assert "--ptbxl-metadata" in run(raw, "--out", tmp_path / "a", "--views", "identification", code=1)
    assert "left out: the views of identification" in run(raw, "--out", tmp_path / "b", "--workers", 1)
    assert not any(name.startswith("identification") for name in description(tmp_path / "b")["views"])


def test_a_labelled_cohort_without_labels_is_an_error(tmp_path: Path) -> None:
    georgia = tmp_path / "raw" / "georgia"
    for number in range(1, 31):
        write(georgia, f"E{number:05d}", noise(number), comments=["#Age: 50", "#Dx: "])
    assert "georgia: none of its 30 recordings has a scored class" in run(
        tmp_path / "raw", "--out", tmp_path / "d", code=1
    )


def test_a_mended_archive_is_read_again(tmp_path: Path) -> None:
    georgia = tmp_path / "raw" / "georgia"
    for number in range(1, 31):
        write(georgia, f"E{number:05d}", noise(number), comments=["#Dx: "])
    run(tmp_path / "raw", "--out", tmp_path / "data", code=1)
    for number in range(1, 31):
        write(georgia, f"E{number:05d}", noise(number))
    run(tmp_path / "raw", "--out", tmp_path / "data")
    assert len(rows(tmp_path / "data")) == 30


def test_segments_of_a_refused_recording_are_no_recordings_of_their_own(tmp_path: Path) -> None:
    raw = tmp_path / "hospital"
    for number in range(1, 4):
        write(raw, f"whole{number}", noise(100 + number))
        write(raw, f"part{number}", noise(number))
    (raw / "master.hea").write_text("master/3 12 500 15000\npart1 5000\npart2 5000\npart3 5000\n")
    os.truncate(raw / "part2.mat", 1000)
    run(raw, "--out", tmp_path / "data", "--workers", 1)
    reasons = sorted(row["reason"] for row in rows(tmp_path / "data", "rejected"))
    short = "signal file is shorter than its header says"
    assert reasons == ["a segment of another recording"] * 2 + [short] * 2
    assert len(rows(tmp_path / "data")) == 3


def test_diagnosis_of_one_cohort_alone(tmp_path: Path) -> None:
    for number in range(1, 21):
        write(tmp_path / "raw" / "georgia", f"E{number:05d}", noise(number))
    run(tmp_path / "raw", "--out", tmp_path / "data", "--views", "diagnosis")
    assert len(description(tmp_path / "data")["views"]) == 3


def test_a_table_that_comes_later_is_seen(archive: Path, tmp_path: Path) -> None:
    raw = Path(shutil.copytree(archive, tmp_path / "raw"))
    (raw / "ptbxl_database.csv").rename(tmp_path / "ptbxl_database.csv")
    run(raw, "--out", tmp_path / "data", "--views", "identification", code=1)
    shutil.copy(tmp_path / "ptbxl_database.csv", raw)
    run(raw, "--out", tmp_path / "data", "--views", "identification")
    assert description(tmp_path / "data")["views"]["identification-gallery"] == 10


def test_odd_headers_stop_nothing(tmp_path: Path) -> None:
    raw = tmp_path / "hospital"
    for number in range(1, 4):
        write(raw, f"p{number}", noise(number))
    header = write(raw, "unnamed", noise(9))
    header.write_text(header.read_text().replace("unnamed 12", "unnamed 13").replace("# Age", "b2.dat 80\n# Age"))
    (raw / "b2.dat").write_bytes(bytes(5000))
    far = write(raw, "far", noise(10))
    far.write_text(far.read_text().replace("16+24", "16+3000000000"))
    with (raw / "far.mat").open("wb") as file:  # sparse
        file.seek(3_000_000_000)
        file.write(noise(10).tobytes())
    tiny = write(raw, "tiny", noise(11))
    tiny.write_text(tiny.read_text().replace("1000.0(0)", "1e-320(0)"))
    message = run(raw, "--out", tmp_path / "data", "--workers", 1)
    assert "Warning" not in message
    assert [row["reason"] for row in rows(tmp_path / "data", "rejected")] == ["no usable lead"]
    assert len(rows(tmp_path / "data")) == 5


def test_names_that_are_no_text(tmp_path: Path) -> None:
    raw = tmp_path / "hospital"
    for number in range(1, 4):
        write(raw, f"p{number}", noise(number))
    for name in (b"sm\xffith.hea", b"str\xffay.dat", b"two\nlines.hea"):
        Path(os.fsdecode(bytes(raw) + b"/" + name)).write_bytes(b"x")
    message = run(raw, "--out", tmp_path / "data", "--workers", 1)
    assert len(rows(tmp_path / "data", "rejected")) == 3
    assert "'two\\nlines.hea'" in message


def test_linked_folders_are_named_not_followed(tmp_path: Path) -> None:
    raw = tmp_path / "hospital"
    for number in range(1, 4):
        write(raw / "a", f"p{number}", noise(number))
    write(tmp_path / "elsewhere", "p9", noise(9))
    (raw / "outside").symlink_to(tmp_path / "elsewhere")
    (raw / "inside").symlink_to(raw / "a")
    run(raw, "--out", tmp_path / "data", "--workers", 1)
    reasons = [row["reason"] for row in rows(tmp_path / "data", "rejected")]
    assert reasons == ["a link to a folder outside, which is not followed"]


@pytest.mark.parametrize("options", [[], ["--views", "pretrain"]])
def test_long_recordings_only(tmp_path: Path, options: list[str]) -> None:
    for number in range(1, 4):
        write(tmp_path / "hospital", f"p{number}", np.tile(noise(number), (1001, 1)))
    assert "left out: the view pretrain-valid" in run(tmp_path / "hospital", "--out", tmp_path / "data", *options)
    assert description(tmp_path / "data")["views"] == {"pretrain": 3003}


def test_folders_that_are_not_ours_are_left_alone(archive: Path, tmp_path: Path) -> None:
    raw = Path(shutil.copytree(archive, tmp_path / "data.partial"))
    assert "holds RAW" in run(raw, "--out", tmp_path / "data", code=1)
    (tmp_path / "o.partial").mkdir()
    (tmp_path / "o.partial" / "thesis.txt").touch()
    assert "o.partial: holds what is no part of an unfinished dataset: thesis.txt" in run(
        archive, "--out", tmp_path / "o", code=1
    )
    (tmp_path / "p.partial" / "data").mkdir(parents=True)
    (tmp_path / "p.partial" / "data" / "precious").touch()
    assert "p.partial: holds what is no part" in run(archive, "--out", tmp_path / "p", code=1)
    assert (tmp_path / "p.partial" / "data" / "precious").exists()
    assert (tmp_path / "o.partial" / "thesis.txt").exists() and fingerprint(raw) == fingerprint(archive)


def test_an_out_that_is_a_link_leads_where_it_leads(archive: Path, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk" / "here")
    run(archive, "--out", tmp_path / "data", "--workers", 1, "--shard-mb", 2)
    assert fingerprint(tmp_path / "disk" / "here") == fingerprint(dataset)


def test_a_raw_that_ends_in_dots_is_the_folder_it_means(archive: Path, dataset: Path, tmp_path: Path) -> None:
    run(archive / "training" / "..", "--out", tmp_path / "data", "--workers", 1, "--shard-mb", 2)
    assert fingerprint(tmp_path / "data") == fingerprint(dataset)


def test_all_refused_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "raw", "a", noise(1), rate="250")
    message = run(tmp_path / "raw", "--out", tmp_path / "data", code=1)
    assert "every recording is refused: 1 x not sampled at 500 Hz" in message


# --- others' recordings ---


def test_names_and_dates_of_private_recordings_reach_no_file(tmp_path: Path) -> None:
    raw = tmp_path / "hospital"
    for number in range(1, 6):
        name = f"SMITH_JOHN_1950010{number}"
        header = write(
            raw / "ward SMITH", name, noise(number),
            comments=["#Age: 97", "#Dx: 19500101, says Dr Smith, 4711007", "#Name: John Smith", "#Date: 01/01/1950"],
        )  # fmt: skip
        header.write_text(header.read_text().replace(" 5000\n", " 5000 10:00:00 01/01/1950\n", 1))
    os.truncate(raw / "ward SMITH" / "SMITH_JOHN_19500105.mat", 100)
    write(raw / "ward SMITH", "SMITH_JAMES", noise(9), rate="100")
    (raw / "ward SMITH" / "SMITH_STRAY.mat").write_bytes(b"x")
    (raw / "georgia").mkdir()
    shutil.copy(raw / "ward SMITH" / "SMITH_JOHN_19500101.hea", raw / "georgia")
    data = tmp_path / "data"
    run(raw, "--out", data, "--workers", 1)
    for path in data.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        for word in (b"smith", b"john", b"19500101", b"1950", b"hospital", b"4711007"):
            assert (
                word not in content.lower().replace(b"\0", b"")
                and word not in path.as_posix()[len(str(tmp_path)) :].lower().encode()
            )
    assert {row["age"] for row in rows(data)} == {90}
    assert {row["cohort"] for row in rows(data)} == {"own"}
    assert all(re.fullmatch("[0-9a-f]{16}", row["record"]) for row in rows(data) + rows(data, "rejected"))
    assert len(rows(data, "rejected")) == 4
    assert description(data)["views"].keys() == {"pretrain", "pretrain-valid"}


def test_the_secret_stays_beside_the_raw_data(tmp_path: Path) -> None:
    raw = tmp_path / "hospital"
    for number in range(1, 4):
        write(raw, f"p{number}", noise(number))
    run(raw, "--out", tmp_path / "a", "--workers", 1)
    secret = tmp_path / "hospital.secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    run(raw, "--out", tmp_path / "b", "--workers", 1)
    assert fingerprint(tmp_path / "a") == fingerprint(tmp_path / "b")
    key = secret.read_text().strip().encode()
    assert all(key not in path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file())
    secret.unlink()
    run(raw, "--out", tmp_path / "c", "--workers", 1)
    assert {row["record"] for row in rows(tmp_path / "a")}.isdisjoint(row["record"] for row in rows(tmp_path / "c"))


def test_private_recordings_beside_public_ones_only_pretrain(archive: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    shutil.copytree(archive, raw)
    for number in range(1, 6):
        write(raw / "own", f"patient-{number}", noise(700 + number))
    run(raw, "--out", tmp_path / "data", "--workers", 1)
    own = {row["split"] for row in rows(tmp_path / "data") if row["cohort"] == "own"}
    assert own <= {"train", "pretrain-valid"}


# --- the rest of the world ---


def test_no_torch() -> None:
    code = "import sys, data_tools.shard, data_tools.unfinished, data_tools.verify; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.fixture
def georgia_for_wfdb(realdata: Path, tmp_path: Path) -> Iterator[Path]:
    """wfdb 4.3.1 raises on record lines like `E00271.mat 12 500 5000`; the same recordings with another first word."""
    for header in realdata.glob("challenge-2021-mini/training/georgia/*/*.hea"):
        (tmp_path / header.name).write_text(re.sub(r"\A(\w+)\.mat ", r"\1 ", header.read_text()))
        (tmp_path / f"{header.stem}.mat").symlink_to(header.with_suffix(".mat"))
    yield tmp_path


@pytest.mark.realdata
def test_every_recording_of_the_real_archive_is_stored_sample_for_sample(
    realdata: Path, tmp_path: Path, georgia_for_wfdb: Path
) -> None:
    mini, data = realdata / "challenge-2021-mini", tmp_path / "data"
    run(mini, "--out", data, "--workers", 2)
    headers = {path.stem: path for path in [*mini.rglob("*.hea"), *georgia_for_wfdb.glob("*.hea")]}
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows(data):
        found.setdefault(row["record"], []).append(row)
    assert len(found) == 116 and {row["reason"] for row in rows(data, "rejected")} == {"not sampled at 500 Hz"}
    for name, crops in found.items():
        digital = wfdb.rdrecord(str(headers[name].with_suffix("")), physical=False).d_signal
        for row in crops:
            expected = digital[row["start"] : row["start"] + row["samples"]].copy()
            for segment, mask in enumerate(row["lead_mask"]):
                part = expected[segment * SEGMENT : (segment + 1) * SEGMENT]
                unusable = [lead for lead in range(12) if not mask >> lead & 1]
                assert all(np.ptp(part[:, lead]) == 0 or (part[:, lead] == -32768).any() for lead in unusable)
                part[:, unusable] = 0
            assert (stored(data, row) == expected).all(), row["key"]
        assert sum(row["samples"] for row in crops) == len(digital) // SEGMENT * SEGMENT


@pytest.mark.realdata
def test_the_twins_of_ptbxl_identify_nobody(realdata: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    run(realdata / "ptb-xl-mini", "--out", data, "--workers", 1)
    twins = {row["record"]: row["detail"] for row in rows(data, "rejected") if "same content" in row["reason"]}
    assert twins == {"HR00138": "HR00137", "HR00144": "HR00143", "HR00457": "HR00456", "HR00460": "HR00459"}
    gallery = open_view(data / "views" / "identification-gallery")
    patients = {rows(data)[crop]["patient"] for crop in gallery["crop"]}
    assert len(patients) == len(gallery["crop"]) == 21


def test_tars_are_plain(dataset: Path) -> None:
    for path in dataset.rglob("*.tar"):
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                assert (member.mtime, member.uid, member.gid, member.uname, member.mode) == (0, 0, 0, "", 0o644)
                assert re.fullmatch(r"[A-Z]+\d+-\d{4}\.(npy|json)", member.name)
