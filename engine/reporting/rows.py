"""To which row of the paper's tables an evaluation belongs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.folders.runs import Run, augmentations, settings_of
from engine.scoring import published
from engine.scoring.leads import LEAD_SETS, name_of
from engine.scoring.published import FRESH, NAMES, Interval

_PHYSIO = {
    frozenset[str](): "",
    frozenset({"powerline", "emg", "wander"}): "_physio3",
    frozenset({"powerline", "emg", "wander", "shift"}): "_physio4",
}


@dataclass(frozen=True)
class Evaluated:
    """One evaluation of one run."""

    run: Run
    task: str
    leads: str  # 12, 6, 3, 2, 1, or their names
    row: str  # a file of configs/pretrain, or what describes a pre-training that the paper has not
    pretrained_leads: str | None  # None: fresh weights
    in_table: bool  # fine-tuned for this task and these leads: what the paper's tables have
    figures: dict[str, Any]  # the whole of evaluation.json

    @property
    def label(self) -> str:
        name = NAMES.get(self.row, self.row)
        of_all = self.pretrained_leads in (None, "12")
        return name if of_all else f"{name}, pre-trained on leads {self.pretrained_leads}"

    def published(self) -> tuple[int, Interval] | None:
        """Number of the paper's table, and its figure. Table 2 is of models that never saw another lead."""
        if not self.in_table or self.leads not in map(str, LEAD_SETS):
            return None
        if self.pretrained_leads not in (None, "12", self.leads):
            return None
        of_subset = self.pretrained_leads not in (None, "12")
        for table in (2,) if of_subset else (1, 3, 4):
            figure = published.figures().get((table, self.row, self.task, int(self.leads)))
            if figure is not None:
                return table, figure
        return None


def evaluated(runs: Sequence[Run]) -> list[Evaluated]:
    return [_evaluated(run, figures, runs) for run in runs for figures in run.evaluations]


def _evaluated(run: Run, figures: dict[str, Any], runs: Sequence[Run]) -> Evaluated:
    model = figures["model"]
    own = model.get("task") == figures["task"] and set(figures["leads"]) == set(model["trained_leads"])
    before = model.get("pretrained") if "task" in model else model
    if before is None:
        row, leads = FRESH, None
    else:
        config = run.config if run.task is None else _origin(run, runs)
        row = row_of(config) if config else str(before.get("system", "?"))
        leads = name_of(before["trained_leads"])
    return Evaluated(run, figures["task"], name_of(figures["leads"]), row, leads, own, figures)


def _origin(run: Run, runs: Sequence[Run]) -> dict[str, Any] | None:
    """Settings of the pre-training it came from: of a run of this report, or of where it lay. None: it has moved."""
    origin = run.origin
    if origin is None:
        return None
    for one in runs:
        if one.task is None and one.folder.resolve() == origin:
            return one.config
    try:
        config = settings_of(origin)
    except (OSError, ValueError):
        return None
    return config if "system" in config.get("train", {}) else None


def row_of(config: dict[str, Any]) -> str:
    """The file of configs/pretrain that a pre-training equals in method; else its system and what was added."""
    system: str = config["train"]["system"]
    used = {name: value for name, value in augmentations(config).items() if value}
    bare = system if system == "simclr_rlm" else system.removesuffix("_rlm")
    rlm = "_rlm" if "mask_leads" in used and bare == system.removesuffix("_rlm") else ""
    row = bare + rlm + _PHYSIO.get(frozenset(used) - {"mask_leads"}, "?")
    if row in NAMES and set(used.values()) <= {0.5}:
        return row
    added = ", ".join(f"{name} {value:g}" for name, value in used.items())
    return f"{NAMES.get(bare, bare)} with {added}"
