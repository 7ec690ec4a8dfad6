"""Every config file under two ranks, every ZeRO stage and precision, and a run that learns."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.training.conftest import CONFIGS, OUTSIDE, SMALL, lines
from tests.engine.training.test_launch import LAUNCHERS, QUIET, ROOT, begin, finish

pytestmark = pytest.mark.slow

# One launch: DeepSpeed's start-up is paid once.
_MANY = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from engine.config.common import load
from engine.config.pretraining import PretrainConfig
from engine.training import ranks, runs
from engine.training.pretraining import Pretraining
together = ranks.start()
for name, file, given in json.loads(sys.argv[2]):
    assert runs.train(Pretraining, load(PretrainConfig, Path(file), given), None, together) == 0
"""


def many(runs: list[tuple[str, str, list[str]]], data: Path, to: Path) -> None:
    """Each of (name, config file, settings) with two ranks."""
    program = to / "many.py"
    program.write_text(_MANY)
    listed = [
        (name, str(CONFIGS / f"{file}.yaml"), [*SMALL, f"data.path={data}", f"run.dir={to / name}", *given])
        for name, file, given in runs
    ]
    command = [*LAUNCHERS["torchrun"], str(program), str(ROOT), json.dumps(listed)]
    subprocess.run(command, env=OUTSIDE | QUIET, check=True)


def test_each_config_trains_with_two_ranks(hearts: Path, tmp_path: Path) -> None:
    names = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
    many([(name, name, ["train.updates=30", "train.lr=5e-4"]) for name in names], hearts, tmp_path)
    for name in names:
        reported = lines(tmp_path / name)
        assert [line["update"] for line in reported] == list(range(1, 31))
        first, last = (sum(line["loss"] for line in part) / 10 for part in (reported[:10], reported[-10:]))
        assert last < first - 0.02, name
        if "code_perplexity" in reported[-1]:
            assert reported[-1]["code_perplexity"] > 5


def test_every_stage_and_precision_gives_the_same_losses(hearts: Path, tmp_path: Path) -> None:
    settings = {
        f"zero{stage}-{precision}": [f"train.zero_stage={stage}", f"train.precision={precision}"]
        for stage in range(4)
        for precision in ("fp32", "bf16")
        if (stage, precision) != (0, "bf16")
    }
    many([(name, "w2v_cmsc_rlm", ["train.updates=30", *given]) for name, given in settings.items()], hearts, tmp_path)
    reported = {name: lines(tmp_path / name) for name in settings}
    for name, found in reported.items():
        exact = "fp32" in name
        for ours, theirs in zip(found, reported["zero1-fp32"], strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4 if exact else 2e-2), name
        assert found[-1]["loss"] < found[0]["loss"] - 0.3


def test_local_and_global_fall_below_chance(hearts: Path, tmp_path: Path) -> None:
    """configs/demo/pretrain.yaml: both losses by a stated margin, the codebook alive."""
    command = [
        sys.executable,
        str(ROOT / "engine" / "pretrain.py"),
        "--config",
        str(ROOT / "configs" / "demo" / "pretrain.yaml"),
    ]
    given = [f"data.path={hearts}", f"run.dir={tmp_path / 'run'}", "log.to=[]"]
    subprocess.run(command + [word for one in given for word in ("--set", one)], check=True)
    last = lines(tmp_path / "run")[-1]
    assert last["local"] < last["local_chance"] - 0.05
    assert last["global"] < last["global_chance"] - 1.5
    assert last["pair_retrieval"] > 0.4 and last["code_perplexity"] > 20


def test_going_on_with_another_number_of_ranks(hearts: Path, tmp_path: Path) -> None:
    """1 -> 2 ranks: the same pairs, the same curve to what dropout makes of it."""
    one, two = tmp_path / "one", tmp_path / "two"
    finish(begin(LAUNCHERS["python"], hearts, one, "train.updates=20", "run.keep_every=10"))
    finish(begin(LAUNCHERS["python"], hearts, two, "train.updates=10"))
    finish(begin(LAUNCHERS["torchrun"], hearts, two, "train.updates=20", resume="auto"))
    for ours, theirs in zip(lines(one)[10:], lines(two)[10:], strict=True):
        assert ours["epoch"] == theirs["epoch"]
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=0.03)
