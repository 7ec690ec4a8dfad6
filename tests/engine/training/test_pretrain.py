"""Runs of the smallest size in this process; those of several processes are in test_launch.py."""

import gc
import json
import math
import os
import shutil
import signal
import threading
import time
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from engine import released
from engine.learner import Learner
from engine.methods import SYSTEMS
from engine.model.sizes import NO_DROPOUT, SIZES
from engine.training import checkpoint
from tests.engine.conftest import shard
from tests.engine.training.conftest import Train, lines, status
from tests.recordings import noise, write

GOLDEN = Path(__file__).with_name("golden.json")
STILL = [f"model.dropout.{place}=0" for place in ("residual", "attention", "input")]
WATCHED = ("loss", "local", "global", "diversity", "feature_penalty", "gradient_norm")


def same_state(ours: Path, theirs: Path) -> bool:
    """Bit for bit."""
    for name in ("weights.safetensors", "moments.safetensors"):
        mine, other = load_file(ours / name), load_file(theirs / name)
        if mine.keys() != other.keys() or not all(torch.equal(mine[key], other[key]) for key in mine):
            return False
    return True


def at(run: Path, update: int) -> Path:
    return run / "checkpoints" / f"update-{update:08d}"


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["train.zero_stage=0", "train.precision=fp32"],
        ["train.zero_stage=2", "train.precision=fp32"],
        ["train.zero_stage=3"],
        ["train.offload=cpu"],
    ],
    ids=["zero1-bf16", "zero0-fp32", "zero2-fp32", "zero3-bf16", "offload"],
)
def test_a_stopped_run_goes_on_bit_for_bit(train: Train, tmp_path: Path, given: list[str]) -> None:
    """Weights, moments, losses; dropout, Gumbel noise and RLM on, over the turn of an epoch."""
    assert train("train.updates=40", *given, to="straight") == 0
    assert train("train.updates=17", *given, to="stopped") == 0
    assert train("train.updates=40", *given, to="stopped", resume="auto") == 0
    assert same_state(at(tmp_path / "straight", 40), at(tmp_path / "stopped", 40))
    straight, stopped = lines(tmp_path / "straight"), lines(tmp_path / "stopped")
    assert [line["update"] for line in stopped] == list(range(1, 41))
    for ours, theirs in zip(straight, stopped, strict=True):
        assert [ours[name] for name in WATCHED] == [theirs[name] for name in WATCHED]
    assert straight[-1]["epoch"] > 1


def test_accumulated_pools(train: Train, tmp_path: Path) -> None:
    """Two pools of four: the mean of what each of them gives, whatever holds them."""
    given = ["train.contrast_pool=4", "train.precision=fp32", *STILL]
    assert train("train.updates=6", *given, file="cmsc_rlm") == 0
    line = lines(tmp_path / "run")[0]
    assert line["pool"] == 4 and line["global_chance"] == pytest.approx(math.log(7), rel=1e-4)
    assert train("train.updates=3", *given, file="cmsc_rlm", to="stopped") == 0
    assert train("train.updates=6", *given, file="cmsc_rlm", to="stopped", resume="auto") == 0
    assert same_state(at(tmp_path / "run", 6), at(tmp_path / "stopped", 6))


def test_an_update_counts_as_computing(train: Train, tmp_path: Path) -> None:
    """Forward, backward, the optimizer's step, and waiting for the device that does them."""
    assert train("train.updates=2") == 0
    shares = {name for line in lines(tmp_path / "run") for name in line if name.endswith("_share")}
    assert shares == {"data_share", "compute_share"}


def test_going_on_from_an_older_checkpoint(train: Train, tmp_path: Path) -> None:
    assert train("train.updates=12", "run.keep_every=4", to="run") == 0
    older = tmp_path / "older"
    shutil.copytree(at(tmp_path / "run", 4), older)
    assert train("train.updates=12", to="again", resume=str(older)) == 0
    assert same_state(at(tmp_path / "run", 12), at(tmp_path / "again", 12))


def test_the_losses_are_those_of_the_golden_file(train: Train, tmp_path: Path) -> None:
    """Float32, ten updates. If a change is meant to move them: LEADWISE_GOLDEN=write pytest -k golden."""
    assert train("train.updates=10", "train.precision=fp32", "model.dropout.attention=0.0") == 0
    found = [{name: line[name] for name in WATCHED} for line in lines(tmp_path / "run")]
    if os.environ.get("LEADWISE_GOLDEN") == "write":
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    for ours, golden in zip(found, json.loads(GOLDEN.read_text()), strict=True):
        assert ours == pytest.approx(golden, rel=1e-3)


def test_the_norm_of_a_gradient_is_that_before_clipping(train: Train, tmp_path: Path) -> None:
    """With ZeRO as without, which clip alike."""
    given = ["train.updates=3", "train.precision=fp32", "train.clip=0.5", "train.lr=1e-3", *STILL]
    for stage in (0, 1):
        assert train(*given, f"train.zero_stage={stage}", to=f"zero{stage}") == 0
    none, one = (lines(tmp_path / f"zero{stage}") for stage in (0, 1))
    assert min(line["gradient_norm"] for line in one) > 1
    for ours, theirs in zip(none, one, strict=True):
        assert [ours[name] for name in WATCHED] == pytest.approx([theirs[name] for name in WATCHED], rel=1e-4)
    ours, theirs = (load_file(at(tmp_path / f"zero{stage}", 3) / "moments.safetensors") for stage in (0, 1))
    for name, moment in ours.items():
        torch.testing.assert_close(moment, theirs[name], rtol=1e-3, atol=1e-7, msg=name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals(train: Train, tmp_path: Path, number: signal.Signals) -> None:
    """Twice, a moment apart: the second is ignored."""

    def send() -> None:
        while not (tmp_path / "run" / "metrics.jsonl").exists() or not lines(tmp_path / "run"):
            time.sleep(0.05)
        os.kill(os.getpid(), number)
        time.sleep(0.05)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    code = train("train.updates=100000")
    sender.join()
    assert code == 128 + number
    end = status(tmp_path / "run")
    assert end["status"] == "stopped" and end["reason"] == number.name and end["update"] >= 1
    # Saved at the last update, and the same run goes on from there.
    found = checkpoint.latest(tmp_path / "run" / "checkpoints", print)
    assert found is not None and found.state["update"] == end["update"]
    assert train(f"train.updates={end['update'] + 1}", resume="auto") == 0


def test_a_stop_file_and_a_limit_of_time(train: Train, tmp_path: Path) -> None:
    assert train("train.updates=100000", "run.max_minutes=0.01") == 75
    first = status(tmp_path / "run")
    assert first["reason"] == "run.max_minutes"

    def touch() -> None:
        before = len(lines(tmp_path / "run"))
        while len(lines(tmp_path / "run")) == before:
            time.sleep(0.1)
        (tmp_path / "run" / "stop").touch()

    toucher = threading.Thread(target=touch)
    toucher.start()
    assert train("train.updates=100000", resume="auto") == 75
    toucher.join()
    assert status(tmp_path / "run")["reason"] == "stop file"
    assert status(tmp_path / "run")["update"] > first["update"]


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_stopped_before_the_first_update(train: Train, tmp_path: Path, stage: int) -> None:
    given = ["train.precision=fp32", f"train.zero_stage={stage}", "train.updates=3"]
    assert train(*given, "run.max_minutes=1e-9") == 75
    assert status(tmp_path / "run")["update"] == 0
    assert train(*given, resume="auto") == 0
    assert train(*given, to="straight") == 0
    assert same_state(at(tmp_path / "straight", 3), at(tmp_path / "run", 3))


@pytest.mark.slow
def test_compiled(train: Train, tmp_path: Path) -> None:
    """Through DeepSpeed's hooks, a validation, and the losses of the uncompiled run."""
    given = ["train.updates=5", "train.precision=fp32", "run.validate_every=3", *STILL]
    assert train(*given, "train.compile=true", to="compiled", file="cmsc_rlm") == 0
    assert train(*given, to="eager", file="cmsc_rlm") == 0
    for ours, theirs in zip(lines(tmp_path / "compiled"), lines(tmp_path / "eager"), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)


def test_best_and_last_are_kept(train: Train, tmp_path: Path) -> None:
    assert train("train.updates=12", "run.validate_every=2", "run.keep_last=1", "train.lr=1e-3") == 0
    valid = lines(tmp_path / "run", "valid")
    assert [line["update"] for line in valid] == [2, 4, 6, 8, 10, 12]
    best = min(valid, key=lambda line: line["loss"])["update"]
    assert checkpoint.updates(tmp_path / "run" / "checkpoints") == sorted({best, 12})
    assert {"local", "global", "local_accuracy", "pair_retrieval"} <= set(valid[0])


def test_a_dataset_without_validation(train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One recording cannot be spared."""
    write(tmp_path / "raw", "own", noise(0, 80_000))
    data = shard(tmp_path / "raw", tmp_path / "set")
    assert train(f"data.path={data}", "train.updates=2", "run.validate_every=1") == 0
    assert "no validation: its view has 0 samples" in capsys.readouterr().out
    assert not lines(tmp_path / "run", "valid")


def test_validation_changes_nothing(train: Train, tmp_path: Path) -> None:
    assert train("train.updates=6", to="without") == 0
    assert train("train.updates=6", "run.validate_every=1", to="with") == 0
    assert same_state(at(tmp_path / "without", 6), at(tmp_path / "with", 6))


def test_released_weights_start_another_run(train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("train.updates=3", to="first") == 0
    assert train("train.updates=1", "train.lr=1e-30", f"model.from={tmp_path / 'first' / 'model'}", to="second") == 0
    weights = load_file(tmp_path / "second" / "model" / "model.safetensors")
    before = load_file(tmp_path / "first" / "model" / "model.safetensors")
    assert weights.keys() == before.keys() and all(torch.equal(weights[name], before[name]) for name in weights)
    assert "fresh: nothing" in capsys.readouterr().out
    assert train("train.updates=1", to="cmsc", file="cmsc") == 0
    assert train("train.updates=1", f"model.from={tmp_path / 'cmsc' / 'model'}", to="third") == 0
    assert "fresh: context_projection, quantizer, target_projection" in capsys.readouterr().out
    with pytest.raises(ValueError, match="has recipe paper, and the run reference"):
        train("model.recipe=reference", "train.contrast_pool=4", f"model.from={tmp_path / 'first' / 'model'}", to="x")
    with pytest.raises(ValueError, match="is no run with a model/, and no folder with a model.safetensors"):
        train(f"model.from={tmp_path}", to="y")


def test_it_is_known_what_the_weights_had_seen_before(train: Train, tmp_path: Path, dataset: Path) -> None:
    """Through a resume too, which does not look at what it began with."""

    def described(run: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((tmp_path / run / "model" / "config.json").read_text())
        return found

    assert train("train.updates=1", f"data.path={dataset}", to="first") == 0
    given = [f"model.from={tmp_path / 'first'}"]
    assert train("train.updates=1", *given, to="second") == 0
    first, before = described("first"), described("second")["pretrained"]
    assert first["pretrained"] is None and before == released.origin(first)
    assert before["data"] != described("second")["data"] and before["system"] == "w2v_cmsc_rlm"
    shutil.rmtree(tmp_path / "first")
    assert train("train.updates=2", *given, to="second", resume="auto") == 0
    assert described("second")["pretrained"] == before


def test_what_is_released_is_the_trained_model(train: Train, tmp_path: Path) -> None:
    assert train("train.updates=3") == 0
    learner = Learner(SYSTEMS["w2v_cmsc_rlm"], SIZES["tiny"], drop=NO_DROPOUT)
    assert released.load_into(learner, tmp_path / "run" / "model", "paper", SIZES["tiny"]) == []
    weights = load_file(at(tmp_path / "run", 3) / "weights.safetensors")
    assert all(torch.equal(weights[name], parameter) for name, parameter in learner.named_parameters())


class TestRefusals:
    """One line each, before anything is trained or lost."""

    @pytest.fixture
    def begun(self, train: Train, tmp_path: Path) -> Path:
        assert train("train.updates=2") == 0
        return tmp_path / "run"

    def test_a_run_that_is_there(self, train: Train, begun: Path) -> None:
        with pytest.raises(ValueError, match=r"holds a run: --resume auto goes on with it"):
            train("train.updates=4")
        assert checkpoint.updates(begun / "checkpoints") == [2]

    def test_another_config(self, train: Train, begun: Path) -> None:
        with pytest.raises(ValueError, match=r"with other settings: train.lr = 0.1 \(was 5e-05\)$"):
            train("train.lr=0.1", resume="auto")
        with pytest.raises(ValueError, match=r"run.seed = 3 \(was 0\)"):
            train("run.seed=3", resume="auto")
        assert train("train.updates=3", "run.log_every=2", "data.prefetch=4", resume="auto") == 0

    @pytest.mark.parametrize(
        ("given", "most"),
        [
            (["train.batch=512", "train.contrast_pool=512"], "train.batch=256 train.contrast_pool=256"),
            (["train.batch=512", "train.contrast_pool=64"], "train.batch=256 train.contrast_pool=64"),
        ],
    )
    def test_a_pool_larger_than_the_dataset(self, train: Train, given: list[str], most: str) -> None:
        """A sample would be its own negative. Without a contrast there is nothing to refuse."""
        with pytest.raises(ValueError, match=rf"has \d+ samples, and .* pools of .* at most {most}$"):
            train(*given)

    def test_another_dataset(self, train: Train, begun: Path, dataset: Path) -> None:
        before = [(begun / name).read_bytes() for name in ("status.json", "config.yaml")]
        with pytest.raises(ValueError, match=r"data.path: these are not the datasets"):
            train(f"data.path={dataset}", resume="auto")
        assert [(begun / name).read_bytes() for name in ("status.json", "config.yaml")] == before

    def test_a_run_that_is_running(self, train: Train, begun: Path) -> None:
        with open(begun / "lock") as lock:
            flock(lock, LOCK_EX)
            (begun / "stop").touch()
            with pytest.raises(ValueError, match="another process is training there"):
                train("train.updates=4", resume="auto")
            assert (begun / "stop").exists()  # it is for the one that runs
        assert train("train.updates=4", resume="auto") == 0  # and is of the run before for the next

    def test_a_damaged_checkpoint(self, train: Train, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert train("train.updates=4", resume="auto") == 0
        path = at(begun, 4) / "weights.safetensors"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        assert train("train.updates=4", resume="auto") == 0
        assert f"passed over: {path} is damaged" in capsys.readouterr().out

    def test_a_folder_that_cannot_be_written(self, train: Train, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(ValueError, match="file"):
            train(to="file/run")

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("deepspeed.train_batch_size=8", "deepspeed.train_batch_size is set by train.batch"),
            (
                "deepspeed.zero_optimisation.stage=1",
                r"there is no such setting; did you mean deepspeed.zero_optimization\?",
            ),
            ("deepspeed.zero_optimization.stage=2", "deepspeed.zero_optimization.stage is set by train.zero_stage"),
            ("deepspeed.zero_optimization.nonsense=2", "DeepSpeed refuses these settings: .*nonsense"),
            ("deepspeed.activation_checkpointing=true", "^deepspeed.activation_checkpointing should be settings$"),
            ("deepspeed.zero_optimization=3", "^deepspeed.zero_optimization should be settings$"),
            ("deepspeed.bfloat16.enabled=true", "deepspeed.bfloat16 is set by train.precision"),
            ("deepspeed.timers.throughput.enabled=true", "deepspeed.timers is set by Leadwise"),
            ("train.micro_batch=3", "does not make whole pools of 8 pairs in updates of 8; it may be 8"),
        ],
    )
    def test_settings(self, train: Train, given: str, said: str) -> None:
        with pytest.raises(ValueError, match=said) as failure:
            train(given)
        assert "\n" not in str(failure.value)

    def test_a_tracker_that_is_not_installed(self, train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ValueError, match="log.to has mlflow, which is not installed: pip install mlflow"):
            train("log.to=[mlflow]")


def test_tensorboard_gets_what_the_lines_say(train: Train, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert train("train.updates=3", "log.to=[tensorboard]") == 0
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    written = [event.value for event in events.Scalars("train/loss")]
    assert written == pytest.approx([line["loss"] for line in lines(tmp_path / "run")])


def test_a_run_leaves_no_weights_behind(train: Train) -> None:
    """Many runs may share a process (benchmarks.paper)."""

    def alive() -> int:
        for _ in range(2):  # what the first finds may have finalizers
            gc.collect()
        return sum(isinstance(one, torch.nn.Parameter) for one in gc.get_objects())

    before = alive()
    assert train("train.updates=2") == 0
    assert alive() == before
