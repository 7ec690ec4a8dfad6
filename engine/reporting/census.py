"""What the datasets of runs hold, and what was rejected."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import pyarrow as pa

from engine.data.chance import LEADS
from engine.folders.census import Census, read
from engine.folders.runs import Run, named
from engine.reporting.markup import Part, folded, paragraph, table, tag

_DECADE = 10  # years


def section(runs: Sequence[Run]) -> list[Element]:
    parts: list[Element] = []
    reasons = []
    for where in dict.fromkeys(path for run in runs for path in run.data):
        try:
            found = list(_of(read(where), [run for run in runs if where in run.data]))
        except (ValueError, OSError) as failure:
            reasons.append(str(failure))
            continue
        parts += [folded(where, *found)] if parts else [tag("h3", tag("code", where)), *found]
    if not parts:
        raise ValueError("; ".join(reasons))
    return [*parts, *map(paragraph, reasons)]


def _of(census: Census, users: Sequence[Run]) -> Iterator[Element]:
    about, crops = census.description, census.crops
    kept, came = about["crops"]["kept"], about["crops"]["in"]
    patients = len(crops["patient"].drop_null().unique())
    yield paragraph(
        f"{about['recordings']:,} recordings, {patients:,} patients whose name is known; {came:,} crops came in,"
        f" {kept:,} were kept and {about['crops']['rejected']:,} rejected. Behind the last whole segments"
        f" {about['seconds_left_over'] / 3600:,.1f} hours were left over. dataset.json has sha256"
        f" {census.fingerprint[:16]}."
    )
    yield paragraph(f"Used by {named(users)}.")
    others = [run for run in users if census.fingerprint not in run.trained_on(default=[census.fingerprint])]
    if others:
        yield paragraph(f"It is not what was there as these were trained: {named(others)}.")
    yield tag("div", _rejects(census), _of_views(about), class_="side")
    yield _of_cohorts(crops)
    yield tag("div", _of_classes(crops, about["classes"]), _of_people(crops), _of_leads(crops), class_="side")
    yield folded("What made it", table("From dataset.json", ["", ""], _made(about), names=2))


def _rejects(census: Census) -> Element:
    if not len(census.rejected):
        return paragraph("Nothing was rejected.")
    counts = Counter(zip(*(census.rejected[name].to_pylist() for name in ("reason", "cohort")), strict=True))
    rows = [[reason, cohort, f"{count:,}"] for (reason, cohort), count in counts.most_common()]
    return table("Rejected: crops, or whole recordings", ["reason", "cohort", "count"], rows, names=2)


def _of_cohorts(crops: pa.Table) -> Element:
    counts = Counter(zip(*(crops[name].to_pylist() for name in ("cohort", "split")), strict=True))
    splits = sorted({split for _, split in counts})
    cohorts = sorted({cohort for cohort, _ in counts})
    rows = [[cohort, *(f"{counts[cohort, split]:,}" for split in splits)] for cohort in cohorts]
    return table("Crops of each cohort, by split", ["cohort", *splits], rows)


def _of_views(about: dict[str, Any]) -> Element:
    rows = [[view, f"{rows:,}"] for view, rows in sorted(about["views"].items())]
    return table("Rows of each view", ["view", "rows"], rows)


def _of_classes(crops: pa.Table, classes: Sequence[str]) -> Element:
    """Of recordings: all crops of one say the same."""
    first = np.unique(np.asarray(crops["record"].to_pylist()), return_index=True)[1]
    labels = crops["classes"].to_numpy()[first]
    counts = {name: int((labels >> bit & 1).sum()) for bit, name in enumerate(classes)}
    counts["without a class"] = int((labels == 0).sum())
    return _bars("Recordings of each class", "class", counts)


def _of_people(crops: pa.Table) -> Element:
    first = np.unique(np.asarray(crops["record"].to_pylist()), return_index=True)[1]
    ages, sexes = (crops[name].take(pa.array(first)).to_pylist() for name in ("age", "sex"))
    decades = Counter(age // _DECADE for age in ages if age is not None)
    counts = {f"{low * _DECADE} to {low * _DECADE + 9}": decades[low] for low in sorted(decades)}
    counts["not known"] = ages.count(None)
    said = ", ".join(f"{name or 'not known'} {count:,}" for name, count in Counter(sexes).most_common())
    return _bars(f"Recordings by age in years (sex: {said})", "age", counts)


def _of_leads(crops: pa.Table) -> Element:
    masks = crops["lead_mask"].combine_chunks().flatten().to_numpy()
    counts = {lead: int((masks >> bit & 1).sum()) for bit, lead in enumerate(LEADS)}
    return _bars(f"Usable segments of each lead, of {len(masks):,}", "lead", counts)


def _bars(caption: str, name: str, counts: dict[str, int]) -> Element:
    most = max(1, *counts.values())

    def bar(count: int) -> Part:
        if not count:
            return None
        return tag("span", class_="bar", style=f"width:{100 * count / most:.1f}%", aria_hidden="true")

    rows = [[each, f"{count:,}", bar(count)] for each, count in counts.items()]
    return table(caption, [name, "count", ""], rows)


def _made(about: dict[str, Any]) -> Iterator[list[str]]:
    for part in ("arguments", "versions", "found"):
        for key, value in about.get(part, {}).items():
            yield [f"{part}: {key}", value if isinstance(value, str) else json.dumps(value)]
