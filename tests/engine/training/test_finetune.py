"""Fine-tuning of the smallest size in this process, and with two ranks."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from engine import settings
from engine.config.common import load
from engine.config.finetuning import FinetuneConfig
from engine.model.sizes import FINETUNING, NO_DROPOUT, SIZES
from engine.training import memory, runs
from engine.training.finetuning import Finetuning
from engine.training.ranks import Ranks
from engine.training.schedule import tri_stage
from engine.tuner import Tuner
from tests.engine.conftest import shard
from tests.engine.training.conftest import CONFIGS, OUTSIDE, Train, full_at_first, lines, status
from tests.engine.training.test_launch import LAUNCHERS, QUIET, ROOT
from tests.engine.training.test_pretrain import at, same_state
from tests.recordings import noise, write

TASKS = CONFIGS.parent / "finetune"
FRESH = ("model.from=none", "model.size=tiny")
SMALL = ("train.batch=8", "run.log_every=1", "run.validate_every=1000", "log.to=[]")

Tune = Callable[..., int]


@pytest.fixture
def tune(hearts: Path, ranks: Ranks, tmp_path: Path) -> Tune:
    """A fine-tuning in this process, in the folder `to`; -> its exit code."""

    def run(task: str, *given: str, to: str = "tuned", resume: str | None = None) -> int:
        place = [f"data.path={hearts}", f"run.dir={tmp_path / to}"]
        config = load(FinetuneConfig, TASKS / f"{task}.yaml", [*SMALL, *place, *given])
        return runs.train(Finetuning, config, resume, ranks)

    return run


@pytest.fixture
def pretrained(train: Train, tmp_path: Path) -> Path:
    assert train("train.updates=2", to="pretrained") == 0
    return tmp_path / "pretrained"


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = load_file(folder / "model" / "model.safetensors")
    return found


def described(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "model" / "config.json").read_text())
    return found


@pytest.mark.parametrize("task", ["diagnosis", "identification"])
class TestBothTasks:
    def test_the_file_holds_what_differs_and_the_rest_is_the_papers(self, task: str) -> None:
        """METHOD A2: what fine-tuning is."""
        loaded = load(FinetuneConfig, TASKS / f"{task}.yaml", ["data.path=D", "run.dir=R", "model.from=none"])
        default = settings.plain(FinetuneConfig())
        for part, values in yaml.safe_load((TASKS / f"{task}.yaml").read_text()).items():
            assert all(default[part][key] != value or key == "task" for key, value in values.items())
        train, expected_lr = loaded.train, {"diagnosis": 5e-5, "identification": 3e-5}[task]
        assert (train.task, train.lr, train.batch, train.epochs) == (task, expected_lr, 128, 100)
        assert (train.betas, train.eps, train.weight_decay) == ((0.9, 0.98), 1e-8, 0.0)
        drop = loaded.model.dropout
        assert (drop.residual, drop.attention, drop.activation, drop.input) == (0.0, 0.0, 0.1, 0.0)

    def test_a_stopped_run_goes_on_bit_for_bit(self, tune: Tune, tmp_path: Path, task: str) -> None:
        """Over a validation, whose best is known after the resume."""
        given = (*FRESH, "run.validate_every=3")
        assert tune(task, *given, "train.updates=8", to="straight") == 0
        assert tune(task, *given, "train.updates=4", to="stopped") == 0
        assert tune(task, *given, "train.updates=8", to="stopped", resume="auto") == 0
        assert same_state(at(tmp_path / "straight", 8), at(tmp_path / "stopped", 8))
        first, again = (lines(tmp_path / to, "valid") for to in ("straight", "stopped"))
        assert [line for line in again if line["update"] != 4] == first

    def test_it_goes_on_with_the_micro_batch_that_it_had(
        self, tune: Tune, tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`auto`, with more memory now: a larger one would draw other dropout."""
        assert tune(task, *FRESH, "train.updates=4", "train.micro_batch=4", to="straight") == 0
        monkeypatch.setattr(memory, "needs", lambda job: (0.8, 0))
        for free, update in ((4.5, 2), (100.0, 4)):
            monkeypatch.setattr(memory, "_free", lambda job, free=free: free)
            assert tune(task, *FRESH, f"train.updates={update}", to="stopped", resume="auto") == 0
        assert same_state(at(tmp_path / "straight", 4), at(tmp_path / "stopped", 4))

    def test_the_best_weights_are_released(self, tune: Tune, tmp_path: Path, task: str) -> None:
        assert tune(task, *FRESH, "train.updates=6", "train.lr=1e-3", "run.validate_every=1") == 0
        run = tmp_path / "tuned"
        metric = {"diagnosis": "score", "identification": "rank1"}[task]
        validations = {line["update"]: line[metric] for line in lines(run, "valid")}
        assert list(validations) == [1, 2, 3, 4, 5, 6]
        best = max(validations, key=lambda update: (validations[update], -update))
        about = described(run)
        assert about["update"] == best and about["validation"] == {metric: validations[best]}
        kept = load_file(at(run, best) / "weights.safetensors")
        released = weights(run)
        assert all(torch.equal(released[name], kept[name]) for name in released)
        assert ("head.weight" in released) == (task == "diagnosis")  # of people that nobody else knows
        assert not any(name.startswith("head.kernel") for name in released)

    def test_it_begins_with_what_was_pre_trained(
        self, tune: Tune, pretrained: Path, tmp_path: Path, task: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        given = (f"model.from={pretrained}", "train.updates=1", "train.lr=1e-30", "data.leads=[I,II,V2]")
        assert tune(task, *given) == 0
        before, after = weights(pretrained), weights(tmp_path / "tuned")
        of_encoder = [name for name in after if name.startswith("encoder.")]
        assert of_encoder and all(torch.equal(before[name], after[name]) for name in of_encoder)
        assert "a fresh head" in capsys.readouterr().out
        about = described(tmp_path / "tuned")
        assert (about["task"], about["trained_leads"]) == (task, ["I", "II", "V2"])
        assert about["pretrained"]["system"] == "w2v_cmsc_rlm" and len(about["pretrained"]["trained_leads"]) == 12

    def test_leads_that_it_may_not_see_change_nothing(self, tune: Tune, tmp_path: Path, task: str) -> None:
        """The first convolution has no gradient for them: its weights stay as they were."""
        given = ("train.updates=2", "train.lr=1e-2", "data.leads=[I,V6]", "run.keep_every=1")
        assert tune(task, *FRESH, *given) == 0
        name = "encoder.convolutions.projections.0.weight"  # [64, 2 samples x 12 leads]
        first, last = (load_file(at(tmp_path / "tuned", update) / "weights.safetensors")[name] for update in (1, 2))
        moved = (first != last).reshape(-1, 2, 12).any(0).any(0)
        assert moved.tolist() == [True, *[False] * 10, True]

    @pytest.mark.parametrize("freeze", ["convolutions", "encoder"])
    def test_what_is_frozen_stays(self, tune: Tune, pretrained: Path, tmp_path: Path, task: str, freeze: str) -> None:
        given = (f"model.from={pretrained}", f"model.freeze={freeze}", "train.updates=3", "train.lr=1e-2")
        assert tune(task, *given, "run.keep_every=1") == 0
        before = weights(pretrained)
        after = load_file(at(tmp_path / "tuned", 3) / "weights.safetensors")
        changed = {
            name.split(".")[1] for name in after if name in before and not torch.equal(before[name], after[name])
        }
        assert ("convolutions" in changed) is False
        assert ("layers" in changed) is (freeze == "convolutions")
        first = load_file(at(tmp_path / "tuned", 1) / "weights.safetensors")
        of_head = [name for name in after if name.startswith("head.")]
        assert of_head and not any(torch.equal(first[name], after[name]) for name in of_head)

    def test_a_stop_in_a_validation_loses_nothing(
        self, tune: Tune, tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is made up for after the resume: the last one too, of a run that would have been finished."""
        given = (*FRESH, "run.validate_every=2", "train.updates=4", "train.lr=1e-3")
        assert tune(task, *given, to="straight") == 0
        stop, real = tmp_path / "stopped" / "stop", Finetuning.inputs
        for update in (2, 4):

            def inputs(self: Finetuning, batch: Any, of: int, at: int = update) -> tuple[Any, ...]:
                if of == at - 1 and not torch.is_grad_enabled():  # in the validation
                    stop.touch()
                return real(self, batch, of)

            with monkeypatch.context() as planted:
                planted.setattr(Finetuning, "inputs", inputs)
                assert tune(task, *given, to="stopped", resume="auto") == 75
            assert status(tmp_path / "stopped")["update"] == update
        assert tune(task, *given, to="stopped", resume="auto") == 0
        assert lines(tmp_path / "stopped", "valid") == lines(tmp_path / "straight", "valid")
        ours, theirs = described(tmp_path / "stopped"), described(tmp_path / "straight")
        assert (ours["update"], ours["validation"]) == (theirs["update"], theirs["validation"])

    def test_a_resume_does_not_look_at_what_it_began_with(
        self, tune: Tune, pretrained: Path, tmp_path: Path, task: str
    ) -> None:
        given = (f"model.from={pretrained}",)
        assert tune(task, *given, "train.updates=1") == 0
        before = described(tmp_path / "tuned")
        shutil.rmtree(pretrained)
        assert tune(task, *given, "train.updates=2", resume="auto") == 0
        after = described(tmp_path / "tuned")
        assert after["pretrained"] == before["pretrained"] and after["pretrained"]["system"] == "w2v_cmsc_rlm"
        with pytest.raises(ValueError, match=r"was trained with other settings: model.from = none"):
            tune(task, "model.from=none", "train.updates=3", resume="auto")

    def test_going_on_elsewhere_without_the_best(self, tune: Tune, tmp_path: Path, task: str) -> None:
        """Which lies in the folder of the run before: the best from there on is released."""
        given = (*FRESH, "run.validate_every=1", "run.keep_every=1", "train.lr=1e-30")
        assert tune(task, *given, "train.updates=3", to="first") == 0
        third = str(at(tmp_path / "first", 3))
        assert tune(task, *given, "train.updates=5", to="second", resume=third) == 0
        assert described(tmp_path / "first")["update"] == 1 and described(tmp_path / "second")["update"] == 4

    def test_it_gives_up_without_a_better_one(self, tune: Tune, tmp_path: Path, task: str) -> None:
        given = ("train.updates=100", "train.lr=1e-30", "run.validate_every=2", "train.patience=3")
        assert tune(task, *FRESH, *given) == 0
        assert status(tmp_path / "tuned")["update"] == 8 and described(tmp_path / "tuned")["update"] == 2
        assert tune(task, *FRESH, *given, resume="auto") == 0  # and does so again
        assert status(tmp_path / "tuned")["update"] == 8

    def test_two_ranks(self, hearts: Path, tune: Tune, tmp_path: Path, task: str) -> None:
        """The validation of both together is that of one process; the update's gradient too."""
        given = (*SMALL, *FRESH, "train.updates=2", "run.validate_every=1", "train.precision=fp32", "train.lr=1e-30")
        given += ("model.dropout.activation=0",)
        assert tune(task, *given, to="one") == 0
        program = [
            *LAUNCHERS["torchrun"],
            str(ROOT / "engine" / "finetune.py"),
            "--config",
            str(TASKS / f"{task}.yaml"),
        ]
        settings_ = [*given, f"data.path={hearts}", f"run.dir={tmp_path / 'two'}"]
        words = [*program, *(word for one in settings_ for word in ("--set", one))]
        subprocess.run(words, env=OUTSIDE | QUIET, check=True)
        names = ["score"] if task == "diagnosis" else ["rank1", "rank5", "equal_error_rate"]
        for ours, theirs in zip(lines(tmp_path / "one", "valid"), lines(tmp_path / "two", "valid"), strict=True):
            assert [ours[name] for name in names] == pytest.approx([theirs[name] for name in names], rel=1e-6)
        for ours, theirs in zip(lines(tmp_path / "one"), lines(tmp_path / "two"), strict=True):
            for name in ("loss", "gradient_norm"):
                assert ours[name] == pytest.approx(theirs[name], rel=1e-3)


def test_the_best_weights_could_not_be_written(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk that was full for a moment: the last ones are released."""
    full_at_first(monkeypatch)
    assert tune("diagnosis", *FRESH, "train.updates=3", "train.lr=1e-30", "run.validate_every=1") == 0
    assert "the best weights so far are not in this folder: the last ones are released" in capsys.readouterr().out
    assert described(tmp_path / "tuned")["update"] == 3


def test_the_head_is_always_a_fresh_one(tune: Tune, tmp_path: Path) -> None:
    """Also where what it begins with has one, of which the classes may be others."""
    assert tune("diagnosis", *FRESH, "train.updates=2", "train.lr=1e-2", to="first") == 0
    given = (f"model.from={tmp_path / 'first'}", "train.updates=1", "train.lr=1e-30")
    assert tune("diagnosis", *given, to="second") == 0
    first, second = weights(tmp_path / "first"), weights(tmp_path / "second")
    assert torch.equal(first["encoder.norm.weight"], second["encoder.norm.weight"])
    assert not torch.equal(first["head.weight"], second["head.weight"])
    assert described(tmp_path / "second")["pretrained"]["task"] == "diagnosis"


class TestRecipeReference:
    def test_the_convolutions_are_frozen(self, tune: Tune, tmp_path: Path) -> None:
        given = (*FRESH, "model.recipe=reference", "train.lr=1e-2", "run.keep_every=1")
        assert tune("diagnosis", *given, "train.updates=2") == 0
        first, last = (load_file(at(tmp_path / "tuned", update) / "weights.safetensors") for update in (1, 2))
        same = {name for name in first if torch.equal(first[name], last[name])}
        assert {name for name in same if "convolutions" in name} == {name for name in first if "convolutions" in name}
        assert "encoder.projection.weight" not in same

    def test_the_rate_of_identification_has_three_stages(self, tune: Tune, tmp_path: Path) -> None:
        """Of 320,000 updates, a tenth of which it rises from 1 %."""
        assert tune("identification", *FRESH, "model.recipe=reference", "train.updates=2") == 0
        rates = [line["lr"] for line in lines(tmp_path / "tuned")]
        assert rates == pytest.approx([3e-5 * 0.01, 3e-5 * (0.01 + 0.99 / 32_000)])


def test_three_stages_in_closed_form() -> None:
    assert [tri_stage(update, 1000) for update in (0, 50, 100, 200, 299)] == pytest.approx([0.01, 0.505, 1, 1, 1])
    assert tri_stage(650, 1000) == pytest.approx(0.1)  # half way down, in logarithms
    assert tri_stage(1000, 1000) == pytest.approx(0.01) == tri_stage(5000, 1000)


def test_a_linear_probe_sees_the_encoder_without_dropout() -> None:
    tuner = Tuner("diagnosis", 26, SIZES["tiny"], drop=FINETUNING, freeze="encoder").train()
    signal = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 2500, 12))).float()
    assert torch.equal(tuner(signal).outputs, tuner(signal).outputs)
    free = Tuner("diagnosis", 26, SIZES["tiny"], drop=FINETUNING).train()
    assert not torch.equal(free(signal).outputs, free(signal).outputs)


def test_one_setting_of_a_group_leaves_the_others_as_they_are_in_fine_tuning() -> None:
    """Not as they are in pre-training."""
    given = ["data.path=D", "run.dir=R", "model.from=none", "model.dropout.activation=0"]
    drop = load(FinetuneConfig, TASKS / "diagnosis.yaml", given).model.dropout
    assert drop == NO_DROPOUT


class TestRefusals:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ([], "model.from is missing: a pre-training run, a folder of released weights, or none for fresh ones"),
            (["model.from=nowhere"], "model.from = nowhere is no run with a model/, and no folder with a model.safet"),
            (
                ["model.from=X", "model.size=tiny"],
                "model.size, model.sizes and model.recipe come with the weights of m",
            ),
            (["model.from=none", "model.size=huge"], "model.size = huge should be one of tiny, small, base"),
            (["model.from=none", "train.patience=0"], "train.patience = 0 should be more than 0"),
            (["model.from=none", "train.contrast_pool=8"], "train.contrast_pool: there is no such setting"),
            (["model.from=none", "train.micro_batch=3"], "train.micro_batch = 3 on 1 ranks does not make equal parts"),
            (["model.from=none", "model.dropout.features=0.1"], "model.dropout.features has no effect in fine-tuning"),
            (["model.from=none", "data.leads=[I, V7]"], "data.leads: there is no lead V7"),
        ],
    )
    def test_settings(self, tune: Tune, given: list[str], said: str) -> None:
        with pytest.raises(ValueError, match=f"^{said}"):
            tune("diagnosis", *given)

    def test_an_unfinished_run(self, train: Train, tune: Tune, tmp_path: Path) -> None:
        assert train("train.updates=100000", "run.max_minutes=0.01", to="begun") == 75
        with pytest.raises(ValueError, match="begun is a run that has not finished: --resume auto goes on with it"):
            tune("diagnosis", f"model.from={tmp_path / 'begun'}")

    def test_a_dataset_without_labels(self, tune: Tune, hearts: Path, tmp_path: Path) -> None:
        data = tmp_path / "set"
        shutil.copytree(hearts, data)
        column = data / "views" / "diagnosis-train" / "classes.npy"
        np.save(column, np.zeros_like(np.load(column)))
        with pytest.raises(ValueError, match="no segment of diagnosis-train has a label"):
            tune("diagnosis", *FRESH, f"data.path={data}")

    def test_a_dataset_without_the_view(self, tune: Tune, tmp_path: Path) -> None:
        write(tmp_path / "raw", "own", noise(0, 80_000))
        data = shard(tmp_path / "raw", tmp_path / "set")
        with pytest.raises(ValueError, match="has no view 'diagnosis-train'; it has pretrain"):
            tune("diagnosis", *FRESH, f"data.path={data}")
