"""Weights for others: a folder of model.safetensors and config.json, which holds all that is needed to use them."""

import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.data.chance import LEADS, RATE
from engine.model.encoder import Encoder
from engine.model.sizes import NO_DROPOUT, Recipe, Sizes

FORMAT = 1


def save(folder: Path, weights: Mapping[str, Tensor], recipe: Recipe, sizes: Sizes, about: Mapping[str, Any]) -> None:
    if not all(bool(value.isfinite().all()) for value in weights.values()):
        raise ValueError(f"{folder}: the weights are not all finite, and are not released")
    unfinished = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in weights.items()}, unfinished / "model.safetensors")
    config = {
        "format": FORMAT,
        "rate": RATE,
        "leads": list(LEADS),
        "unit": "mV",
        "recipe": recipe,
        "sizes": dataclasses.asdict(sizes),
        **about,
    }
    (unfinished / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def load_into(module: nn.Module, folder: Path, recipe: Recipe, sizes: Sizes) -> list[str]:
    """-> the parts that the folder has no weights for, and stay fresh. The encoder's have to be there, all of them."""
    config, weights = read(folder)
    expected = {"recipe": recipe, "sizes": dataclasses.asdict(sizes)}
    for name, value in expected.items():
        if config.get(name) != value:
            raise ValueError(f"model.from = {folder} has {name} {config.get(name)}, and the run {value}")
    own = module.state_dict()
    known = {name: value for name, value in weights.items() if name in own}
    missing = [name for name in own if name.startswith("encoder.") and name not in known]
    misshapen = [name for name, value in known.items() if value.shape != own[name].shape]
    if missing or misshapen:
        raise ValueError(
            f"model.from = {folder}: missing {missing or 'nothing'}, of another shape {misshapen or 'none'}"
        )
    module.load_state_dict(known, strict=False)
    return sorted({name.split(".")[0] for name in own if name not in known})


def load_whole(module: nn.Module, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Every weight of the module, and no other."""
    own = {name: value.shape for name, value in module.state_dict().items()}
    given = {name: value.shape for name, value in weights.items()}
    if own != given:
        wrong = sorted(name for name in own.keys() | given.keys() if own.get(name) != given.get(name))
        raise ValueError(f"{folder}: its weights are not those that its config.json describes: {', '.join(wrong[:5])}")
    module.load_state_dict(weights)


def load_encoder(folder: Path) -> tuple[Encoder, dict[str, Any]]:
    """Without dropout; and what config.json says of it."""
    config, weights = read(folder)
    encoder = Encoder(Sizes(**config["sizes"]), config["recipe"], NO_DROPOUT).eval()
    load_whole(encoder, of_encoder(weights), folder)
    return encoder, config


def of_encoder(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without heads, and without what only pre-training uses."""
    return {name.removeprefix("encoder."): value for name, value in weights.items() if name.startswith("encoder.")}


def find(path: Path, setting: str) -> Path:
    """The folder itself, or that of a finished run. `setting`: how it was given, as `--model `."""
    if (path / "model.safetensors").is_file():
        return path
    if (path / "model" / "model.safetensors").is_file():
        return path / "model"
    if (path / "checkpoints").is_dir():
        raise ValueError(f"{setting}{path} is a run that has not finished: --resume auto goes on with it")
    raise ValueError(f"{setting}{path} is no run with a model/, and no folder with a model.safetensors")


def describe(folder: Path) -> dict[str, Any]:
    """Its config.json; what does not describe an encoder of this format is a ValueError."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text())
        known = {
            "format": FORMAT,
            "rate": RATE,
            "leads": list(LEADS),
            "unit": "mV",
            "recipe": config["recipe"],
            "sizes": dataclasses.asdict(Sizes(**config["sizes"])),
            "trained_leads": [lead for lead in config["trained_leads"] if lead in LEADS],
        }
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise ValueError(f"{path} describes no model: {' '.join(str(failure).split())}") from failure
    if config.get("task") == "diagnosis" and not isinstance(config.get("classes"), list):
        raise ValueError(f"{path}: a model of diagnosis has no classes")
    if config["recipe"] not in get_args(Recipe):
        raise ValueError(f"{path}: recipe {config['recipe']!r} should be one of {', '.join(get_args(Recipe))}")
    for name, value in known.items():
        if config.get(name) != value:
            raise ValueError(f"{path}: {name} is {config.get(name)!r}, which should be {value!r}")
    return dict(config)


def origin(described: Mapping[str, Any]) -> dict[str, Any]:
    """What a model that is trained from the described one says of it as `pretrained`."""
    known = ("task", "system", "contrast_pool", "trained_leads", "data", "update", "pretrained", "imported")
    return {name: described[name] for name in known if name in described}


def stages(described: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The model itself, what it was trained from, what that was trained from."""
    stage: Mapping[str, Any] | None = described
    while stage:
        yield stage
        stage = stage.get("pretrained")


def named(stage: Mapping[str, Any]) -> str:
    return stage.get("task") or stage.get("system") or "imported weights"


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not (folder / "model.safetensors").is_file():
        raise ValueError(f"{folder} holds no released model: it has no model.safetensors")
    config = describe(folder)
    try:
        weights = load_file(folder / "model.safetensors")
    except SafetensorError as failure:
        raise ValueError(f"{folder} holds a damaged model: {' '.join(str(failure).split())}") from failure
    if not all(bool(value.isfinite().all()) for value in weights.values()):
        raise ValueError(f"{folder} holds a damaged model: not all of its weights are finite")
    return config, weights
