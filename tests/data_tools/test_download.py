"""The download as a whole, from servers that fail in every way."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from data_tools import download, stores
from tests.data_tools.servers import serving
from tests.recordings import noise, write

ROOT = Path(__file__).parents[2]
NAMES = [f"training/georgia/g1/E{number:05d}" for number in range(1, 9)]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """challenge-2021 in small, with files that are not wanted and two of equal content."""
    root = tmp_path / "published"
    for number, name in enumerate(NAMES, 1):
        write((root / name).parent, Path(name).name, noise(number))
    (root / f"{NAMES[1]}.mat").write_bytes((root / f"{NAMES[0]}.mat").read_bytes())
    (root / "training/georgia/g1/RECORDS").write_text("".join(f"{Path(name).name}\n" for name in NAMES))
    (root / "RECORDS").write_text("training/georgia/g1/\n")
    (root / "training/empty file").touch()
    (root / "LICENSE.txt").write_text("CC BY 4.0")
    (root / "evaluation").mkdir()
    (root / "evaluation/huge.bin").write_bytes(bytes(1000))
    write_sums(root)
    return root


def write_sums(root: Path, *more: str) -> None:
    paths = sorted(path for path in root.rglob("*") if path.is_file() and path.name != "SHA256SUMS.txt")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.relative_to(root)}" for path in paths]
    (root / "SHA256SUMS.txt").write_text("\n".join([*lines, *more, ""]))


def run(where: str, out: Path, *arguments: str, code: int = 0, archive: str = "challenge-2021") -> str:
    command = [sys.executable, "-m", "data_tools.download", archive, "--out", str(out), "--from", where, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def wanted(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(root).items() if not name.startswith("evaluation")}


def test_a_second_run_fetches_nothing(published: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving(published) as server:
        assert "20 files whole; 20 fetched" in run(server.url, out)
        assert contents(out) == wanted(published)
        assert set(os.listdir(tmp_path)) == {"published", "out"}
        asked = len(server.requests)
        assert asked == 21  # each once, and the list of them
        assert "20 files whole; 0 fetched" in run(server.url, out)
        assert len(server.requests) == asked


def test_only_what_is_missing_or_damaged_is_fetched_again(published: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving(published) as server:
        run(server.url, out)
        (out / f"{NAMES[2]}.mat").unlink()
        os.truncate(out / f"{NAMES[3]}.mat", 1000)
        (out / f"{NAMES[4]}.hea").write_text("other")
        server.requests.clear()
        assert "3 fetched" in run(server.url, out)
        assert sorted(name for name, _ in server.requests) == [
            f"{NAMES[2]}.mat",
            f"{NAMES[3]}.mat",
            f"{NAMES[4]}.hea",
        ]
        assert contents(out) == wanted(published)


def test_a_bad_server_is_outlasted(published: Path, tmp_path: Path) -> None:
    faults = {
        "SHA256SUMS.txt": ["503", "cut"],
        f"{NAMES[0]}.mat": ["cut", "cut", "503"],
        f"{NAMES[1]}.mat": ["wrong byte"],
        f"{NAMES[2]}.mat": ["cut", "no ranges"],
        f"{NAMES[3]}.hea": ["503"],
    }
    out = tmp_path / "out"
    with serving(published, faults) as server:
        assert "20 fetched" in run(server.url, out)
        assert contents(out) == wanted(published)
        of_first = [wanted for name, wanted in server.requests if name == f"{NAMES[0]}.mat"]
        # Half of it, then half of the rest, then an error, then what is left: nothing twice.
        assert of_first == [None, "bytes=60012-", "bytes=90018-", "bytes=90018-"]
        assert server.sent[f"{NAMES[0]}.mat"] == 120_024
        assert server.sent[f"{NAMES[1]}.mat"] == 2 * 120_024


def test_a_stalled_server_is_asked_again(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_PATIENCE", 0.3)
    with serving(published, {f"{NAMES[0]}.mat": ["stall"]}) as server, stores.opened(server.url) as store:
        part = tmp_path / "part"
        assert stores.fetch(store, f"{NAMES[0]}.mat", part, stop=download.threading.Event()) == 120_024
        assert part.read_bytes() == (published / f"{NAMES[0]}.mat").read_bytes()
        assert [wanted for _, wanted in server.requests] == [None, "bytes=60012-"]


def start(where: str, out: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "data_tools.download", "challenge-2021", "--out", str(out), "--from", where]
    return subprocess.Popen([*command, "--jobs", "2"], cwd=ROOT, stdout=subprocess.DEVNULL)


def until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("never came true")


def test_killed_in_the_middle_it_goes_on_from_there(published: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving(published) as server:
        server.pause = 0.2
        with start(server.url, out) as process:
            until(lambda: len(list(out.rglob("*.mat"))) >= 2)
            process.kill()
        there = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
        parts = [path for path in (tmp_path / "out.partial").iterdir() if path.name != "lock"]
        half = sum(path.stat().st_size for path in parts)
        server.pause = 0
        server.requests.clear()
        time.sleep(0.5)  # for what was on its way
        server.sent.clear()
        run(server.url, out)
        assert contents(out) == wanted(published)
        again = {name for name, _ in server.requests}
        assert not again & {path.relative_to(out).as_posix() for path in there}
        assert all(path.stat().st_mtime_ns == before for path, before in there.items())
        missing = sum(len(data) for name, data in wanted(published).items() if out / name not in there)
        assert sum(server.sent.values()) == missing - half


def test_two_at_once_is_refused(published: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving(published) as server:
        server.pause = 0.5
        with start(server.url, out) as process:
            until(lambda: (tmp_path / "out.partial" / "lock").exists() and bool(server.requests))
            assert "another run is at work there" in run(server.url, out, code=1)
            process.kill()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{0} ../evil", "names a file outside the folder"),
        ("{0} /tmp/evil", "names a file outside the folder"),
        ("{0} training/../../evil", "names a file outside the folder"),
        ("{0} training\\..\\evil", "names a file outside the folder"),
        ("<html>", "is not a sha256 and a path"),
    ],
)
def test_lists_that_lead_outside_are_refused(published: Path, tmp_path: Path, line: str, message: str) -> None:
    write_sums(published, line.format("0" * 64))
    with serving(published) as server:
        assert message in run(server.url, tmp_path / "out", code=1)
    assert not (tmp_path / "evil").exists() and not (tmp_path / "out").exists()


def test_a_link_in_the_folder_is_not_followed_out_of_it(published: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "training").mkdir(parents=True)
    (tmp_path / "out" / "training" / "georgia").symlink_to(tmp_path / "elsewhere")
    with serving(published) as server:
        assert "is a link to somewhere else" in run(server.url, tmp_path / "out", code=1)
    assert not os.listdir(tmp_path / "elsewhere")


def test_files_that_are_lost_do_not_stop_the_others(published: Path, tmp_path: Path) -> None:
    (published / f"{NAMES[5]}.mat").unlink()
    (published / f"{NAMES[6]}.mat").write_bytes(b"never what the list says")
    with serving(published) as server:
        message = run(server.url, tmp_path / "out", code=1)
    assert f"{NAMES[5]}.mat: the server answers 404" in message
    assert f"{NAMES[6]}.mat: its bytes are not those of SHA256SUMS.txt, 3 times" in message
    assert "error: 2 of 20 files are missing" in message
    assert len(list((tmp_path / "out").rglob("*.mat"))) == 6


def test_recordings_that_no_sum_is_known_of_are_missed(published: Path, tmp_path: Path) -> None:
    (published / "training/georgia/g1/RECORDS").write_text("E00001\nE77777\n")
    write_sums(published)
    with serving(published) as server:
        message = run(server.url, tmp_path / "out", code=1)
    assert "RECORDS names 1 files that SHA256SUMS.txt lacks, such as training/georgia/g1/E77777.hea" in message


def test_ptbxl_without_its_100_hz_half(tmp_path: Path) -> None:
    root = tmp_path / "published"
    write(root / "records500/00000", "00001_hr", noise(1), head=b"", file="00001_hr.dat")
    write(root / "records100/00000", "00001_lr", noise(1), head=b"", file="00001_lr.dat")
    (root / "ptbxl_database.csv").write_text("ecg_id\n")
    (root / "RECORDS").write_text("records100/00000/00001_lr\nrecords500/00000/00001_hr\n")
    write_sums(root)
    with serving(root) as server:
        run(server.url, tmp_path / "out", archive="ptb-xl")
        assert "is this another archive?" in run(server.url, tmp_path / "out", code=1)
    assert set(contents(tmp_path / "out")) == {
        *("records500/00000/00001_hr.hea", "records500/00000/00001_hr.dat"),
        *("ptbxl_database.csv", "RECORDS", "SHA256SUMS.txt"),
    }


def test_what_cannot_work_is_one_line(published: Path, tmp_path: Path) -> None:
    assert "begins with none of" in run("ftp://x", tmp_path / "out", code=1)
    with serving(tmp_path / "nothing") as server:
        assert "SHA256SUMS.txt: the server answers 404" in run(server.url, tmp_path / "out", code=1)
    assert not (tmp_path / "out.partial").exists()


# --- an object store ---


@pytest.fixture
def bucket(published: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    client = boto3.client("s3", region_name="us-east-1", **keys)
    client.create_bucket(Bucket="physionet-open")
    for name, data in contents(published).items():
        client.put_object(Bucket="physionet-open", Key=f"challenge-2021/1.0.3/{name}", Body=data, ACL="public-read")
    yield "s3://physionet-open/challenge-2021/1.0.3"
    server.stop()


def test_a_bucket_that_is_open_to_everybody(bucket: str, published: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "20 fetched" in run(bucket, out)
    assert contents(out) == wanted(published)
    os.truncate(out / f"{NAMES[3]}.mat", 1000)
    assert "1 fetched" in run(bucket, out)
    assert contents(out) == wanted(published)


def test_a_cut_file_of_a_bucket_goes_on(bucket: str, published: Path, tmp_path: Path) -> None:
    whole = (published / f"{NAMES[0]}.mat").read_bytes()
    part = tmp_path / "part"
    with stores.opened(bucket) as store:
        for there in (50_000, len(whole)):
            part.write_bytes(whole[:there])
            came = stores.fetch(store, f"{NAMES[0]}.mat", part, stop=download.threading.Event())
            assert (came, part.read_bytes()) == (len(whole) - there, whole)
        with pytest.raises(stores.LostError, match="FileNotFoundError|PermissionError"):
            stores.fetch(store, "training/nothing", tmp_path / "other", stop=download.threading.Event())
