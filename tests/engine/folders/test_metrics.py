"""metrics.jsonl as runs leave it: whole, being written, killed in the middle of a line, gone on with."""

import json
from pathlib import Path

from engine.folders.metrics import read


def write(run: Path, *lines: str) -> Path:
    (run / "metrics.jsonl").write_text("".join(lines))
    return run


def line(update: int, loss: float, kind: str = "train") -> str:
    return json.dumps({"kind": kind, "update": update, "loss": loss}) + "\n"


def test_by_kind_and_update(tmp_path: Path) -> None:
    found = read(write(tmp_path, line(20, 2.0), line(10, 3.0), line(20, 1.0, "valid")))
    assert [(one["update"], one["loss"]) for one in found.train] == [(10, 3.0), (20, 2.0)]
    assert [(one["update"], one["loss"]) for one in found.valid] == [(20, 1.0)]


def test_what_was_said_last_of_an_update_counts(tmp_path: Path) -> None:
    found = read(write(tmp_path, line(10, 3.0), line(20, 2.0), line(10, 2.9)))
    assert [one["loss"] for one in found.train] == [2.9, 2.0]


def test_a_line_that_is_being_written_is_no_loss(tmp_path: Path) -> None:
    for length in range(len(line(20, 2.0)) - 1):
        found = read(write(tmp_path, line(10, 3.0), line(20, 2.0)[:length]))
        assert [one["update"] for one in found.train] == [10]
        assert found.unread == 0
    assert [one["update"] for one in read(write(tmp_path, line(10, 3.0), line(20, 2.0).strip())).train] == [10, 20]


def test_a_line_that_a_killed_run_left_is_counted(tmp_path: Path) -> None:
    found = read(write(tmp_path, line(10, 3.0), line(20, 2.0)[:15], line(30, 1.0), line(40, 0.5)))
    assert [one["update"] for one in found.train] == [10, 40]  # 30 was written behind the half of 20
    assert found.unread == 1


def test_nothing_is_nothing(tmp_path: Path) -> None:
    assert read(tmp_path) == ([], [], 0)
    assert read(write(tmp_path, "")) == ([], [], 0)
    assert read(write(tmp_path, "[1]\n", "7\n", '{"kind": "other", "update": 1}\n')) == ([], [], 3)
