"""Weights for others: a folder of model.safetensors and config.json, which holds all that is needed to use them."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.data.chance import LEADS, RATE
from engine.model.sizes import Recipe, Sizes

FORMAT = 1


def save(folder: Path, weights: Mapping[str, Tensor], recipe: Recipe, sizes: Sizes, about: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in weights.items()}, folder / "model.safetensors")
    config = {
        "format": FORMAT,
        "rate": RATE,
        "leads": list(LEADS),
        "unit": "mV",
        "recipe": recipe,
        "sizes": dataclasses.asdict(sizes),
        **about,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


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
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config, load_file(folder / "model.safetensors")
