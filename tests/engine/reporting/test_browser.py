"""The page in a headless Chromium: quiet, self-contained, drawn, and no wider than a phone."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One of this machine, else playwright's own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    with playwright.sync_playwright() as started:
        if not found and not Path(started.chromium.executable_path).exists():
            pytest.skip(
                "no Chromium: apt-get install chromium-headless-shell, or python -m playwright install chromium"
            )
        launched = started.chromium.launch(executable_path=found)
        yield launched
        launched.close()


@pytest.fixture(params=[(1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")], ids=str)
def shown(browser: Any, page: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Any, list[str]]]:
    """The page, everything unfolded, and whatever it has complained of or asked a network for."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    opened, said = context.new_page(), []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else said.append(asked.url))
    opened.goto(page.as_uri())
    opened.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    yield opened, said
    context.close()


def test_it_is_quiet_and_asks_no_network(shown: tuple[Any, list[str]]) -> None:
    assert shown[1] == []


def test_it_is_no_wider_than_the_screen(shown: tuple[Any, list[str]]) -> None:
    opened, _ = shown
    assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_every_plot_is_drawn(shown: tuple[Any, list[str]]) -> None:
    """Each has a size, what is drawn in it has one, and lies within it."""
    opened, _ = shown
    plots = opened.evaluate(
        """[...document.querySelectorAll("figure svg")].map((svg) => {
            const own = svg.getBoundingClientRect();
            const marks = [...svg.querySelectorAll(".line, .mark, .trace")].map((one) => one.getBoundingClientRect());
            return {
                label: svg.getAttribute("aria-label"),
                size: [own.width, own.height],
                drawn: marks.length > 0 && marks.every((one) => one.width + one.height > 0),
                inside: marks.every((one) => one.left >= own.left - 3 && one.right <= own.right + 3),
            };
        })"""
    )
    assert len(plots) > 30
    for one in plots:
        assert min(one["size"]) > 50 and one["drawn"] and one["inside"] and len(one["label"]) > 20, one


def test_text_and_lines_stand_out_from_what_is_behind_them(shown: tuple[Any, list[str]]) -> None:
    """WCAG AA: 4.5 for text, 3 for lines and marks."""
    opened, _ = shown
    style = opened.evaluate(
        """(() => {
            const style = getComputedStyle(document.documentElement);
            const names = ["paper", "ink", "quiet", "link", "sheet", "trace", "hidden"];
            for (let number = 0; number < 8; number += 1) names.push(`c${number}`);
            return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
        })()"""
    )
    for name in ("ink", "quiet", "link", *(f"c{number}" for number in range(8))):
        assert _contrast(style[name], style["paper"]) >= 4.5, name
    for name in ("trace", "hidden"):
        assert _contrast(style[name], style["sheet"]) >= 3, name
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb{_rgb(style['paper'])}"


def test_a_plot_says_the_values_under_the_pointer(shown: tuple[Any, list[str]]) -> None:
    opened, _ = shown
    plot = opened.locator("svg[data-plot]").nth(1)  # local loss
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    opened.mouse.move(box["x"] + box["width"] - 15, box["y"] + box["height"] / 2)
    assert opened.locator("#tip b").text_content() == "update 100"
    lines = opened.locator("#tip div").all_text_contents()
    assert lines == ["by chance: 4.5", "training: 3.6", "validation: 3.4"]
    assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    opened.mouse.move(0, 0)
    assert opened.locator("#tip").is_hidden()


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    shares = [value / 255 for value in _rgb(colour)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour.removeprefix("#")))
