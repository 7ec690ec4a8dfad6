"""How the commands end."""

import sys
from pathlib import Path
from typing import Any

import pytest

from engine import embed, evaluate, export, report
from engine.command import write
from engine.embedding import whole

COMMANDS = [
    (embed, whole, "embed", ["x.edf", "--model", "m", "--out", "x.npy"]),
    (evaluate, evaluate, "evaluate", ["--model", "m", "--data", "d", "--task", "diagnosis"]),
    (export, export, "export", ["--model", "m", "--out", "o"]),
    (report, report, "read_all", ["run", "--out", "x.html"]),
]


@pytest.mark.parametrize(
    ("failure", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "error: interrupted; nothing was written\n"),
        (ValueError("a is no b"), 1, "error: a is no b\n"),
        (OSError("the disk is full"), 1, "error: the disk is full\n"),
    ],
    ids=["Ctrl-C", "mistake", "disk"],
)
@pytest.mark.parametrize(("command", "of", "name", "given"), COMMANDS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_failure_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: Any,
    of: Any,
    name: str,
    given: list[str],
    failure: BaseException,
    code: int,
    said: str,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(of, name, fail)
    monkeypatch.setattr(sys, "argv", ["command", *given])
    assert command.main() == code
    assert capsys.readouterr().err == said


def test_a_file_of_text_is_whole_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write(tmp_path / "x.json", "new \udcff")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    write(tmp_path / "x.json", "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]
