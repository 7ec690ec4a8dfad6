"""README and the pages of docs/, and what stands in them."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(page.read_text()) if kind == language]


def shell_lines(page: Path) -> Iterator[str]:
    """Of blocks without a language or in sh, and of code inside the text; what is continued is one line."""
    text = page.read_text()
    for kind, block in _BLOCK.findall(text):
        if kind in ("", "sh"):
            yield from block.replace("\\\n", " ").splitlines()
    for code in _INLINE.findall(_BLOCK.sub("", text)):
        if "…" not in code:  # what a program says, not what it is told
            yield code.replace("\n", " ")
