"""demo.sh, the Makefile and docs/kubernetes.yaml: their commands would be understood, and two pods train together."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from engine.config.common import load
from engine.config.finetuning import FinetuneConfig
from engine.config.pretraining import PretrainConfig
from tests.docs.pages import ROOT
from tests.docs.programs import commands, understood
from tests.engine.training.conftest import SMALL

DEMO = (ROOT / "demo.sh").read_text()
RUNS = (
    {"program": "pretrain", "config": "pretrain", "run": "demo/run", "task": "diagnosis"},
    {"program": "finetune", "config": "diagnosis", "run": "demo/diagnosis", "task": "diagnosis"},
    {"program": "finetune", "config": "identification", "run": "demo/identification", "task": "identification"},
)


def lines(text: str, known: dict[str, str]) -> list[str]:
    """Of a script, its variables filled in and its quotes left out; what is continued is one line."""
    for name, value in known.items():
        text = text.replace(f"${name}", value)
    return text.replace("\\\n", " ").replace('"', "").splitlines()


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("known", RUNS, ids=lambda known: known["config"])
def test_the_demos_commands_are_understood(
    known: dict[str, str], parsing_alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled_in = known | {"demo": "demo", "data": "data", "1": known["task"], "2": "data"}
    script = DEMO.replace('--out "$@"', "--out data")
    found = [one for line in lines(script, filled_in) for one in commands(line)]
    programs = [program for program, _ in found]
    of_data = ["data_tools.synthesize", "data_tools.shard"]
    assert programs == [f"engine/{known['program']}.py", *of_data, "engine.evaluate", "engine.report"]
    for program, words in found:
        understood(program, [word for word in words if word != "$@"], monkeypatch)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_the_makefiles_commands_are_understood(parsing_alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = re.sub(r"\$\((\w+)\)", r"\1", (ROOT / "Makefile").read_text().replace("$(BIN)/", ""))
    found = [one for line in lines(recipes, {}) for one in commands(line)]
    assert [program for program, _ in found] == ["data_tools.synthesize", "data_tools.shard", "benchmarks"]
    for program, words in found:
        understood(program, words, monkeypatch)


@pytest.mark.parametrize("known", RUNS, ids=lambda known: known["config"])
def test_the_demos_configs_have_no_problems(known: dict[str, str]) -> None:
    of = PretrainConfig if known["program"] == "pretrain" else FinetuneConfig
    given = ["data.path=DATA", "run.dir=RUN", *(["model.from=RUN"] if of is FinetuneConfig else [])]
    config = load(of, ROOT / "configs" / "demo" / f"{known['config']}.yaml", given)
    # demo.sh starts as many ranks as there are GPUs, of which 1, 2, 4, 8 and 16 have to be right.
    assert all(config.micro_batches(ranks) for ranks in (1, 2, 4, 8, 16))


@pytest.mark.slow
def test_the_pods_of_kubernetes_train_together(hearts: Path, tmp_path: Path) -> None:
    """The command as it stands, but for places, sizes and the name of the first pod."""
    _, job = yaml.safe_load_all((ROOT / "docs" / "kubernetes.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (text,) = container["args"]
    run = tmp_path / "run"
    here = {"/data/set": str(hearts), "/runs/w2v_cmsc_rlm": str(run), "leadwise-0.leadwise": "127.0.0.1"}
    for there, place in {**here, "--nproc-per-node 8": "--nproc-per-node 1", "29500": "29517"}.items():
        assert there in text
        text = text.replace(there, place)
    text += "".join(f" --set {setting}" for setting in (*SMALL, "train.updates=2"))
    pods = [
        subprocess.Popen(
            [*container["command"], text],
            cwd=ROOT,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "JOB_COMPLETION_INDEX": str(index),
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(job["spec"]["completions"])
    ]
    said = [pod.communicate(timeout=600)[0] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0], said
    assert "2 ranks x 4 x 1 micro-steps" in said[0]
    assert json.loads((run / "status.json").read_text())["status"] == "finished"
