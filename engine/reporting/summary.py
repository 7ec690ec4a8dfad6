"""The head of the page: which run it is, how it ended and a few figures of it."""

from collections.abc import Iterator, Sequence
from statistics import median
from xml.etree.ElementTree import Element

from engine.folders.metrics import Lines
from engine.folders.runs import Run, named, of_leads
from engine.reporting.curves import spoken
from engine.reporting.markup import tag
from engine.scoring.published import NAMES, decimals, score_of

Fact = tuple[str, str, str]  # name, value, remark


def head(runs: Sequence[Run]) -> list[Element]:
    run, *others = runs
    parts = [tag("h1", run.name), tag("p", _what(run), class_="quiet")]
    if others:
        parts.append(tag("p", f"Beside it: {named(others)}.", class_="quiet"))
    facts = []
    for name, value, remark in _facts(run):
        said = tag("dd", value, tag("small", remark) if remark else None)
        facts.append(tag("div", tag("dt", name), said))
    return [*parts, tag("dl", *facts, class_="facts")]


def _what(run: Run) -> str:
    leads = of_leads(run.leads)
    if run.task is None:
        system = str(run.config["train"]["system"])
        return f"Pre-training, {NAMES.get(system, system)}, {leads}, seed {run.config['run']['seed']}."
    return f"Fine-tuning for {run.task}, {leads}, of {run.config['model']['from']}, seed {run.config['run']['seed']}."


def _facts(run: Run) -> Iterator[Fact]:
    yield _state(run)
    train, valid = run.metrics.train, run.metrics.valid
    for lines, name, metric, percent in (
        (train, "Local loss", "local", False),
        (train, "Global loss", "global", False),
        (valid, "Best CinC score, validation", "score", False),
        (valid, "Best rank-1, validation", "rank1", True),
    ):
        values = _values(lines, metric)
        if values:
            chance = lines[-1].get(f"{metric}_chance")
            value = max(values) if lines is valid else values[-1]
            yield name, spoken(value, percent), f"by chance {chance:.4g}" if chance is not None else ""
    for evaluation in run.evaluations:
        score = score_of(evaluation)
        what = "CinC score" if evaluation["task"] == "diagnosis" else "Rank-1"
        if score["value"] is not None:
            interval = "" if score["low"] is None else f"{decimals(score['low'])} to {decimals(score['high'])}"
            yield f"{what}, test, {of_leads(evaluation['leads'])}", decimals(score["value"]), interval
    rates, waits = (_values(train, metric) for metric in ("segments_per_second", "data_share"))
    if rates and waits:
        yield "Segments a second", f"{median(rates):,.0f}", "median of the reports"
        yield "Waiting for data", spoken(median(waits), percent=True), "of the time, median"


def _values(lines: Lines, metric: str) -> list[float]:
    """null: it was no number."""
    return [line[metric] for line in lines if line.get(metric) is not None]


def _state(run: Run) -> Fact:
    status = str(run.status.get("status", "not known"))
    last = run.metrics.train[-1]["update"] if run.metrics.train else 0
    update, of = run.status.get("update") or last, run.status.get("updates")
    reason = str(run.status.get("reason", ""))
    where = f"at update {update:,}" + (f" of {of:,}" if of else "")
    return "Status", status, where + (f": {reason}" if reason not in ("", status, "all updates are done") else "")
