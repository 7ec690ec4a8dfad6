"""What a run's folder says of how its model came about, for the model card. What is not there is not said."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from engine import released
from engine.folders import census, metrics
from engine.folders.runs import settings_of


class Facts(NamedTuple):
    settings: dict[str, Any]  # of config.yaml, without paths; empty: none
    datasets: list[dict[str, Any]]  # fingerprint, and of those at hand recordings, crops and cohorts
    train: dict[str, Any]  # the last report
    valid: dict[str, Any]  # the last validation
    scores: list[dict[str, Any]]  # of engine.evaluate, with `how`


def gather(run: Path, described: Mapping[str, Any], scores: Sequence[Path]) -> Facts:
    """`run`: its folder, or that of the weights alone; `scores`: what engine.evaluate --json wrote of the model, or of
    models that were fine-tuned from it."""
    settings = settings_of(run)
    paths = settings.get("data", {}).pop("path", [])
    kept = {
        name: {key: value for key, value in settings[name].items() if key not in ("from", "path", "cache")}
        for name in ("train", "model", "augmentation")
        if name in settings
    }
    train, valid, _ = metrics.read(run)
    return Facts(
        settings=kept | ({"seed": settings["run"]["seed"]} if "seed" in settings.get("run", {}) else {}),
        datasets=[_dataset(fingerprint, paths) for fingerprint in described.get("data", [])],
        train=train[-1] if train else {},
        valid=valid[-1] if valid else {},
        scores=_scores(run, described, scores),
    )


def _dataset(fingerprint: str, paths: Iterable[str]) -> dict[str, Any]:
    """Of the folder that has this fingerprint, if it is still where the run found it."""
    for path in paths:
        try:
            found = census.read(path)
        except (OSError, ValueError):
            continue
        if found.fingerprint == fingerprint:
            return {
                "fingerprint": fingerprint,
                "recordings": found.description["recordings"],
                "crops": found.description["crops"]["kept"],
                "rejected": found.description["crops"]["rejected"],
                "cohorts": Counter(found.crops["cohort"].to_pylist()),
            }
    return {"fingerprint": fingerprint}


def _scores(run: Path, described: Mapping[str, Any], named: Sequence[Path]) -> list[dict[str, Any]]:
    found = []
    for path in [*named, *(path for path in sorted(run.glob("*.json")) if path not in named)]:
        try:
            result = json.loads(path.read_text())
            how = _how(result, described)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            how = None
        if how is not None:
            found.append(result | {"how": how})
        elif path in named:
            raise ValueError(f"--scores {path} holds no scores of this model, nor of one that was fine-tuned from it")
    return found


def _how(result: Mapping[str, Any], described: Mapping[str, Any]) -> str | None:
    """Whose scores these are."""
    model, leads = result["model"], result["leads"]
    own_leads = set(leads) == set(model["trained_leads"])
    trained = "its own leads" if own_leads else f"trained with {len(model['trained_leads'])} leads"
    if model == {name: value for name, value in described.items() if name not in ("leads", "classes")}:
        return f"this model, {trained}"
    if "task" in model and model.get("pretrained") == released.origin(described):
        return f"fine-tuned from it, {trained}"
    return None
