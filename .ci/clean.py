"""What `make wheel` asks of an environment with the wheel and the core dependencies alone, from another folder.

clean.py REPOSITORY: the built wheel and sdist lie in REPOSITORY/dist.
"""

import importlib.util
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch

import leadwise
from engine import released
from engine.model.encoder import Encoder
from engine.model.sizes import SIZES

DATA = {".css", ".csv", ".js", ".py"}


def main(repository: Path) -> None:
    check_contents(repository)
    for module in (leadwise, released):
        assert not Path(str(module.__file__)).is_relative_to(repository / "engine"), module.__file__
    for name in ("deepspeed", "nvidia.dali", "h5py", "huggingface_hub", "onnx", "pytest"):
        parent = name.partition(".")[0]
        assert importlib.util.find_spec(parent) is None, f"{name} is installed: this is no core environment"
    with tempfile.TemporaryDirectory() as folder:
        use(Path(folder))


def check_contents(repository: Path) -> None:
    """All of the packages, and nothing else."""
    (wheel,), (sdist,) = (list((repository / "dist").glob(f"leadwise-*{suffix}")) for suffix in (".whl", ".tar.gz"))
    packages = [repository / name for name in ("data_tools", "engine", "leadwise")]
    wanted = {str(path.relative_to(repository)) for of in packages for path in of.rglob("*") if path.suffix in DATA}
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert found == wanted, f"{wheel}: lacks {wanted - found}, should not have {found - wanted}"
    with tarfile.open(sdist) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"configs", "docs", "engine"} <= folders and not folders & {"tests", "benchmarks"}, f"{sdist}: {folders}"
    print(f"{wheel.name}: {len(found)} files; {sdist.name}: {', '.join(sorted(folders))}")


def use(folder: Path) -> None:
    """Fresh weights, a recording in CSV: vectors in memory and from the command are the same."""
    torch.manual_seed(0)
    weights = {f"encoder.{name}": value for name, value in Encoder(SIZES["tiny"]).state_dict().items()}
    released.save(folder / "model", weights, "paper", SIZES["tiny"], {"trained_leads": list(leadwise.LEADS)})
    ecg = np.random.default_rng(0).normal(0, 0.3, (5000, 2)).round(3)
    np.savetxt(folder / "ecg.csv", ecg, fmt="%.3f", delimiter=",", header="I (mV),II (mV)", comments="")
    encoder = leadwise.load_encoder(folder / "model")
    with torch.inference_mode():
        vectors = encoder(leadwise.segments(ecg, leads=["I", "II"])).mean(0)
    command = [sys.executable, "-I", "-m", "engine.embed", folder / "ecg.csv", "--model", folder / "model"]
    subprocess.run([*command, "--out", folder / "out.npy", "--rate", "500"], check=True)
    written = np.load(folder / "out.npy")
    assert written.shape == (1, SIZES["tiny"].dim) and np.allclose(written[0], vectors, atol=1e-5)
    raw = [sys.executable, "-I", "-m", "data_tools.synthesize", "--out", folder / "raw", "--patients", "12"]
    subprocess.run(raw, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
