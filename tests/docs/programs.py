"""Commands, as their own programs understand them: these parse the words, and are stopped before they do anything."""

import re
import runpy
import shlex
import sys
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT

_PROGRAM = re.compile(
    r"(?:^|(?<=\s))(?:python -m (?P<module>[a-z_.]+)|engine/(?P<script>pretrain|finetune)\.py)(?P<words>[^|&;#]*)"
)
OTHERS = ("pip", "pytest", "venv")  # not ours


def commands(line: str) -> Iterator[tuple[str, list[str]]]:
    """-> what is run, and its words."""
    for found in _PROGRAM.finditer(line):
        words = shlex.split(found["words"].replace("...", " "), comments=True)
        if found["module"] not in OTHERS and words:  # a program alone is a mention
            yield found["module"] or f"engine/{found['script']}.py", words


class UnderstoodError(BaseException):
    """Raised where the program would begin."""


def understood(program: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [program, *words])
    with pytest.raises(UnderstoodError):
        if program.endswith(".py"):
            runpy.run_path(str(ROOT / program), run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__")
