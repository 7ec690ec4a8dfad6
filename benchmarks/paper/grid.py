"""Which runs the paper's four tables are made of. Tables share runs: what has the same name is the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.config.finetuning import Task
from engine.scoring import published
from engine.scoring.leads import LEAD_SETS
from engine.scoring.published import NAMES

FRESH = published.FRESH
TASKS: tuple[Task, ...] = ("diagnosis", "identification")
LEADS = tuple(LEAD_SETS)  # 12, 6, 3, 2, 1


@dataclass(frozen=True)
class Pretrain:
    row: str  # a file of configs/pretrain
    leads: int
    seed: int

    @property
    def name(self) -> str:
        return f"pretrain-{self.row}-{self.leads}leads-seed{self.seed}"


@dataclass(frozen=True)
class Finetune:
    """Fine-tuning and evaluation."""

    row: str
    pretrained: int | None  # leads; None: fresh weights
    task: Task
    leads: int
    seed: int

    @property
    def name(self) -> str:
        origin = "" if self.pretrained is None else f"-of{self.pretrained}"
        return f"{self.task}-{self.row}{origin}-{self.leads}leads-seed{self.seed}"

    @property
    def needs(self) -> Pretrain | None:
        return None if self.pretrained is None else Pretrain(self.row, self.pretrained, self.seed)


Cell = Pretrain | Finetune


@dataclass(frozen=True)
class Table:
    title: str
    rows: Mapping[str, str]  # file of configs/pretrain -> what the paper calls it
    against: Mapping[str, Sequence[str]]  # row -> those it is compared with
    per_lead_set: bool = False  # pre-trained with the leads of fine-tuning; else with all twelve

    def pretrained(self, row: str, leads: int) -> int | None:
        if row == FRESH:
            return None
        return leads if self.per_lead_set else 12

    def has(self, row: str, leads: int) -> bool:
        """A single lead cannot be masked."""
        return not (self.per_lead_set and leads == 1 and row.endswith("rlm"))

    def cell(self, row: str, task: Task, leads: int, seed: int) -> Finetune:
        return Finetune(row, self.pretrained(row, leads), task, leads, seed)


_ROWS = {row: NAMES[row] for row in (FRESH, "w2v", "cmsc", "3kg", "simclr_rlm", "w2v_cmsc", "w2v_cmsc_rlm")}
_OF_SUBSETS = (FRESH, "w2v", "cmsc", "w2v_cmsc", "w2v_cmsc_rlm")
_AUGMENTED = {
    "w2v_cmsc_rlm": "RLM",
    "w2v_cmsc_rlm_physio4": "RLM+Physio(4)",
    "w2v_cmsc_rlm_physio3": "RLM+Physio(3)",
    "w2v_cmsc_physio4": "Physio(4)",
    "w2v_cmsc_physio3": "Physio(3)",
}
_BASELINES = {row: [base for base in (FRESH, "w2v_cmsc") if base != row] for row in _ROWS if row != FRESH}

TABLES = {
    1: Table("One pre-trained model of 12 leads, fine-tuned for each lead set", _ROWS, _BASELINES),
    2: Table(
        "One model pre-trained and fine-tuned for each lead set",
        {row: _ROWS[row] for row in _OF_SUBSETS},
        {row: _BASELINES[row] for row in _OF_SUBSETS if row != FRESH},
        per_lead_set=True,
    ),
    3: Table(
        "Random lead masking added to W2V and to CMSC",
        {row: NAMES[row] for row in ("w2v", "w2v_rlm", "cmsc", "cmsc_rlm")},
        {"w2v_rlm": ["w2v"], "cmsc_rlm": ["cmsc"]},
    ),
    4: Table(
        "Augmentations of W2V+CMSC",
        _AUGMENTED,
        {row: ["w2v_cmsc_rlm"] for row in _AUGMENTED if row != "w2v_cmsc_rlm"},
    ),
}
ROWS = tuple(dict.fromkeys(row for table in TABLES.values() for row in table.rows))


@dataclass(frozen=True)
class Selection:
    """Of the tables: all of them, or a part."""

    tables: tuple[int, ...]
    seeds: int
    rows: tuple[str, ...] = ROWS
    leads: tuple[int, ...] = LEADS
    tasks: tuple[Task, ...] = TASKS

    def rows_of(self, table: int) -> list[str]:
        return [row for row in TABLES[table].rows if row in self.rows]

    def cells(self) -> list[Cell]:
        """Each once, a pre-training before what needs it, and seed after seed: a queue that is cut short leaves whole
        tables of fewer seeds. Pre-training comes as late as it can, so that what it is for follows at once."""
        found: dict[Cell, None] = {}
        for seed in range(self.seeds):
            for table in self.tables:
                for cell in self._of_table(table, seed):
                    if isinstance(cell, Finetune) and cell.needs:
                        found.setdefault(cell.needs)
                    found.setdefault(cell)
        return list(found)

    def _of_table(self, number: int, seed: int) -> Iterator[Finetune]:
        table = TABLES[number]
        for row in self.rows_of(number):
            for leads in self.leads:
                if table.has(row, leads):
                    for task in self.tasks:
                        yield table.cell(row, task, leads, seed)
