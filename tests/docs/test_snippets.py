"""The Python of the pages runs."""

from pathlib import Path

import numpy as np
import pytest
import torch

from engine import released
from engine.model.encoder import Encoder
from engine.model.sizes import SIZES
from tests.docs.pages import ROOT, blocks

README, FORMAT = ROOT / "README.md", ROOT / "docs" / "data-format.md"


def test_batches_without_the_trainer(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = (block for block in blocks(README, "python") if "Batches" in block)
    exec(code.replace("DATA", str(dataset)), {})
    assert capsys.readouterr().out == "torch.Size([64, 2, 2500, 12])\n"


def test_a_dataset_without_leadwise(dataset: Path) -> None:
    (code,) = blocks(FORMAT, "python")
    names: dict[str, object] = {}
    exec(code.replace("DATA", str(dataset)), names)
    crop = names["crop"]
    assert isinstance(crop, np.ndarray) and crop.shape == (5000, 12) and crop.dtype == np.int16
    assert 1900 < abs(crop.astype(int)).max() <= 2000  # the noise of the test's archive, in uV


def test_an_encoder_that_was_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = (block for block in blocks(README, "python") if "leadwise" in block)
    monkeypatch.chdir(tmp_path)
    sizes = SIZES["tiny"]
    weights = {f"encoder.{name}": value for name, value in Encoder(sizes).state_dict().items()}
    released.save(tmp_path / "encoder", weights, "paper", sizes, {"trained_leads": ["I", "II"]})
    ecg = np.random.default_rng(0).normal(size=(10 * 250, 2))  # 10 s
    names: dict[str, object] = {"ecg": ecg}
    exec(code, names)
    vectors = names["vectors"]
    assert isinstance(vectors, torch.Tensor) and vectors.shape == (2, sizes.dim)
    assert vectors.numpy().dtype == np.float32  # no gradient hangs on it
    (code,) = (block for block in blocks(ROOT / "docs" / "embeddings.md", "python") if "lengths" in block)
    exec(code, names | {"torch": torch})
