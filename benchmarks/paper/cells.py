"""The folder of a run, DIR/cells/<its name>: what there is of it, whoever made it and however that ended.

config.yaml, status.json, metrics.jsonl, model/   of the run (engine/training/runs.py)
evaluation.json   of a finished fine-tuning
failed.txt        why it could not be done: one line
claim             held by the process that works on it
"""

import json
import shutil
from collections.abc import Iterable
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import IO, Any

import yaml

from benchmarks.paper.grid import Cell, Finetune, Pretrain
from engine import settings
from engine.config.common import Config
from engine.training import runs
from engine.training.checkpoint import write_json

# A run may take more updates when it goes on; the runs of one table may not.
_PLACES = runs.FREE - {"train.epochs", "train.updates", "train.patience", "run.validate_every"}


class Cells:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, cell: Cell) -> Path:
        return self.folder / cell.name

    def trained(self, cell: Cell) -> bool:
        run = self.of(cell)
        try:
            status = json.loads((run / "status.json").read_text())["status"]
        except (OSError, ValueError, KeyError):
            return False
        return status == "finished" and (run / "model" / "model.safetensors").is_file()

    def done(self, cell: Cell) -> bool:
        return self.trained(cell) if isinstance(cell, Pretrain) else (self.of(cell) / "evaluation.json").is_file()

    def failure(self, cell: Cell) -> str | None:
        path = self.of(cell) / "failed.txt"
        return path.read_text().strip() if path.is_file() else None

    def hopeless(self, cell: Cell) -> bool:
        """It, or what it needs, has failed."""
        needs = cell.needs if isinstance(cell, Finetune) else None
        return self.failure(cell) is not None or bool(needs and not self.done(needs) and self.failure(needs))

    def ready(self, cell: Cell) -> bool:
        """It can be begun, or gone on with."""
        needs = cell.needs if isinstance(cell, Finetune) else None
        return not (self.done(cell) or self.hopeless(cell)) and (needs is None or self.done(needs))

    def claim(self, cell: Cell) -> IO[str] | None:
        """Closing it gives it back, and so does the end of the process; None: another has it."""
        self.of(cell).mkdir(parents=True, exist_ok=True)
        held = open(self.of(cell) / "claim", "a")  # noqa: SIM115
        try:
            flock(held, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            held.close()
            return None
        return held

    def take(self, cells: Iterable[Cell]) -> tuple[Cell, IO[str]] | None:
        """The first that is ready, and nobody works on."""
        for cell in cells:
            held = self.claim(cell) if self.ready(cell) else None
            if held is not None:
                if self.ready(cell):  # still
                    return cell, held
                held.close()
        return None

    def keep(self, cell: Cell, evaluation: dict[str, Any]) -> None:
        write_json(self.of(cell) / "evaluation.json", evaluation)

    def fail(self, cell: Cell, why: str) -> None:
        (self.of(cell) / "failed.txt").write_text(" ".join(why.split()) + "\n")

    def try_again(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            (self.of(cell) / "failed.txt").unlink(missing_ok=True)

    def tidy(self, cell: Cell) -> None:
        """Of what is done the weights stay, without moments: a tenth of the disk."""
        shutil.rmtree(self.of(cell) / "checkpoints", ignore_errors=True)

    def evaluation(self, cell: Finetune) -> dict[str, Any] | None:
        path = self.of(cell) / "evaluation.json"
        if not path.is_file():
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def check(self, cell: Cell, config: Config) -> None:
        """What is there of it has to be of these settings."""
        path = self.of(cell) / "config.yaml"
        if not path.is_file():
            return
        changed = runs.changed(yaml.safe_load(path.read_text()), settings.plain(config), _PLACES)
        if changed:
            raise ValueError(f"{self.of(cell)} has other settings: {'; '.join(changed)}; take another --out")
