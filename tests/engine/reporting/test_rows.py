"""Which row of the paper's tables a run belongs to."""

from pathlib import Path
from typing import Any

import pytest

from engine import settings
from engine.config.common import load
from engine.config.pretraining import PretrainConfig
from engine.folders.runs import read_all
from engine.reporting.rows import evaluated, row_of
from engine.scoring.published import NAMES
from tests.engine.reporting.conftest import CONFIGS, finetuning, pretraining

FILES = sorted(path.stem for path in (CONFIGS / "pretrain").glob("*.yaml"))


def config(file: str, *given: str) -> dict[str, Any]:
    place = ["data.path=set", "run.dir=run", *given]
    plain: dict[str, Any] = settings.plain(load(PretrainConfig, CONFIGS / "pretrain" / f"{file}.yaml", place))
    return plain


@pytest.mark.parametrize("file", FILES)
def test_each_config_file_is_its_own_row(file: str) -> None:
    assert row_of(config(file)) == file
    assert file in NAMES


@pytest.mark.parametrize(
    ("file", "given", "row"),
    [
        ("w2v_cmsc_rlm", ["augmentation.mask_leads=0"], "w2v_cmsc"),
        ("w2v_cmsc", ["augmentation.mask_leads=0.5"], "w2v_cmsc_rlm"),
        ("w2v_cmsc_rlm", ["augmentation.mask_leads=0.3"], "W2V+CMSC with mask_leads 0.3"),
        ("w2v_cmsc", ["augmentation.emg=0.5"], "W2V+CMSC with emg 0.5"),
        ("w2v_cmsc_physio3", ["augmentation.emg=0.1"], "W2V+CMSC with powerline 0.5, emg 0.1, wander 0.5"),
        ("simclr_rlm", ["augmentation.mask_leads=0.3"], "SimCLR(RLM) with mask_leads 0.3"),
        ("w2v", ["augmentation.powerline=0.5", "augmentation.emg=0.5", "augmentation.wander=0.5"], None),
    ],
)
def test_what_the_paper_has_not_is_described(file: str, given: list[str], row: str | None) -> None:
    assert row_of(config(file, *given)) == (row or "W2V with powerline 0.5, emg 0.5, wander 0.5")


def test_an_evaluation_finds_its_figure(runs: list[Path]) -> None:
    _, *found = evaluated(read_all(runs[0], runs[1:]))
    assert [one.label for one in evaluated(read_all(runs[0], runs[1:]))] == [
        *["W2V+CMSC+RLM"] * 3,
        "Random Init.",
        "W2V+CMSC+RLM",
    ]
    assert [one.published() for one in found] == [
        (1, (0.732, 0.004)),
        (1, (0.554, 0.016)),
        (1, (0.618, 0.002)),
        (1, (0.577, 0.006)),
    ]


def test_the_origin_is_asked_for_its_augmentations(hearts: Path, tmp_path: Path) -> None:
    """Whether it is one of the report's runs, or lies where it lay; the system alone does not say them."""
    origin = pretraining(tmp_path / "origin", hearts, file="w2v_cmsc_rlm_physio4")
    tuned = finetuning(tmp_path / "tuned", hearts, "diagnosis", origin, 2, 0.5)
    (alone,) = evaluated(read_all(tuned, []))
    (beside,) = evaluated(read_all(origin, [tuned]))
    assert alone.row == beside.row == "w2v_cmsc_rlm_physio4"
    assert alone.published() == (4, (0.634, 0.005))
    origin.rename(tmp_path / "moved")
    (after,) = evaluated(read_all(tuned, []))
    assert after.row == "w2v_cmsc_rlm"  # as the model itself says
