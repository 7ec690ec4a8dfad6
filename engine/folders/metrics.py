"""RUN/metrics.jsonl, as far as it can be read: the run may be writing it, or may have been killed as it did."""

import json
from pathlib import Path
from typing import Any, NamedTuple

Lines = list[dict[str, Any]]


class Metrics(NamedTuple):
    train: Lines
    valid: Lines
    unread: int  # lines that a killed run has left unfinished


def read(run: Path) -> Metrics:
    """By update; where a run was gone on with, what was said last of an update counts. Without a file: nothing."""
    path = run / "metrics.jsonl"
    if not path.is_file():
        return Metrics([], [], 0)
    found: dict[str, dict[int, dict[str, Any]]] = {"train": {}, "valid": {}}
    lines = path.read_bytes().decode(errors="replace").split("\n")
    unread = 0
    for number, line in enumerate(lines, 1):
        try:
            values = json.loads(line)
            found[values["kind"]][int(values["update"])] = values
        except (ValueError, KeyError, TypeError):
            unread += bool(line) and number < len(lines)  # behind the last line end: it is still being written
    train, valid = ([of[update] for update in sorted(of)] for of in found.values())
    return Metrics(train, valid, unread)
