"""The page: one file that asks nothing of a network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from engine.reporting.markup import paragraph, tag, text

# Not even by mistake: a browser refuses whatever is not in the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence[Element]

    @property
    def anchor(self) -> str:
        return "-".join(self.title.lower().split())


@dataclass(frozen=True)
class LeftOut:
    title: str
    why: str


def page(title: str, head: Sequence[Element], found: Sequence[Section | LeftOut]) -> str:
    sections = [one for one in found if isinstance(one, Section)]
    missing = [one for one in found if isinstance(one, LeftOut)]
    contents = tag("ul", *(tag("li", tag("a", one.title, href=f"#{one.anchor}")) for one in sections))
    body = tag(
        "body",
        tag("header", *head, tag("nav", contents, aria_label="Sections")),
        tag("main", *(_section(one) for one in sections), _left_out(missing) if missing else None),
        tag("script", _beside("page.js")),
    )
    return "<!doctype html>\n" + text(tag("html", _head(title), body, lang="en")) + "\n"


def _head(title: str) -> Element:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", _beside("page.css")),
    )


def _section(section: Section) -> Element:
    return tag("section", tag("h2", section.title), *section.parts, id=section.anchor)


def _left_out(missing: Sequence[LeftOut]) -> Element:
    lines = (paragraph(f"{one.title}: {one.why}") for one in missing)
    return tag("section", tag("h2", "Left out"), *lines, id="left-out")


def _beside(name: str) -> str:
    return "\n" + Path(__file__).with_name(name).read_text()
