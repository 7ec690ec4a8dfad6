"""dataset.json: what a dataset says of itself."""

import json
import re
from typing import Any

from engine.data.chance import LEADS, RATE
from engine.data.storage import REMEDY, File

FORMAT = 1
_PARTS = {"format", "rate", "leads", "unit", "classes", "views", "files", "tables"}


def understood(text: bytes, where: str) -> dict[str, Any]:
    try:
        description: dict[str, Any] = json.loads(text)
    except ValueError as failure:
        raise ValueError(f"{where}/dataset.json is no JSON; {REMEDY}") from failure
    if not isinstance(description, dict) or not description.keys() >= _PARTS:
        raise ValueError(f"{where}/dataset.json describes no dataset of format {FORMAT}")
    expected = {"format": FORMAT, "rate": RATE, "leads": list(LEADS), "unit": "uV"}
    for name, value in expected.items():
        if description.get(name) != value:
            raise ValueError(f"{where}/dataset.json: {name} is {description.get(name)!r}, which should be {value!r}")
    return description


def file(entry: dict[str, Any], where: str) -> File:
    for part in File._fields:
        if part not in entry:
            raise ValueError(f"{where}/dataset.json describes a file without its {part}; {REMEDY}")
    file = File(entry["name"], entry["bytes"], entry["sha256"])
    if not re.fullmatch("[0-9a-f]{64}", file.sha256):
        raise ValueError(f"{where}/dataset.json: the sha256 of {file.name} is {file.sha256!r}")
    return file
