"""A run, read from its folder: nothing of it has to be whole but its settings."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from engine import released, settings
from engine.config.common import Config
from engine.config.finetuning import FRESH, FinetuneConfig
from engine.config.pretraining import PretrainConfig
from engine.folders import metrics
from engine.folders.metrics import Metrics
from engine.methods import SYSTEMS
from engine.scoring.leads import name_of
from engine.scoring.published import score_of

_FRESH: dict[str, Any] = {"trained_leads": []}
_FEW = 4  # runs that a line can name


@dataclass(frozen=True)
class Run:
    folder: Path
    name: str
    config: dict[str, Any]  # as RUN/config.yaml has it; a run of an older version may lack settings
    status: dict[str, Any]
    metrics: Metrics
    evaluations: list[dict[str, Any]]

    @property
    def task(self) -> str | None:
        """Of a fine-tuning; a pre-training has none."""
        task: str | None = self.config["train"].get("task")
        return task

    @property
    def kind(self) -> str:
        return "pre-training" if self.task is None else f"fine-tuning for {self.task}"

    @property
    def data(self) -> list[str]:
        return [str(path) for path in self.config["data"]["path"]]

    @property
    def leads(self) -> tuple[str, ...]:
        return tuple(self.config["data"]["leads"])

    @property
    def origin(self) -> Path | None:
        """Of a fine-tuning: the run whose weights it began with, if it was one; it may have moved since."""
        given = self.config["model"].get("from")
        if self.task is None or given in (None, FRESH):
            return None
        path = Path(given).expanduser().resolve()
        return path.parent if path.name == "model" else path

    @cached_property
    def model(self) -> Path | None:
        """None: it has not finished."""
        try:
            return released.find(self.folder, "")
        except ValueError:
            return None

    def trained_on(self, default: list[str]) -> list[str]:
        """Fingerprints of datasets; `default`: it has not finished, or does not say."""
        try:
            found: list[str] = released.describe(self.model).get("data") or default if self.model else default
        except ValueError:  # of an older version
            return default
        return found

    def defaults(self) -> dict[str, Any]:
        config: Config = PretrainConfig() if self.task is None else FinetuneConfig()
        plain: dict[str, Any] = settings.plain(config)
        return plain


def named(runs: Sequence[Run]) -> str:
    """In a line."""
    if len(runs) <= _FEW:
        return ", ".join(run.name for run in runs)
    return ", ".join(f"{count} of {kind}" for kind, count in Counter(run.kind for run in runs).items())


def of_leads(leads: Sequence[str]) -> str:
    """12 leads, lead I, leads I+V5"""
    name = name_of(leads)
    if len(leads) == 1:
        return f"lead {leads[0]}"
    return f"{name} leads" if name.isdigit() else f"leads {name}"


def of_task(runs: Sequence[Run], task: str) -> list[Run]:
    """Those that were fine-tuned for it and have finished: the first run itself, those that came from it, the others;
    and of these first those with most leads."""
    own = [run for run in runs if run.task == task and run.model]
    first = runs[0]
    return sorted(own, key=lambda run: (run is not first, run.origin != first.folder.resolve(), -len(run.leads)))


def augmentations(config: dict[str, Any]) -> dict[str, float]:
    """Of a pre-training, by setting: the chance of a lead to be masked, and the amplitudes in mV; 0: off."""
    chosen: dict[str, Any] = config.get("augmentation", {})
    system = SYSTEMS.get(config["train"]["system"])
    masked = chosen.get("mask_leads")
    if masked is None:
        masked = system.mask_leads if system else 0.0
    noises = {name: float(chosen.get(name) or 0.0) for name in ("powerline", "emg", "shift", "wander")}
    return {"mask_leads": float(masked), **noises}


def read_all(run: Path, others: Sequence[Path]) -> list[Run]:
    """The first is the one that the page is about."""
    folders = [run, *others]
    twice = [folder for folder in others if [one.resolve() for one in folders].count(folder.resolve()) > 1]
    if twice:
        raise ValueError(f"{twice[0]} is named twice")
    names = [folder.resolve().name for folder in folders]
    return [
        read(folder, name if names.count(name) == 1 else str(folder))
        for folder, name in zip(folders, names, strict=True)
    ]


def read(folder: Path, name: str) -> Run:
    """Raises ValueError where it is no run."""
    config = settings_of(folder)
    if not config:
        why = "it has no config.yaml" if folder.is_dir() else "there is no such folder"
        raise ValueError(f"{folder} is no run: {why}")
    run = Run(folder, name, config, _status(folder), metrics.read(folder), _evaluations(folder))
    try:
        _ = run.task, run.data, run.leads, run.config["run"]["dir"], run.config["model"]
    except (KeyError, TypeError) as failure:
        raise _damaged(folder, failure) from failure
    return run


def settings_of(folder: Path) -> dict[str, Any]:
    """RUN/config.yaml; empty where there is none. Raises ValueError where it is damaged."""
    path = folder / "config.yaml"
    try:
        found: dict[str, Any] = yaml.safe_load(path.read_text()) if path.is_file() else {}
        _ = [group.keys() for group in found.values()]
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError) as failure:
        raise _damaged(folder, failure) from failure
    return found


def _damaged(folder: Path, failure: Exception) -> ValueError:
    said = " ".join(str(failure).split())
    return ValueError(f"{folder / 'config.yaml'} does not hold the settings of a run: {said}")


def _status(folder: Path) -> dict[str, Any]:
    try:
        status = json.loads((folder / "status.json").read_text())
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


def _evaluations(folder: Path) -> list[dict[str, Any]]:
    """RUN/evaluation*.json, as `engine.evaluate --json` writes them."""
    found = []
    for path in sorted(folder.glob("evaluation*.json")):
        try:
            evaluation = json.loads(path.read_text())
            _ = evaluation["task"], evaluation["leads"], evaluation["model"]["trained_leads"]
            _ = score_of(evaluation)["value"], (evaluation["model"].get("pretrained") or _FRESH)["trained_leads"]
        except (ValueError, KeyError, TypeError) as failure:
            raise ValueError(f"{path} is no evaluation as engine.evaluate --json writes it") from failure
        found.append(evaluation)
    return found
