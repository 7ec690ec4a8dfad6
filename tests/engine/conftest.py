import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.recordings import public_archive

# Workers side by side that each take every core wait for one another: ten times slower, not twice as fast.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)


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


@pytest.fixture(scope="session")
def hearts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artificial recordings of 330 patients: what there is to learn from."""
    raw = tmp_path_factory.mktemp("hearts") / "raw"
    command = [sys.executable, "-m", "data_tools.synthesize", "--out", str(raw), "--patients", "330"]
    subprocess.run(command, check=True, capture_output=True)
    cohorts = "cpsc_2018,georgia,ptb-xl,chapman_shaoxing,ningbo"  # the sixth is too small here to have labels
    metadata = str(raw / "ptb-xl" / "ptbxl_database.csv")
    return shard(raw / "challenge-2021", raw.parent / "set", "--cohorts", cohorts, "--ptbxl-metadata", metadata)
