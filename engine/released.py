"""Weights for others: a folder of model.safetensors and config.json, which holds all that is needed to use them."""

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.data.chance import LEADS, RATE
from engine.model.sizes import Recipe, Sizes

FORMAT = 1


def save(folder: Path, weights: Mapping[str, Tensor], recipe: Recipe, sizes: Sizes, about: Mapping[str, Any]) -> None:
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
    expected = {"format": FORMAT, "recipe": recipe, "sizes": dataclasses.asdict(sizes)}
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


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    for name in ("config.json", "model.safetensors"):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} holds no released model: it has no {name}")
    try:
        config = json.loads((folder / "config.json").read_text())
        weights = load_file(folder / "model.safetensors")
    except (ValueError, SafetensorError) as failure:
        raise ValueError(f"{folder} holds a damaged model: {' '.join(str(failure).split())}") from failure
    if not isinstance(config, dict):
        raise ValueError(f"{folder / 'config.json'} describes no model")
    return config, weights
