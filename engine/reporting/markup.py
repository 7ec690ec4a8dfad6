"""HTML and SVG as trees: what stands in them is escaped by whoever writes them out, and cannot be forgotten."""

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, tostring

Part = Element | str | None


def tag(kind: str, /, *parts: Part, **attributes: object) -> Element:
    """`class_` is class, `aria_label` aria-label; None leaves an attribute or a part out."""
    element = Element(kind)
    for key, value in attributes.items():
        if value is not None:
            element.set(key.rstrip("_").replace("_", "-"), f"{value:g}" if isinstance(value, float) else str(value))
    add(element, parts)
    return element


def add(element: Element, parts: Iterable[Part]) -> None:
    for part in parts:
        if isinstance(part, Element):
            element.append(part)
        elif part is not None and len(element):
            element[-1].tail = (element[-1].tail or "") + part
        elif part is not None:
            element.text = (element.text or "") + part


def text(element: Element) -> str:
    return tostring(element, encoding="unicode", method="html")


def table(caption: str, head: Sequence[Part], rows: Iterable[Sequence[Part]], *, names: int = 1) -> Element:
    """The first `names` columns are text, the others figures. Where it is wider than the screen, it alone scrolls."""
    body = tag("tbody", *(_row(row, names) for row in rows))
    columns = tag("tr", *(tag("th", one, scope="col", class_=_class(at, names)) for at, one in enumerate(head)))
    whole = tag("table", tag("caption", caption), tag("thead", columns), body)
    return tag("div", whole, class_="scroll", role="region", tabindex=0, aria_label=caption)


def _row(cells: Sequence[Part], names: int) -> Element:
    first, *others = cells
    rest = (tag("td", cell, class_=_class(at, names)) for at, cell in enumerate(others, 1))
    return tag("tr", tag("th", first, scope="row"), *rest)


def _class(column: int, names: int) -> str | None:
    return "figure" if column >= names else None


def folded(summary: str, *parts: Part) -> Element:
    return tag("details", tag("summary", summary), *parts)


def paragraph(*parts: Part) -> Element:
    return tag("p", *parts)
