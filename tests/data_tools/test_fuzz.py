"""Files that have been tampered with: every reader refuses them or reads them, and does nothing else.

No exception but ValueError, no crash, no hang, no file opened outside of the archive, no memory that the file does
not account for. `make test-slow` tries a hundred times as many.
"""

import json
import resource
import signal
import subprocess
import sys
import unittest.mock
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_tools import download, formats, own_labels, records, verify
from data_tools.crops import LEADS
from data_tools.hints import NONE, Hints
from tests import others
from tests.recordings import noise, write

_SECONDS = 20  # a reading that takes longer hangs
_MEGABYTES = 1500  # more than the test itself and any honest reading of these files
_OPENED: set[str] = set()  # while a file is being read

# What headers and hostile files are made of.
_TOKENS = [
    *(b"../outside/secret.dat", b"/etc/hosts", b"..", b"~", b"%s%n", b"\n", b"\0", b" ", b"/", b"#", b",", b";"),
    *(b"-1", b"0", b"1", b"12", b"500", b"nan", b"inf", b"1e308", b"1e-308", b"2147483648", b"99999999", b"9" * 30),
    *(b"212", b"516", b"16x3", b"16:9", b"+24", b"I", b"V6", b"mV", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"),
]
_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["replace", "insert", "delete", "cut", "swap"]),
        st.integers(0, 2**32),
        st.sampled_from(_TOKENS) | st.binary(min_size=1, max_size=8),
    ),
    min_size=1,
    max_size=6,
)


def changed(data: bytes, changes: list[tuple[str, int, bytes]], near: int) -> bytes:
    """`near`: most changes are made among so many first bytes, where a file says what it is."""
    for how, place, new in changes:
        span = len(data) if place % 4 == 0 else min(len(data), near)
        at = place // 4 % (span + 1)
        if how == "replace":
            data = data[:at] + new + data[at + len(new) :]
        elif how == "insert":
            data = data[:at] + new + data[at:]
        elif how == "delete":
            data = data[:at] + data[at + len(new) :]
        elif how == "swap":
            data = data[:at] + data[at : at + 8][::-1] + data[at + 8 :]
        else:
            data = data[:at]
    return data


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | bytes):
        _OPENED.add(arguments[0].decode(errors="replace") if isinstance(arguments[0], bytes) else arguments[0])


sys.addaudithook(_watch)


def survives(work: Callable[[], Any], folder: Path) -> None:
    def hangs(*_: Any) -> None:
        raise AssertionError(f"more than {_SECONDS} s")

    previous = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(_SECONDS)
    _OPENED.clear()
    try:
        work()
    except ValueError as error:
        assert str(error)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    outside = folder.parent / "outside"
    assert not [name for name in _OPENED if "/etc/hosts" in name or str(outside) in str(Path(name).absolute())]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < _MEGABYTES * 1024


# --- what they begin with: a small file of every kind ---


def _plain(folder: Path) -> str:
    write(folder, "a", noise(1, 2600))
    return "a.hea"


def _of_212(folder: Path) -> str:
    digital = (noise(1, 1500)[:, :2] // 8).astype(np.int64)
    wfdb.wrsamp("a", fs=250, units=["mV"] * 2, sig_name=["I", "II"], fmt=["212"] * 2, adc_gain=[200.0] * 2,
                baseline=[0, 0], d_signal=digital, write_dir=str(folder))  # fmt: skip
    return "a.hea"


def _of_segments(folder: Path) -> str:
    write(folder, "b", noise(1, 2000))
    write(folder, "c", noise(2, 2000))
    (folder / "a.hea").write_text("a/2 12 500 4000\nb 2000\nc 2000\n")
    return "a.hea"


def _flac(folder: Path) -> str:
    wfdb.wrsamp("a", fs=500, units=["mV"], sig_name=["II"], fmt=["516"], adc_gain=[1000.0], baseline=[0],
                d_signal=noise(1, 2600)[:, :1].astype(np.int64), write_dir=str(folder))  # fmt: skip
    return "a.hea"


def _of_format(suffix: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        others.WRITERS[suffix](folder / f"a{suffix}", noise(1, 3000))
        return f"a{suffix}"

    return make


KINDS: dict[str, Callable[[Path], str]] = {
    "plain": _plain,
    "212": _of_212,
    "segments": _of_segments,
    "flac": _flac,
    **{suffix: _of_format(suffix) for suffix in others.WRITERS},
}
TOLD = Hints(500, "mV", LEADS)


@pytest.fixture(scope="module", params=KINDS)
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("fuzz") / "archive"
    folder.mkdir()
    (folder.parent / "outside").mkdir()
    (folder.parent / "outside" / "secret.dat").write_bytes(noise(1).tobytes())
    return folder, KINDS[request.param](folder)


def check_reader(original: tuple[Path, str], examples: int) -> None:
    folder, name = original
    contents = {path: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    signal_files = [path for path in contents if path.suffix != ".json"]

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(_CHANGES, st.sampled_from([folder / name] * 3 + signal_files), st.booleans())
    def check(changes: list[tuple[str, int, bytes]], path: Path, hinted: bool) -> None:
        near = 4096 if path.suffix in (".hea", ".npy", ".csv") else 16_384
        path.write_bytes(changed(contents[path], changes, near))
        try:
            survives(lambda: whole(records.read(str(folder), name, None, True, TOLD if hinted else NONE)), folder)
        finally:
            path.write_bytes(contents[path])

    check()


def whole(recording: records.Recording) -> None:
    assert recording.signal.dtype == np.int16 and recording.signal.shape[1:] == (12,)
    assert 0 < recording.leads < 1 << 12 and recording.rate > 0


def test_readers_survive(original: tuple[Path, str]) -> None:
    check_reader(original, 40)


@pytest.mark.slow
def test_readers_survive_for_long(original: tuple[Path, str]) -> None:
    check_reader(original, 6500)


@given(st.sampled_from(sorted(formats.SUFFIXES)), st.binary(max_size=2000))
@settings(max_examples=100, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_readers_survive_noise(tmp_path_factory: pytest.TempPathFactory, suffix: str, data: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "noise"
    folder.mkdir(exist_ok=True)
    (folder / f"a{suffix}").write_bytes(data)
    survives(lambda: whole(records.read(str(folder), f"a{suffix}", None, True, TOLD)), folder)


# --- tables and lists ---

_TABLE = b"recording,classes,patient\na.csv,AF;LBBB,Jane\nb.csv,,John\n"
_SUMS = b"\n".join(b"%064x training/g1/a%d.mat" % (n, n) for n in range(20))


@settings(max_examples=200, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(_CHANGES)
def test_tables_and_lists_survive(tmp_path_factory: pytest.TempPathFactory, changes: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "list"
    path.write_bytes(changed(_TABLE, changes, 200))
    survives(lambda: own_labels.read(path, ["a.csv", "b.csv"], b"x" * 16), path.parent)
    path.write_bytes(changed(_SUMS, changes, 2000))
    survives(lambda: inside(download.read_sums(path)), path.parent)


def inside(sums: dict[str, str]) -> None:
    for name in sums:
        assert (Path("/out") / name).resolve().is_relative_to("/out")


# --- datasets ---


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set")
    for number in range(30):
        write(folder / "raw", f"r{number}", noise(number))
    assert shard(folder / "raw", folder / "data") == 0
    return folder / "data"


def shard(raw: Path, out: Path) -> int:
    command = [sys.executable, "-m", "data_tools.shard", str(raw), "--out", str(out), "--workers", "1"]
    return subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True).returncode


def check_verify(dataset: Path, examples: int) -> None:
    paths = sorted(path for path in dataset.rglob("*") if path.is_file())
    contents = {path: path.read_bytes() for path in paths}
    shards = [path for path in paths if path.suffix in (".tar", ".idx")]

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(_CHANGES, st.sampled_from(paths + shards * 5), st.booleans())
    def check(changes: list[tuple[str, int, bytes]], path: Path, sealed: bool) -> None:
        data = changed(contents[path], changes, 4096)
        path.write_bytes(data)
        if sealed and path.name != "dataset.json":  # by somebody who knows the sums
            (dataset / "dataset.json").write_bytes(resealed(contents[dataset / "dataset.json"], dataset, path))
        try:
            survives(lambda: found(verified(dataset), data != contents[path] and not sealed, path), dataset)
        finally:
            path.write_bytes(contents[path])
            (dataset / "dataset.json").write_bytes(contents[dataset / "dataset.json"])

    def found(code: int, is_changed: bool, path: Path) -> None:
        """Only what dataset.json says of itself is not held against anything."""
        assert code == 1 or not is_changed or path.name == "dataset.json"

    check()


def resealed(description: bytes, dataset: Path, path: Path) -> bytes:
    about = json.loads(description)
    for file in (*about["files"], *about["tables"]):
        if file["name"] == path.relative_to(dataset).as_posix():
            file |= {"bytes": path.stat().st_size, "sha256": sha256(path.read_bytes()).hexdigest()}
    return json.dumps(about).encode()


def verified(dataset: Path) -> int:
    """-> exit code; an exception that is none of ours comes through."""
    with unittest.mock.patch.object(sys, "argv", ["verify", str(dataset)]):
        code = verify.main()
    assert code in (0, 1)
    return code


def test_verify_survives_and_finds_it(dataset: Path) -> None:
    check_verify(dataset, 25)


@pytest.mark.slow
def test_verify_survives_for_long(dataset: Path) -> None:
    check_verify(dataset, 5000)
