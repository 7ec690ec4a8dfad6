"""Values that are no numbers, a full disk, a line that a kill has torn: runs of the smallest size in this process."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.data.dataset import Dataset, open_dataset
from engine.training import checkpoint, loop
from engine.training.pretraining import Pretraining
from tests.engine.training.conftest import Train, full_at_first, lines, status
from tests.engine.training.test_pretrain import at, same_state


def planted(monkeypatch: pytest.MonkeyPatch, updates: range) -> None:
    """A value that is no number, in the signal of these updates."""
    real = Pretraining.inputs

    def inputs(self: Pretraining, batch: Any, update: int) -> tuple[Any, ...]:
        signal, *others = real(self, batch, update)
        return (signal * float("nan") if update in updates else signal, *others)

    monkeypatch.setattr(Pretraining, "inputs", inputs)


@pytest.mark.parametrize("given", [[], ["train.precision=fp32"], ["train.precision=fp32", "train.zero_stage=0"]])
def test_an_update_that_is_not_finite_is_skipped(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    planted(monkeypatch, range(3, 5))
    assert train("train.updates=5", "run.keep_every=1", *given) == 0
    assert same_state(at(tmp_path / "run", 3), at(tmp_path / "run", 5))
    assert not same_state(at(tmp_path / "run", 2), at(tmp_path / "run", 3))
    assert lines(tmp_path / "run")[-1]["skipped"] == 2
    state = json.loads((at(tmp_path / "run", 5) / "state.json").read_text())
    assert (state["update"], state["applied"]) == (5, 3)


@pytest.mark.parametrize("stage", [1, 3])
def test_overflows_of_fp16_are_known_after_a_resume(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: int
) -> None:
    """The third halves the loss scale, as the second has."""
    planted(monkeypatch, range(3, 6))
    given = ["train.precision=fp16", f"train.zero_stage={stage}"]
    assert train("train.updates=8", *given, to="straight") == 0
    assert train("train.updates=5", *given, to="stopped") == 0
    assert train("train.updates=8", *given, to="stopped", resume="auto") == 0
    assert same_state(at(tmp_path / "straight", 8), at(tmp_path / "stopped", 8))
    scales = [
        json.loads((at(tmp_path / to, 8) / "state.json").read_text())["loss_scale"] for to in ("straight", "stopped")
    ]
    assert scales[0] == scales[1]
    assert scales[0] == {"cur_scale": 2.0**14, "cur_hysteresis": 1, "cur_iter": 8, "last_overflow_iter": 5}


def test_too_many_of_them_in_a_row_stop_the_run(
    train: Train, hearts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, range(4, 100))
    with pytest.raises(ValueError, match=r"3 updates in a row were not finite; .* those of update 4"):
        train("train.updates=50", "train.max_bad_updates=3")
    assert status(tmp_path / "run")["status"] == "failed"
    bad = json.loads((tmp_path / "run" / "bad_update.json").read_text())
    dataset: Dataset = open_dataset([str(hearts)], "pretrain", pairs=True)
    assert bad["update"] == 7 and len(bad["crops"]) == 8
    assert set(bad["crops"]) <= set(dataset.keys(np.arange(len(dataset))))


def test_a_full_disk_stops_the_run_and_leaves_the_last_checkpoint(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    assert train("train.updates=2") == 0
    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="the disk is full: the checkpoint of update 4 was not written"):
        train("train.updates=4", resume="auto")
    assert checkpoint.updates(tmp_path / "run" / "checkpoints") == [2]


def test_a_full_disk_is_not_tried_again_at_every_update(
    train: Train, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="the disk is full: the checkpoint of update 12 was not written"):
        train("train.updates=12", "run.keep_every=2")
    said = capsys.readouterr().out
    assert "checkpoint 2: paused" in said and "checkpoint 12: paused" in said
    assert "trying again" not in said and said.count(": paused") == 2


def test_a_failed_checkpoint_is_tried_again(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full_at_first(monkeypatch)
    monkeypatch.setattr(loop, "_PAUSE", 0.0)
    assert train("train.updates=12", "run.keep_every=8") == 0
    assert "trying again" in capsys.readouterr().out
    first, last = checkpoint.updates(tmp_path / "run" / "checkpoints")
    assert 8 < first < last == 12


def test_a_line_that_a_kill_has_torn_is_taken_back(train: Train, tmp_path: Path) -> None:
    """And the first report after it is whole."""
    assert train("train.updates=2") == 0
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "upd')
    assert train("train.updates=4", resume="auto") == 0
    assert [line["update"] for line in lines(tmp_path / "run")] == [1, 2, 3, 4]
