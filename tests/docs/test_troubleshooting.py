"""docs/troubleshooting.md: what it quotes still stands in the code."""

import ast
import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
QUOTED = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
VARIABLE = "…"


def said(node: ast.AST) -> str | None:
    """A string of the code, with what is not fixed in it as one character."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else VARIABLE for part in node.values)
        return "".join(map(str, parts))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@pytest.fixture(scope="module")
def strings() -> set[str]:
    files = [path for folder in ("data_tools", "engine", "leadwise") for path in (ROOT / folder).rglob("*.py")]
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text())))
    return {text for text in map(said, nodes) if text}


def stands(message: str, strings: set[str]) -> bool:
    return any(message in text for text in strings)


def test_there_is_something_to_check() -> None:
    assert len(QUOTED) > 40 and len(set(QUOTED)) == len(QUOTED)


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_stands_in_the_code(message: str, strings: set[str]) -> None:
    assert any(len(part.strip()) > 4 for part in message.split(VARIABLE)), "nothing of it is fixed"
    assert stands(message, strings)


def test_a_message_that_was_reworded_would_be_noticed(strings: set[str]) -> None:
    assert not stands("…: no such folder with recordings", strings)
