"""What a recording's file does not say: rate, unit, leads, from flags or from the nearest `recordings.json`."""

import argparse
import json
import math
import os
from typing import Any, NamedTuple

from data_tools.crops import LEADS
from data_tools.folders import Folder
from data_tools.physical import LEAD, microvolts_in

SIDECAR = "recordings.json"
NO_LEAD = "-"  # in a list of leads: a channel that is none


class Hints(NamedTuple):
    rate: float | None = None  # Hz
    unit: str | None = None  # "mV", or of digital values what one step is: "4.88uV"
    leads: tuple[str, ...] | None = None  # of the channels, in order; NO_LEAD: none of the twelve
    key: str | None = None  # of the array, where a file holds several

    def over(self, others: "Hints") -> "Hints":
        """These, and where there is none, the others."""
        return others._replace(**{name: getattr(self, name) for name in self.given()})

    def given(self) -> tuple[str, ...]:
        return tuple(name for name, value in zip(self._fields, self, strict=True) if value is not None)

    def plain(self) -> dict[str, Any]:
        """As JSON gives it back."""
        return self._asdict() | {"leads": list(self.leads) if self.leads else None}


NONE = Hints()


def add_flags(parser: argparse.ArgumentParser, of_leads: str = "") -> None:
    """`of_leads`: what --leads is for beside that."""
    group = parser.add_argument_group(
        "what your files do not say", f"also in a file {SIDECAR} beside or above them: names as here, without dashes"
    )
    group.add_argument("--rate", type=_flag(rate), metavar="HZ")
    group.add_argument("--unit", type=_flag(unit), metavar="UNIT", help="uV, mV or V; of raw values one step: 4.88uV")
    group.add_argument(
        "--leads",
        type=_flag(lambda text: leads(text.split(","))),
        metavar="I,II,...",
        help=f"the channels in order; {NO_LEAD} for one that is none of the twelve{of_leads}",
    )
    group.add_argument("--key", metavar="NAME", help="the array of HDF5 and MATLAB files that hold several")


def of_flags(arguments: argparse.Namespace) -> Hints:
    return Hints(arguments.rate, arguments.unit, arguments.leads, arguments.key)


def _flag(parse: Any) -> Any:
    def checked(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def rate(value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(value, bool) or not 0 < found < math.inf:
        raise ValueError(f"rate {value!r} is no number of Hz")
    return found


def unit(value: Any) -> str:
    if not isinstance(value, str) or microvolts_in(value) is None:
        raise ValueError(f"unit {value!r} is no unit of voltage such as uV, mV, V or 4.88uV")
    return value


def leads(value: Any) -> tuple[str, ...]:
    names = [name.strip() if isinstance(name, str) else "" for name in value] if isinstance(value, list) else []
    for name in names:
        if name.upper() not in LEAD and name != NO_LEAD:
            raise ValueError(f"leads: {name!r} is none of {', '.join(LEADS)}, or {NO_LEAD} for another channel")
    used = [name.upper() for name in names if name != NO_LEAD]
    if not used or len(set(used)) < len(used):
        raise ValueError("leads: none at all, or one of them twice")
    return tuple(names)


def _key(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("key is no name")
    return value


def beside(folder: Folder) -> tuple[Hints, list[os.stat_result]]:
    """-> what the nearest sidecar says, from the folder of the recordings up to the archive's."""
    path = os.path.abspath(folder.path)
    root = os.path.abspath(folder.root)
    while True:
        if os.path.lexists(os.path.join(path, SIDECAR)):
            text, status = Folder(root, path).read_header(SIDECAR)
            return _read(text), [status]
        if path == root or not path.startswith(root.rstrip("/") + "/"):
            return NONE, []
        path = os.path.dirname(path)


def _read(text: str) -> Hints:
    parsers: dict[str, Any] = {"rate": rate, "unit": unit, "leads": leads, "key": _key}
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or not found or not set(found) <= set(parsers):
            raise ValueError
        return Hints(**{key: parsers[key](value) for key, value in found.items()})
    except (ValueError, RecursionError):
        known = ", ".join(parsers)
        raise ValueError(f"the {SIDECAR} beside or above it is no JSON object of {known}, or one is wrong") from None
