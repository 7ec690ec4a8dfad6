"""What a run of the grid is told: its file of configs/, what the chosen size lays over it, and its place."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.paper.grid import Cell, Pretrain
from benchmarks.processes import ROOT
from engine import settings
from engine.config.common import load
from engine.config.finetuning import FRESH, FinetuneConfig
from engine.config.pretraining import PretrainConfig
from engine.scoring.leads import LEAD_SETS

_CONFIGS = ROOT / "configs"
_OF_MODEL = ("size", "sizes", "recipe")  # come with pre-trained weights; fresh ones have those of the others


@dataclass(frozen=True)
class Size:
    """A file of configs/paper: settings over those of configs/pretrain and configs/finetune."""

    pretrain: Mapping[str, Any] = field(default_factory=dict)
    finetune: Mapping[str, Any] = field(default_factory=dict)
    diagnosis: Mapping[str, Any] = field(default_factory=dict)
    identification: Mapping[str, Any] = field(default_factory=dict)


def read(name: str) -> Size:
    """One of configs/paper, or a file of one's own."""
    if name.endswith(".yaml"):
        return settings.read(Size, Path(name), [])
    known = sorted(path.stem for path in (_CONFIGS / "paper").glob("*.yaml"))
    if name not in known:
        raise ValueError(f"--size {name}: there is no configs/paper/{name}.yaml; there are {', '.join(known)}")
    return settings.read(Size, _CONFIGS / "paper" / f"{name}.yaml", [])


def config(cell: Cell, size: Size, data: tuple[str, ...], cells: Path) -> PretrainConfig | FinetuneConfig:
    """`cells`: the folder that the run's folder stands in, and that of its pre-training."""
    given: list[Mapping[str, Any]] = []
    of_all = {"data": {"path": list(data)}}  # a size may train on others
    of_cell: dict[str, Any] = {
        "data": {"leads": list(LEAD_SETS[cell.leads])},
        "run": {"dir": str(cells / cell.name), "seed": cell.seed},
    }
    if isinstance(cell, Pretrain):
        given = [of_all, size.pretrain, of_cell]
        return load(PretrainConfig, _CONFIGS / "pretrain" / f"{cell.row}.yaml", list(_flat(given)))
    if cell.needs is None:
        of_model = {name: value for name, value in size.pretrain.get("model", {}).items() if name in _OF_MODEL}
        of_cell["model"] = {"from": FRESH, **of_model}
    else:
        of_cell["model"] = {"from": str(cells / cell.needs.name)}
    of_task = size.diagnosis if cell.task == "diagnosis" else size.identification
    given = [of_all, size.finetune, of_task, of_cell]
    return load(FinetuneConfig, _CONFIGS / "finetune" / f"{cell.task}.yaml", list(_flat(given)))


def _flat(given: list[Mapping[str, Any]], where: str = "") -> Iterator[str]:
    """As `--set` takes them."""
    for values in given:
        for key, value in values.items():
            if isinstance(value, Mapping):
                yield from _flat([value], f"{where}{key}.")
            else:
                yield f"{where}{key}={json.dumps(value)}"
