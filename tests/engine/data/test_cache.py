"""Datasets of an object store, from moto's S3 server, some of it behind a proxy that fails as networks do."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import Any

import boto3
import fsspec
import numpy as np
import pytest
import s3fs
import torch
from botocore import UNSIGNED
from botocore.config import Config
from moto.server import ThreadedMotoServer

from engine.data import cache as cache_module
from engine.data.cache import CacheFolder
from engine.data.chance import Augmentation
from engine.data.dataset import Dataset, open_dataset
from engine.data.order import Order, training
from engine.data.pipeline import Batch, Batches, reading_ahead
from engine.data.storage import File

BUCKET = "ecg"
RLM = Augmentation(mask_leads=0.5)


@pytest.fixture(scope="module")
def endpoint(dataset: Path) -> Iterator[str]:
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    address = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    client = boto3.client(
        "s3", endpoint_url=address, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    client.create_bucket(Bucket=BUCKET)
    actions = ["s3:GetObject", "s3:HeadObject"]  # the second is moto's own; to S3 it is the first
    everyone = {"Effect": "Allow", "Principal": "*", "Action": actions, "Resource": f"arn:aws:s3:::{BUCKET}/*"}
    client.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [everyone]}))
    for path in dataset.rglob("*"):
        if path.is_file():
            client.upload_file(str(path), BUCKET, f"set/{path.relative_to(dataset).as_posix()}")
    anonymous = boto3.client(
        "s3", endpoint_url=address, region_name="us-east-1", config=Config(signature_version=UNSIGNED)
    )
    assert anonymous.get_object(Bucket=BUCKET, Key="set/dataset.json")["ContentLength"] > 0
    yield address
    server.stop()


class Faults(BaseHTTPRequestHandler):
    """Passes requests on to `behind`; every third answer is a 503, or is cut off in the middle."""

    behind = ""
    asked = 0
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        type(self).asked += 1
        if self.asked % 6 == 0:
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        upstream = HTTPConnection(self.behind.removeprefix("http://"))
        upstream.request(self.command, self.path, headers=dict(self.headers))
        answer = upstream.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "server", "date"):
                self.send_header(name, value)
        self.end_headers()
        if self.asked % 6 == 3 and len(body) > 1:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def faulty(endpoint: str) -> Iterator[str]:
    handler = type("Handler", (Faults,), {"behind": endpoint, "asked": 0})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    assert handler.asked > 20
    server.shutdown()


def store(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """As a user would, through fsspec's own configuration; read anonymously."""
    options: dict[str, Any] = {
        "anon": True,
        "endpoint_url": address,
        "skip_instance_cache": True,
        "use_listings_cache": False,
    }
    # The library's own patience is not what is tested.
    options["config_kwargs"] = {"retries": {"total_max_attempts": 1}}
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    monkeypatch.setitem(fsspec.config.conf, "s3", options)
    monkeypatch.setattr(cache_module, "_FIRST_PAUSE", 0.01)


def epoch(dataset: Dataset) -> list[Batch]:
    order = Order(dataset.counts, 1, window=1)
    plans = reading_ahead(training(order, 0, 8), order, dataset)
    with Batches(dataset, plans, RLM, seed=1) as batches:
        return list(islice(batches, -(-order.epoch_length // 8)))


def same(ours: list[Batch], theirs: list[Batch]) -> bool:
    return all(
        torch.equal(one.signal, other.signal) and torch.equal(one.classes, other.classes)
        for one, other in zip(ours, theirs, strict=True)
    )


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def data_bytes(dataset: Path) -> int:
    return sum(file["bytes"] for file in json.loads((dataset / "dataset.json").read_text())["files"])


def test_an_epoch_through_a_cache_of_half_the_size(
    endpoint: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(monkeypatch, endpoint)
    half = data_bytes(dataset) // 2
    remote = open_dataset([f"s3://{BUCKET}/set"], "pretrain", pairs=True, window=1, cache=tmp_path, cache_bytes=half)
    local = open_dataset([str(dataset)], "pretrain", pairs=True)
    assert remote.fingerprints == local.fingerprints
    assert same(epoch(remote), epoch(local))
    assert size(tmp_path) <= half
    assert remote.keys(np.arange(5)) == local.keys(np.arange(5))


def test_faults_of_the_store_change_nothing(
    faulty: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(monkeypatch, faulty)
    half = data_bytes(dataset) // 2
    remote = open_dataset([f"s3://{BUCKET}/set"], "pretrain", pairs=True, window=1, cache=tmp_path, cache_bytes=half)
    assert same(epoch(remote), epoch(open_dataset([str(dataset)], "pretrain", pairs=True)))


def test_a_store_that_is_gone_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        store(monkeypatch, f"http://127.0.0.1:{unused.getsockname()[1]}")
    monkeypatch.setattr(cache_module, "_ATTEMPTS", 2)
    with pytest.raises(ValueError, match=r"ecg/set/dataset.json: given up after 2 attempts: \w+: .*") as failure:
        open_dataset([f"s3://{BUCKET}/set"], "pretrain", cache=tmp_path)
    assert "\n" not in str(failure.value)


def test_what_is_not_there_is_said_at_once(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(monkeypatch, endpoint)
    monkeypatch.setattr(cache_module, "_FIRST_PAUSE", 1e6)  # it would hang, did it try again
    with pytest.raises(ValueError, match=r"s3://ecg/nowhere: FileNotFoundError: .*nowhere/dataset.json"):
        open_dataset([f"s3://{BUCKET}/nowhere"], "pretrain", cache=tmp_path)
    with pytest.raises(ValueError, match=r"nonsense://x: Protocol not known: nonsense"):
        open_dataset(["nonsense://x"], "pretrain", cache=tmp_path)


def test_damage_in_the_store_is_found(
    endpoint: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(monkeypatch, endpoint)
    monkeypatch.setattr(cache_module, "_ATTEMPTS", 2)
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    for path in dataset.rglob("*"):
        if path.is_file():
            name = path.relative_to(dataset).as_posix()
            data = bytearray(path.read_bytes())
            if name == "train/shard-000000.tar":
                data[9999] ^= 1
            client.put_object(Bucket=BUCKET, Key=f"bad/{name}", Body=bytes(data))
    remote = open_dataset([f"s3://{BUCKET}/bad"], "pretrain", pairs=True, cache=tmp_path / "cache")
    with pytest.raises(ValueError, match=r"s3://ecg/bad/train/shard-000000.tar is damaged .* upload it again"):
        epoch(remote)
    client.put_object(Bucket=BUCKET, Key="bad/train/shard-000002.tar", Body=b"short")
    with pytest.raises(ValueError, match=r"bad/train/shard-000002.tar has 5 bytes instead of \d+; upload it again"):
        open_dataset([f"s3://{BUCKET}/bad"], "pretrain", cache=tmp_path / "other")


def test_a_cache_too_small_for_three_windows_is_refused(
    endpoint: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(monkeypatch, endpoint)
    with pytest.raises(ValueError, match=r"three windows of 8 files .*data.cache_gb, data.window"):
        open_dataset([f"s3://{BUCKET}/set"], "pretrain", cache=tmp_path, cache_bytes=data_bytes(dataset) // 2)


_PROCESS = """
import sys
from pathlib import Path
from engine.data.cache import CacheFolder
from engine.data.storage import File

folder, source, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
cache = CacheFolder(folder, limit)
import hashlib, random, time
names = sorted(path.name for path in source.iterdir())
for turn in range(60):
    name = random.choice(names)
    data = (source / name).read_bytes()

    def fetch(path):
        with open(path, "r+b") as out:
            for start in range(0, len(data), 4096):
                out.write(data[start : start + 4096])
                time.sleep(0.0002)

    with cache.holding(File(name, len(data), hashlib.sha256(data).hexdigest()), fetch) as path:
        held = open(path, "rb")
    assert held.read() == data, name
"""


def test_processes_share_a_cache_and_survive_each_others_deaths(tmp_path: Path) -> None:
    """Four at a time on a cache of three of their eight files; some are killed in the middle, again and again."""
    source, folder = tmp_path / "source", tmp_path / "cache"
    source.mkdir()
    for number in range(8):
        (source / f"file{number}").write_bytes(os.urandom(100_000))
    command = [sys.executable, "-c", _PROCESS, str(folder), str(source), "300000"]
    for _ in range(8):
        victims = [subprocess.Popen(command) for _ in range(2)]
        time.sleep(0.4)
        for victim in victims:
            victim.send_signal(signal.SIGKILL)
            victim.wait()
    survivors = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait() for process in survivors] == [0] * 4
    assert size(folder) <= 4 * 100_000  # one more may be on its way in while others are held
    for path in folder.iterdir():
        if path.suffix == "":
            assert path.stat().st_size == 100_000


def test_the_smallest_cache_fetches_each_file_once_an_epoch(tmp_path: Path) -> None:
    """Three windows: the loop never fetches itself what was fetched ahead."""
    order, fetched = Order([4] * 24, 0, window=4), [0, 0]
    cache = CacheFolder(tmp_path, limit=3 * 4 * 10)
    windows = order.files_ahead(0)

    def hold(file: int, loop: bool) -> None:
        def fetch(path: Path) -> None:
            fetched[loop] += 1
            path.write_bytes(b"a" * 10)

        with cache.holding(File(str(file), 10, str(file)), fetch):
            time.sleep(0.001)  # so that times of use differ

    ahead = next(windows)
    for file in ahead:
        hold(file, False)
    for _ in range(4 * 6):
        now, ahead = ahead, next(windows)
        for file in ahead:
            hold(file, False)
        for file in now:
            hold(file, True)
    assert fetched[True] == 0 and fetched[False] <= 25 * 4


def test_a_cache_that_cannot_be_written_or_is_full(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"data.cache = .*file: File exists"):
        CacheFolder(tmp_path / "file", 10)

    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    cache = CacheFolder(tmp_path / "cache", 10)
    said = r"data.cache = .*: No space left on device \(data.cache_gb limits its size\)"
    with pytest.raises(ValueError, match=said), cache.holding(File("a", 10, "a"), full):
        pass
    cache.ahead(lambda: cache.holding(File("a", 10, "a"), full))  # says nothing, and goes on
    done = Event()

    def fetch(path: Path) -> None:
        path.write_bytes(b"a" * 10)
        done.set()

    for _ in range(6):  # more than there are fetchers
        cache.ahead(lambda: cache.holding(File("a", 10, "a"), full))
    cache.ahead(lambda: cache.holding(File("b", 10, "b"), fetch))
    assert done.wait(10)


def test_what_lies_in_the_cache_is_verified_where_it_is_asked_for(tmp_path: Path) -> None:
    good = File("a", 4, hashlib.sha256(b"good").hexdigest())

    def fetch(path: Path) -> None:
        path.write_bytes(b"good")

    with CacheFolder(tmp_path, 10).holding(good, fetch) as path:
        path.write_bytes(b"evil")
    with CacheFolder(tmp_path, 10).holding(good, fetch) as path:
        assert path.read_bytes() == b"evil"
    with CacheFolder(tmp_path, 10, verify=True).holding(good, fetch) as path:
        assert path.read_bytes() == b"good"


def test_what_is_in_use_is_not_evicted(tmp_path: Path) -> None:
    def fetch(path: Path) -> None:
        path.write_bytes(b"a" * 10)

    cache = CacheFolder(tmp_path, limit=10)
    first, second, third = (File(name, 10, name) for name in ("first", "second", "third"))
    with cache.holding(first, fetch) as path, cache.holding(second, fetch):
        assert path.read_bytes() == b"a" * 10
    with cache.holding(third, fetch):
        assert not path.exists()
