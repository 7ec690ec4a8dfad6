"""The paper's tables: the grid, its figures, and the queue that works it off."""

import argparse
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from benchmarks.paper import command as paper
from benchmarks.paper import data, pages, queue, sizes, tables, worker
from benchmarks.paper.cells import Cells
from benchmarks.paper.grid import FRESH, TABLES, Cell, Finetune, Pretrain, Selection
from benchmarks.paper.tables import Figure
from benchmarks.paper.worker import Order
from engine import settings
from engine.config.finetuning import FinetuneConfig
from engine.config.pretraining import PretrainConfig
from engine.scoring import published
from engine.scoring.leads import LEAD_SETS
from engine.training.ranks import Ranks
from tests.engine.conftest import shard

ROOT = Path(__file__).parents[2]
T2 = 0.95 * (2 / (1 - 0.95**2)) ** 0.5  # Student's t with two degrees of freedom, two-sided 95 %: 4.303


def kinds(cells: Sequence[Cell]) -> tuple[int, int]:
    """-> pre-trainings, fine-tunings."""
    pretrained = sum(isinstance(cell, Pretrain) for cell in cells)
    return pretrained, len(cells) - pretrained


# Table 2: no RLM at one lead; 12 leads are those of table 1, and so is all of Random Init.
@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((1,), (6, 70)),
        ((2,), (5 + 5 + 5 + 4, 2 * (5 + 5 + 5 + 5 + 4))),
        ((3,), (4, 40)),
        ((4,), (5, 50)),
        ((1, 2), (6 + 19 - 4, 70 + 48 - 10 - 8)),
        ((1, 2, 3, 4), (6 + 15 + 2 + 4, 70 + 30 + 20 + 40)),
    ],
)
def test_cells_of_the_tables(numbers: tuple[int, ...], expected: tuple[int, int]) -> None:
    assert kinds(Selection(numbers, 1).cells()) == expected
    assert kinds(Selection(numbers, 3).cells()) == (3 * expected[0], 3 * expected[1])


def test_the_grid_is_where_the_paper_has_figures() -> None:
    for number, table in TABLES.items():
        found = tables.figures(number, Selection((number,), 1), Cells(Path("nowhere")))
        assert len(found) == 2 * 5 * len(table.rows)
        for figure in found:
            assert figure.exists == (figure.published is not None), (number, figure)


def test_tables_with_the_same_figure_in_the_paper_share_the_run() -> None:
    """But for W2V+CMSC's interval in table 2, which the paper prints as .008 and as .009."""
    figures = published.figures()
    shared = 0
    for row in TABLES[1].rows:
        for number in (2, 3, 4):
            for task in ("diagnosis", "identification"):
                if row in TABLES[number].rows and row != FRESH:
                    one, other = figures[1, row, task, 12], figures[number, row, task, 12]
                    assert one is not None and other is not None and one[0] == other[0]
                    assert TABLES[1].cell(row, task, 12, 0) == TABLES[number].cell(row, task, 12, 0)  # type: ignore[arg-type]
                    shared += 1
    assert shared == 2 * (4 + 2 + 1)


def test_order() -> None:
    """Seed after seed; what a pre-training is for comes right behind it."""
    cells = Selection((1, 2, 3, 4), 3).cells()
    assert len(set(cells)) == len({cell.name for cell in cells}) == len(cells)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    for cell, following in pairwise(cells):
        if isinstance(cell, Pretrain):
            assert isinstance(following, Finetune) and following.needs == cell
    for place, cell in enumerate(cells):
        if isinstance(cell, Finetune) and cell.needs:
            assert cell.needs in cells[:place]


def test_a_part_of_the_grid() -> None:
    cells = Selection((1,), 3, (FRESH, "w2v_cmsc", "w2v_cmsc_rlm"), (12, 2, 1)).cells()
    assert kinds(cells) == (3 * 2, 3 * 3 * 3 * 2)
    assert {cell.leads for cell in cells if isinstance(cell, Finetune)} == {12, 2, 1}
    assert kinds(Selection((2,), 1, ("w2v_cmsc_rlm",), (1,)).cells()) == (0, 0)


@pytest.mark.parametrize("name", ["tiny", "small", "base"])
def test_every_cell_has_its_settings(name: str) -> None:
    size = sizes.read(name)
    for cell in Selection((1, 2, 3, 4), 1).cells():
        config = sizes.config(cell, size, ("somewhere",), Path("cells"))
        assert config.data.leads == LEAD_SETS[cell.leads] and config.run.dir == f"cells/{cell.name}"
        if isinstance(cell, Pretrain):
            assert isinstance(config, PretrainConfig) and config.model.size == name
            masked = config.augmentations().mask_leads
            assert masked == (0.5 if "rlm" in cell.row else 0.0)
        else:
            assert isinstance(config, FinetuneConfig) and config.train.task == cell.task
            expected = f"cells/{cell.needs.name}" if cell.needs else "none"
            assert config.model.from_ == expected
            # Fresh weights are of the size of those they are compared with.
            assert (config.model.size or "base") == (name if cell.needs is None else "base")


def test_base_is_the_papers() -> None:
    size = sizes.read("base")
    pretrain = sizes.config(Pretrain("w2v_cmsc", 12, 2), size, ("a",), Path("b"))
    assert isinstance(pretrain, PretrainConfig)
    assert (pretrain.train.batch, pretrain.contrast_pool, pretrain.train.lr) == (512, 512, 5e-5)
    assert (pretrain.train.epochs, pretrain.train.updates, pretrain.run.seed) == (200, None, 2)
    tuned = {
        task: sizes.config(Finetune(FRESH, None, task, 2, 1), size, ("a",), Path("b"))  # type: ignore[arg-type]
        for task in ("diagnosis", "identification")
    }
    assert (tuned["diagnosis"].train.lr, tuned["identification"].train.lr) == (5e-5, 3e-5)
    assert all((one.train.batch, one.train.epochs, one.run.seed) == (128, 100, 1) for one in tuned.values())


def test_a_size_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="there is no configs/paper/huge.yaml; there are base, rehearsal, small, tiny"):
        sizes.read("huge")


# --- figures


def evaluation(task: str, value: float | None) -> dict[str, Any]:
    low, high = (None, None) if value is None else (value - 0.01, value + 0.02)
    score = {"value": value, "low": low, "high": high}
    if task == "identification":
        return {"task": task, "figures": {"rank1": score}}
    return {"task": task, "segments": {"figures": {"score": score}}}


def keep(cells: Cells, cell: Finetune, value: float | None) -> None:
    cells.of(cell).mkdir(parents=True)
    cells.keep(cell, evaluation(cell.task, value))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = {"path": "set", "sha256": "0123456789abcdef0123", "records": 1234, "patients": 77, "views": ["a", "b"]}
    start = {"at": "now", "command": "the command", "commit": "abc", "hardware": "a machine", "workers": 2}
    (tmp_path / "paper.json").write_text(json.dumps({"size": "tiny", "data": [folder], "starts": [start, start]}))
    return tmp_path


def figure(found: Sequence[Figure], row: str, leads: int) -> Figure:
    (one,) = [figure for figure in found if (figure.row, figure.leads) == (row, leads)]
    return one


def test_figures_over_seeds(out: Path) -> None:
    cells, selection = Cells(out / "cells"), Selection((1,), 3, (FRESH, "w2v_cmsc"), (12, 2), ("diagnosis",))
    for seed, value in enumerate((0.60, 0.62, 0.64)):
        keep(cells, Finetune(FRESH, None, "diagnosis", 12, seed), value)
        keep(cells, Finetune("w2v_cmsc", 12, "diagnosis", 12, seed), value + 0.11)
        keep(cells, Finetune(FRESH, None, "diagnosis", 2, seed), value)
    keep(cells, Finetune("w2v_cmsc", 12, "diagnosis", 2, 0), 0.70)
    keep(cells, Finetune("w2v_cmsc", 12, "diagnosis", 2, 1), 0.72)
    found = tables.figures(1, selection, cells)
    fresh, tuned = figure(found, FRESH, 12), figure(found, "w2v_cmsc", 12)
    # s = 0.02 over three seeds.
    assert fresh.interval == (pytest.approx(0.62), pytest.approx(T2 * 0.02 / 3**0.5, rel=1e-12))
    # Two seeds, one degree of freedom: t = tan(0.475 pi) = 12.706, s = 0.01 * sqrt(2).
    assert figure(found, "w2v_cmsc", 2).interval == (pytest.approx(0.71), pytest.approx(12.706204736 * 0.01))
    # Each half is .0497: .11 apart they do not meet.
    compared = tables.compare(tuned, fresh)
    assert compared is not None and compared.difference == pytest.approx(0.11) and compared.overlap is False
    compared = tables.compare(figure(found, "w2v_cmsc", 2), figure(found, FRESH, 2))
    assert compared is not None and compared.difference == pytest.approx(0.09) and compared.overlap is True
    assert fresh.widths == pytest.approx((0.03,) * 3)

    (page,) = pages.write(out, selection)
    lines = page.read_text().splitlines()
    assert "| Random Init. | here | .620 ± .050 | .620 ± .050 |" in lines
    assert "| | paper | .618 ± .002 | .525 ± .020 |" in lines
    assert "| W2V+CMSC | here | .730 ± .050 | .710 ± .127 (2 of 3 seeds) |" in lines
    assert "| W2V+CMSC | Random Init. | **+.110** | none (+.090) |" in lines
    of_data = "- data: set, 1,234 recordings, 77 patients whose name is known; dataset.json sha256 0123456789abcdef"
    assert f"{of_data}; views a, b" in lines
    assert lines.count("- commit: abc") == 1
    assert any("n = 3" in line and "n - 1 = 2" in line and "t = 4.303" in line for line in lines)
    rows = list(csv.DictReader(page.with_suffix(".csv").open()))
    assert [(row["row"], row["leads"], row["seeds"]) for row in rows] == [
        ("Random Init.", "12", "3"),
        ("Random Init.", "2", "3"),
        ("W2V+CMSC", "12", "3"),
        ("W2V+CMSC", "2", "2"),
    ]
    assert float(rows[0]["half_width"]) == fresh.interval[1] and rows[0]["paper_mean"] == "0.618"
    assert rows[3]["values"] == "0.7 0.72"
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_what_is_not_done_failed_or_not_there(out: Path) -> None:
    cells, selection = (
        Cells(out / "cells"),
        Selection((2,), 1, (FRESH, "w2v", "w2v_cmsc_rlm"), (2, 1), ("identification",)),
    )
    keep(cells, Finetune(FRESH, None, "identification", 2, 0), 0.25)
    keep(cells, Finetune(FRESH, None, "identification", 1, 0), None)
    failed = Pretrain("w2v", 2, 0)
    cells.of(failed).mkdir()
    cells.fail(failed, "no\nnumbers")
    (page,) = pages.write(out, selection)
    lines = page.read_text().splitlines()
    assert "| Random Init. | here | .250 | failed |" in lines
    assert "| W2V | here | failed | not done |" in lines
    assert "| W2V+CMSC+RLM | here | not done | - |" in lines
    assert "| | paper | .447 ± .009 | - |" in lines
    assert "| W2V+CMSC+RLM | Random Init. | not done | - |" in lines


def test_one_seed_has_no_interval(out: Path) -> None:
    cells, selection = Cells(out / "cells"), Selection((3,), 1, ("w2v", "w2v_rlm"), (12,), ("diagnosis",))
    keep(cells, Finetune("w2v", 12, "diagnosis", 12, 0), 0.5)
    keep(cells, Finetune("w2v_rlm", 12, "diagnosis", 12, 0), 0.45)
    (page,) = pages.write(out, selection)
    lines = page.read_text().splitlines()
    assert "| W2V+RLM | here | .450 |" in lines and "| W2V+RLM | W2V | -.050, no interval |" in lines


# --- the queue


def trained(cells: Cells, cell: Cell) -> None:
    (cells.of(cell) / "model").mkdir(parents=True, exist_ok=True)
    (cells.of(cell) / "model" / "model.safetensors").touch()
    (cells.of(cell) / "status.json").write_text('{"status": "finished"}')


def test_a_cell_is_taken_once_and_when_its_weights_are_there(tmp_path: Path) -> None:
    cells = Cells(tmp_path)
    listed = Selection((3,), 1, ("w2v",), (1,), ("diagnosis",)).cells()
    assert [cell.name for cell in listed] == ["pretrain-w2v-12leads-seed0", "diagnosis-w2v-of12-1leads-seed0"]
    first = cells.take(listed)
    assert first is not None and first[0] == listed[0]
    assert cells.take(listed) is None  # another has it, and the other needs it
    first[1].close()
    again = cells.take(listed)
    assert again is not None and again[0] == listed[0]
    trained(cells, listed[0])
    second = cells.take(listed)
    assert second is not None and second[0] == listed[1]
    again[1].close()
    second[1].close()
    cells.keep(listed[1], {})
    assert cells.take(listed) is None


MINI = """
pretrain:
  model: {size: tiny, sizes: {conv_dim: 16, dim: 32, heads: 2, feedforward: 64, position_taps: 16, position_groups: 4}}
  train: {batch: 8, contrast_pool: 8, updates: 6}
  log: {to: []}
finetune:
  train: {batch: 8, updates: 4}
  run: {validate_every: 100}
  log: {to: []}
"""


@pytest.fixture
def mini(tmp_path: Path) -> Path:
    (tmp_path / "mini.yaml").write_text(MINI)
    return tmp_path / "mini.yaml"


@pytest.fixture
def alone() -> Ranks:
    return Ranks(0, 1, 0, 1, torch.device("cpu"), None)  # type: ignore[arg-type]


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Instead of training: what is in `then` by name, an exit code or an error; `begun`: the names in their order."""
    found: dict[str, Any] = {"begun": [], "then": {}}

    def train(job_of: Any, config: Any, resume: str, ranks: Ranks) -> int:
        run = Path(config.run.dir)
        found["begun"].append(run.name)
        assert resume == "auto"
        then = found["then"].get(run.name, 0)
        if isinstance(then, Exception):
            raise then
        if then == 0:
            (run / "checkpoints").mkdir(exist_ok=True)
            (run / "model").mkdir(exist_ok=True)
            (run / "model" / "model.safetensors").touch()
            (run / "status.json").write_text('{"status": "finished"}')
        return int(then)

    monkeypatch.setattr(worker.runs, "train", train)
    monkeypatch.setattr(worker, "evaluate", lambda model, data, task, device: evaluation(task, 0.5))
    yield found


def order(mini: Path, selection: Selection) -> Order:
    return Order(selection, str(mini), ("somewhere",), str(mini.parent), os.getppid())


SOME = Selection((3,), 1, ("w2v", "cmsc"), (12, 1), ("diagnosis",))


def test_a_worker_does_all_in_order_once(mini: Path, alone: Ranks, faked: dict[str, Any]) -> None:
    assert worker._work(order(mini, SOME), alone) == 0
    assert faked["begun"] == [cell.name for cell in SOME.cells()]
    cells = Cells(mini.parent / "cells")
    for cell in SOME.cells():
        assert cells.done(cell) and not (cells.of(cell) / "checkpoints").exists()
    assert worker._work(order(mini, SOME), alone) == 0
    assert len(faked["begun"]) == len(SOME.cells())


def test_a_cell_that_fails_stops_no_other(mini: Path, alone: Ranks, faked: dict[str, Any]) -> None:
    pretrain, *_ = SOME.cells()
    faked["then"] = {pretrain.name: ValueError("not\nfinite"), "diagnosis-cmsc-of12-1leads-seed0": OSError("disk")}
    assert worker._work(order(mini, SOME), alone) == 0
    cells = Cells(mini.parent / "cells")
    assert cells.failure(pretrain) == "not finite"
    assert [cell.name for cell in SOME.cells() if cells.done(cell)] == [
        "pretrain-cmsc-12leads-seed0",
        "diagnosis-cmsc-of12-12leads-seed0",
    ]
    # The next command tries again what has failed, and that alone.
    cells.try_again(SOME.cells())
    faked["begun"], faked["then"] = [], {}
    assert worker._work(order(mini, SOME), alone) == 0
    assert all(cells.done(cell) for cell in SOME.cells())
    assert len(faked["begun"]) == 4


def test_a_worker_that_is_told_to_stop_begins_nothing_more(mini: Path, alone: Ranks, faked: dict[str, Any]) -> None:
    first, second, *_ = SOME.cells()
    faked["then"] = {second.name: 130}
    assert worker._work(order(mini, SOME), alone) == 130
    assert faked["begun"] == [first.name, second.name]
    assert Cells(mini.parent / "cells").failure(second) is None


def test_a_signal_that_was_lost_stops_it_all_the_same(
    mini: Path, alone: Ranks, faked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in a finalizer is printed and forgotten."""
    monkeypatch.setattr(worker, "_told", [])

    def train_and_lose_a_signal(*_: Any) -> int:
        with suppress(SystemExit):
            worker._stop(signal.SIGTERM, None)
        return 0

    monkeypatch.setattr(worker.runs, "train", train_and_lose_a_signal)
    with pytest.raises(SystemExit) as stopped:
        worker._work(order(mini, SOME), alone)
    assert stopped.value.code == 143
    assert [path.name for path in (mini.parent / "cells").iterdir()] == [SOME.cells()[0].name]


def test_a_bug_ends_the_worker_after_it_is_noted(mini: Path, alone: Ranks, faked: dict[str, Any]) -> None:
    faked["then"] = {SOME.cells()[0].name: RuntimeError("device is lost")}
    assert worker._work(order(mini, SOME), alone) == 1
    assert Cells(mini.parent / "cells").failure(SOME.cells()[0]) == "RuntimeError: device is lost"
    assert len(faked["begun"]) == 1


def test_other_settings_are_an_error(mini: Path) -> None:
    cells, cell = Cells(mini.parent / "cells"), SOME.cells()[0]
    config = sizes.config(cell, sizes.read(str(mini)), ("somewhere",), cells.folder)
    cells.of(cell).mkdir(parents=True)
    (cells.of(cell) / "config.yaml").write_text(yaml.safe_dump(settings.plain(config)))
    cells.check(cell, config)
    elsewhere = sizes.config(cell, sizes.read(str(mini)), ("elsewhere",), Path("other"))
    cells.check(cell, elsewhere)
    mini.write_text(MINI.replace("updates: 6", "updates: 7"))
    with pytest.raises(ValueError, match=r"train.updates = 7 \(was 6\); take another --out"):
        cells.check(cell, sizes.config(cell, sizes.read(str(mini)), ("somewhere",), cells.folder))


@pytest.mark.parametrize(("given", "expected"), [(None, ["0", "1"]), ("3,GPU-7f", ["3", "GPU-7f"])])
def test_the_devices_that_may_be_used(monkeypatch: pytest.MonkeyPatch, given: str | None, expected: list[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert queue.devices() == expected
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert queue.devices() == []


def test_a_size_may_train_on_other_data_but_not_on_tests(
    archive: Path, dataset: Path, tmp_path: Path, mini: Path
) -> None:
    """The same recordings split once more: what is a test here is trained on there."""
    again = tmp_path / "again"
    shutil.copytree(dataset, again)
    metadata = ("--ptbxl-metadata", str(archive / "ptbxl_database.csv"))
    mixed = shard(archive / "training", tmp_path / "mixed", "--seed", "7", *metadata)
    selection = Selection((1,), 1, (FRESH,), (12,), ("identification",))
    for other in (again, mixed):
        mini.write_text(MINI + f"identification: {{data: {{path: [{other}]}}}}\n")
        told = Order(selection, str(mini), (str(dataset),), str(tmp_path / "out"), 0)
        assert set(data.places(told)) == {
            *(data.Place(str(dataset), f"identification-{part}") for part in ("gallery", "probe")),
            *(data.Place(str(other), f"identification-{part}") for part in ("train", "valid")),
        }
        first, second = data.described(told)
        assert (first["path"], second["path"]) == (str(dataset), str(other))
        assert first["records"] == second["records"] > 0
        if other == again:
            data.hold_out(told)
            assert first["sha256"] == second["sha256"]
        else:
            with pytest.raises(ValueError, match=r"mixed trains on \d+ segments that are tests of --data"):
                data.hold_out(told)


# --- the command


def command(folder: Path, mini: Path, *more: str) -> list[str]:
    words = [sys.executable, "-m", "benchmarks", "paper", "--table", "3", "--rows", "w2v", "--leads", "2"]
    words += ["--tasks", "diagnosis", "--seeds", "1", "--workers", "1"]
    return [*words, "--data", str(folder), "--size", str(mini), "--out", str(mini.parent / "out"), *more]


def result(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--data", "nowhere"), "nowhere"),
        (("--size", "huge"), "--size huge: there is no configs/paper/huge.yaml"),
        (("--seeds", "0"), "--seeds 0 should be 1 or more"),
        (("--rows", "3kg"), "--rows 3kg: no row of --table 3"),
    ],
)
def test_wrong_arguments_are_one_line(
    mini: Path, more: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    paper.add_arguments(parser)
    assert paper.run(parser.parse_args(command(Path("nowhere"), mini, *more)[4:])) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("error: ") and said in printed and printed.count("\n") == 1
    assert not (mini.parent / "out").exists()


@pytest.mark.slow
def test_a_killed_queue_goes_on(hearts: Path, mini: Path) -> None:
    """kill -9 of the parent while it fine-tunes: the worker goes too; then the same command does what is left."""
    mini.write_text(MINI.replace("updates: 4", "updates: 400"))
    cells = Cells(mini.parent / "out" / "cells")
    pretrain, finetune = Selection((3,), 1, ("w2v",), (2,), ("diagnosis",)).cells()
    begun = subprocess.Popen(command(hearts, mini), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = cells.of(finetune) / "metrics.jsonl"
    wait_until(lambda: metrics.exists() and '"update": 10,' in metrics.read_text())
    status = json.loads((cells.of(finetune) / "status.json").read_text())
    assert cells.done(pretrain) and status["status"] == "running"
    before = state(cells.of(pretrain))
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    wait_until(lambda: not Path(f"/proc/{status['pid']}").exists())
    assert not cells.done(finetune)
    reached = json.loads((cells.of(finetune) / "status.json").read_text())["update"]
    assert 10 <= reached < 400

    found = result(command(hearts, mini))
    assert found.returncode == 0, found.stderr
    assert "2 runs, 1 of them done" in found.stdout
    assert cells.done(finetune) and state(cells.of(pretrain)) == before
    log = (mini.parent / "out" / "worker0.log").read_text()
    assert f"on from update {reached}" in log
    value = tables.score_of(cells.evaluation(finetune) or {})["value"]
    page = (mini.parent / "out" / "tables" / "table3.md").read_text()
    assert f"| W2V | here | {pages._number(value)} |" in page


@pytest.mark.slow
def test_a_damaged_cell_stops_no_other(hearts: Path, mini: Path) -> None:
    cells = Cells(mini.parent / "out" / "cells")
    pretrain = Pretrain("w2v", 12, 0)
    (cells.of(pretrain) / "checkpoints" / "update-00000004").mkdir(parents=True)
    found = result([*command(hearts, mini), "--rows", "w2v", "cmsc"])
    assert found.returncode == 1
    assert re.search(r"failed: pretrain-w2v-12leads-seed0: .*none of the 1 checkpoints is whole", found.stderr)
    assert cells.done(Finetune("cmsc", 12, "diagnosis", 2, 0)) and not cells.done(pretrain)
    assert "2 runs are not done" in found.stderr


@pytest.mark.slow
def test_a_plan_does_nothing(hearts: Path, mini: Path) -> None:
    found = result(command(hearts, mini, "--plan"))
    assert found.returncode == 0, found.stderr
    # 6 updates of 8 pairs; 4 of 8 segments.
    assert "| pre-training | 1 | 0 | 96 |" in found.stdout and "| fine-tuning | 1 | 0 | 32 |" in found.stdout
    assert not (mini.parent / "out").exists()


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def wait_until(true: Any) -> None:
    end = time.monotonic() + 600
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
