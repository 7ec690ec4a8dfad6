"""Folders as runs leave them, with figures that are known beforehand and models that have learnt nothing."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from engine import released, report, settings
from engine.config.common import load
from engine.config.finetuning import FinetuneConfig, Task
from engine.config.pretraining import PretrainConfig
from engine.data.chance import LEADS
from engine.model.sizes import NO_DROPOUT, SIZES
from engine.scoring.leads import LEAD_SETS
from engine.tuner import Tuner

CONFIGS = Path(__file__).parents[3] / "configs"
Lines = Sequence[Mapping[str, Any]]


def pretraining(run: Path, data: Path, *given: str, file: str = "w2v_cmsc_rlm") -> Path:
    """Ten reports and two validations, and a model."""
    place = [f"data.path={data}", f"run.dir={run}", "model.size=tiny", *given]
    config = load(PretrainConfig, CONFIGS / "pretrain" / f"{file}.yaml", place)
    _begin(run, settings.plain(config), [*map(_report, range(10, 101, 10)), *map(_validation, (50, 100))])
    _model(run, {"system": config.train.system, "trained_leads": list(config.data.leads), "update": 100})
    return run


def _report(update: int) -> dict[str, Any]:
    losses = {"loss": 8 - update / 50, "local": 4.6 - update / 100, "local_chance": 4.5, "global": 5 - update / 25}
    right = {"global_chance": 4.0, "local_accuracy": update / 400, "pair_retrieval": update / 200}
    codes = {"code_perplexity": 2.0 + update, "probability_perplexity": 3.0 + update}
    speed = {"segments_per_second": 250.0 + update % 20, "data_share": 0.01, "memory_gb": 1.5}
    rest = {"gradient_norm": 1.0, "lr": 5e-5, "skipped": 0, "diversity": 0.5, "feature_penalty": 0.1}
    return {"kind": "train", "update": update, **losses, **right, **codes, **speed, **rest}


def _validation(update: int) -> dict[str, Any]:
    return {"kind": "valid", "update": update, "local": 4.4 - update / 100, "local_chance": 4.3}


def finetuning(run: Path, data: Path, task: Task, origin: Path | str, leads: int, score: float) -> Path:
    """Evaluated, with `score` as what the paper reports."""
    names = list(LEAD_SETS[leads])
    place = [f"data.path={data}", f"run.dir={run}", f"model.from={origin}", f"data.leads=[{','.join(names)}]"]
    config = load(FinetuneConfig, CONFIGS / "finetune" / f"{task}.yaml", place)
    metric = "score" if task == "diagnosis" else "rank1"
    valid = [{"kind": "valid", "update": update, metric: update / 500} for update in (50, 100)]
    rate = {"segments_per_second": 99.0, "data_share": 0.02}
    train = [{"kind": "train", "update": update, "loss": 1 / update, **rate} for update in (25, 50, 75, 100)]
    _begin(run, settings.plain(config), [*train, *valid])
    before = None if origin == "none" else {"system": "w2v_cmsc_rlm", "trained_leads": list(LEADS)}
    _model(run, {"task": task, "trained_leads": names, "pretrained": before, "update": 100})
    evaluation = {"task": task, "leads": names, "model": released.describe(run / "model"), **_figures(task, score)}
    (run / "evaluation.json").write_text(json.dumps(evaluation))
    return run


def _figures(task: Task, score: float) -> dict[str, Any]:
    figure = {"value": score, "low": score - 0.05, "high": score + 0.05}
    if task == "identification":
        return {"gallery": 50, "probe": 50, "figures": {"rank1": figure, "rank5": figure}}
    classes = {"NSR": {"positives": 7, "auroc": 0.9, "auprc": None, "f1": 0.5, "f1_tuned": 0.6}}
    return {"segments": {"count": 10, "figures": {"score": figure, "auroc": figure}, "classes": classes}}


def _begin(run: Path, config: Any, lines: Lines) -> None:
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    status = {"status": "finished", "reason": "all updates are done", "update": 100, "updates": 100}
    (run / "status.json").write_text(json.dumps(status))
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _model(run: Path, about: dict[str, Any]) -> None:
    """The encoder of any kind of run, with the head of diagnosis."""
    torch.manual_seed(0)
    weights = Tuner("diagnosis", 26, SIZES["tiny"], "paper", NO_DROPOUT).state_dict()
    classes = {"classes": [f"class {number}" for number in range(26)]} if about.get("task") == "diagnosis" else {}
    released.save(run / "model", weights, "paper", SIZES["tiny"], {"data": [], **about, **classes})


@pytest.fixture(scope="session")
def runs(hearts: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A pre-training, and what came from it: diagnosis with 12 leads of two seeds, and with one, and identification."""
    folder = tmp_path_factory.mktemp("runs")
    origin = pretraining(folder / "pretrained", hearts)
    return [
        origin,
        finetuning(folder / "diagnosis-12-a", hearts, "diagnosis", origin, 12, 0.7),
        finetuning(folder / "diagnosis-12-b", hearts, "diagnosis", origin / "model", 12, 0.72),
        finetuning(folder / "diagnosis-1", hearts, "diagnosis", origin, 1, 0.5),
        finetuning(folder / "fresh", hearts, "diagnosis", "none", 12, 0.6),
        finetuning(folder / "identification", hearts, "identification", origin, 12, 0.4),
    ]


def run(monkeypatch: pytest.MonkeyPatch, *given: object) -> int:
    """The command; -> its exit code."""
    monkeypatch.setattr(sys, "argv", ["report", *map(str, given)])
    return report.main()


@pytest.fixture(scope="session")
def page(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every section."""
    out = tmp_path_factory.mktemp("page") / "report.html"
    with pytest.MonkeyPatch.context() as patched:
        assert run(patched, runs[0], "--compare", *runs[1:], "--out", out) == 0
    return out
