import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.config.common import load
from engine.config.pretraining import PretrainConfig
from engine.training import checkpoint, runs
from engine.training.pretraining import Pretraining
from engine.training.ranks import Ranks, start

CONFIGS = Path(__file__).parents[3] / "configs" / "pretrain"
# Eight pairs of the smallest encoder: a tenth of a second an update.
SMALL = ["model.size=tiny", "train.batch=8", "train.contrast_pool=8", "run.log_every=1", "log.to=[]"]
SMALL += ["run.validate_every=1000"]

# Of processes that are started: without what `ranks` adds to this one's.
OUTSIDE = dict(os.environ)

Train = Callable[..., int]


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    """This process alone, set up once: DeepSpeed cannot be ended and begun again."""
    before = dict(os.environ)
    threads = torch.get_num_threads()
    alone = start()
    torch.set_num_threads(threads)
    yield alone
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def train(hearts: Path, ranks: Ranks, tmp_path: Path) -> Train:
    """A run in this process, in the folder `to`; -> its exit code."""

    def run(*given: str, to: str = "run", file: str = "w2v_cmsc_rlm", resume: str | None = None) -> int:
        place = [f"data.path={hearts}", f"run.dir={tmp_path / to}"]
        return runs.train(
            Pretraining, load(PretrainConfig, CONFIGS / f"{file}.yaml", [*SMALL, *place, *given]), resume, ranks
        )

    return run


def lines(run: Path, kind: str = "train") -> list[dict[str, Any]]:
    return [line for line in map(json.loads, open(run / "metrics.jsonl")) if line["kind"] == kind]


def status(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "status.json").read_text())
    return found


def full_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk, for the first checkpoint that is written."""
    real, tries = checkpoint.save_file, []

    def write(*given: Any) -> None:
        tries.append(given)
        if len(tries) == 1:
            raise OSError(28, "No space left on device")
        real(*given)

    monkeypatch.setattr(checkpoint, "save_file", write)
