"""The settings of runs: what differs from the defaults, from run to run, and all of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from engine.folders.runs import Run
from engine.reporting.markup import folded, paragraph, table, tag
from engine.settings import flat

_MISSING = "(none)"
_PLACES = {"run.dir"}  # every run has its own
_WHOLE = {"model.sizes", "deepspeed"}  # a value: which keys it has is what it says


def section(runs: Sequence[Run]) -> list[Element]:
    run, *others = runs
    own, defaults = _flat(run.config), _flat(run.defaults())
    changed = [(key, own.get(key, _MISSING), defaults.get(key, _MISSING)) for key in own | defaults]
    changed = [(key, mine, default) for key, mine, default in changed if mine != default]
    parts = [
        table("What differs from the defaults", ["setting", "here", "default"], _coded(changed), names=3)
        if changed
        else paragraph("Every setting has its default.")
    ]
    alike = [run, *(other for other in others if other.kind == run.kind)]
    if len(alike) > 1:
        rows = differences({one.name: _flat(one.config) for one in alike})
        head = ["setting", "value", "runs"]
        between = table(f"What differs between the runs of {run.kind}", head, _coded(rows), names=3)
        parts.append(folded("What differs between the runs", between))
    everything = table(f"Settings of {run.name}", ["setting", "value"], _coded(own.items()), names=2)
    return [*parts, folded("All settings", everything)]


def differences(runs: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str, str]]:
    """Setting, value, and the runs that have it; the setting stands at the first of its values."""
    keys = dict.fromkeys(key for settings in runs.values() for key in settings)
    rows = []
    for key in keys:
        having: dict[str, list[str]] = {}
        for name, settings in runs.items():
            having.setdefault(settings.get(key, _MISSING), []).append(name)
        if len(having) > 1 and key not in _PLACES:
            said = [(value, ", ".join(names)) for value, names in having.items()]
            rows += [(key if not number else "", *one) for number, one in enumerate(said)]
    return rows


def _flat(config: Mapping[str, Any]) -> dict[str, str]:
    """a.b -> its value as JSON would have it."""
    values = flat(config, _WHOLE)
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}


def _coded(rows: Any) -> list[list[Element | str]]:
    return [[tag("code", key), *values] for key, *values in rows]
