"""What the paper reports, to stand beside one's own figures: published.csv has its tables 1 to 4 as printed."""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

Interval = tuple[float, float | None]  # mean, half width; one seed has none

FRESH = "random_init"  # the row that nothing is pre-trained for
# A file of configs/pretrain -> what the paper calls it. Its table 4 says only what is added to W2V+CMSC.
NAMES: Mapping[str, str] = {
    FRESH: "Random Init.",
    "w2v": "W2V",
    "cmsc": "CMSC",
    "3kg": "3KG",
    "simclr_rlm": "SimCLR(RLM)",
    "w2v_cmsc": "W2V+CMSC",
    "w2v_cmsc_rlm": "W2V+CMSC+RLM",
    "w2v_rlm": "W2V+RLM",
    "cmsc_rlm": "CMSC+RLM",
    "w2v_cmsc_rlm_physio4": "W2V+CMSC+RLM+Physio(4)",
    "w2v_cmsc_rlm_physio3": "W2V+CMSC+RLM+Physio(3)",
    "w2v_cmsc_physio4": "W2V+CMSC+Physio(4)",
    "w2v_cmsc_physio3": "W2V+CMSC+Physio(3)",
}


@cache
def figures() -> dict[tuple[int, str, str, int], Interval | None]:
    """(table, row, task, leads) -> mean and half width over three seeds; None: the paper has no figure there."""
    found: dict[tuple[int, str, str, int], Interval | None] = {}
    with open(Path(__file__).with_name("published.csv")) as lines:
        for line in csv.DictReader(lines):
            table, row, task = int(line.pop("table")), line.pop("row"), line.pop("task")
            for leads, text in line.items():
                mean, _, half = text.partition(" ± ")
                found[table, row, task, int(leads)] = None if text == "-" else (float(mean), float(half))
    return found


def score_of(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """What the paper reports: the CinC score of segments at the threshold 0.5, or rank-1 accuracy."""
    of_task = evaluation["segments"] if evaluation["task"] == "diagnosis" else evaluation
    score: dict[str, Any] = of_task["figures"]["score" if evaluation["task"] == "diagnosis" else "rank1"]
    return score


def spoken(interval: Interval | None) -> str:
    """As the paper writes it: .618 ± .002"""
    if interval is None:
        return "-"
    mean, half = interval
    return decimals(mean) if half is None else f"{decimals(mean)} ± {decimals(half)}"


def decimals(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 0.9995 else f"{value:.3f}"
