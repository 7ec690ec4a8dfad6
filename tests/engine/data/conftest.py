import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recordings import public_archive

MakeDataset = Callable[..., Path]


def shard(raw: Path, out: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "data_tools.shard", str(raw), "--out", str(out), "--shard-mb", "1", *options]
    subprocess.run(command, check=True, capture_output=True)
    return out


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return public_archive(tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="session")
def dataset(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all views; a file holds eight crops."""
    metadata = ("--ptbxl-metadata", str(archive / "ptbxl_database.csv"))
    return shard(archive / "training", tmp_path_factory.mktemp("tar") / "set", *metadata)


@pytest.fixture(scope="session")
def zarr_dataset(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    metadata = ("--ptbxl-metadata", str(archive / "ptbxl_database.csv"))
    return shard(archive / "training", tmp_path_factory.mktemp("zarr") / "set", "--format", "zarr", *metadata)
