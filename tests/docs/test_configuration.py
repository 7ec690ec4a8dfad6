"""docs/configuration.md, which is written from the dataclasses."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.config.__main__ import PAGE, meanings, page
from engine.config.common import load
from engine.config.finetuning import FinetuneConfig
from engine.config.pretraining import PretrainConfig


def test_the_page_is_that_of_the_dataclasses() -> None:
    assert PAGE.read_text() == page(), "run: python -m engine.config"


@dataclass
class Told:
    # How many there are,
    # at most.
    most: int = 3
    least: int = 1  # how few


@dataclass
class ToldAgain(Told):
    """The comment of the nearest class counts, and where it has none that of the one behind."""

    most: int = 4
    least: int = 2  # fewer still


@dataclass
class Untold:
    most: int = 3


def test_a_meaning_is_the_comment_of_the_nearest_class() -> None:
    assert meanings(Told) == {"most": "How many there are, at most.", "least": "how few"}
    assert meanings(ToldAgain) == {"most": "How many there are, at most.", "least": "fewer still"}


def test_a_field_without_a_comment_stops_the_generator() -> None:
    with pytest.raises(AssertionError, match=r"Untold\.most: no comment"):
        meanings(Untold)


def test_the_defaults_it_shows_can_be_set(tmp_path: Path) -> None:
    """What stands in a row of the page, as `--set` takes it."""
    (tmp_path / "empty.yaml").write_text("")
    for of, more, title in (
        (PretrainConfig, [], "## Pre-training"),
        (FinetuneConfig, ["model.from=none"], "## Fine-tuning"),
    ):
        part = page().split(title)[1].split("\n## ")[0]
        rows = [line.split(" | ") for line in part.splitlines() if line.startswith("| `")]
        shown = {row[0].strip("| `"): row[2].strip("`") for row in rows}
        given = [f"{name}={value}" for name, value in shown.items() if value not in ("-", "none")]
        assert len(given) > 20 and "train.lr=5e-05" in given
        needed = ["data.path=DATA", "run.dir=RUN", *more]
        told = load(of, tmp_path / "empty.yaml", [*needed, *given])
        assert told == load(of, tmp_path / "empty.yaml", needed)
