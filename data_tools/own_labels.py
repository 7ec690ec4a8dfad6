"""Labels of one's own recordings: a CSV of (recording, classes, patient) -> what the splits and views need of them.

Names of patients become keyed hashes here, and what is no class of ours is counted and never passed on.
"""

import csv
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from data_tools import privacy
from data_tools.labels import CLASSES

COLUMNS = ("recording", "classes", "patient")
_LARGEST = 1 << 30  # bytes
_INDEX = {
    word.upper(): index for index, c in enumerate(CLASSES) for word in (c.name, *c.name.split("|"), *c.codes)
}  # "CLBBB|LBBB" is also called CLBBB, and LBBB


class Labelled(NamedTuple):
    classes: int | None  # bit i: class i; None: the table has no such column
    patient: str | None


@dataclass
class Labels:
    of: dict[str, Labelled] = field(default_factory=dict)  # by the recording's public name
    has_classes: bool = False
    has_patients: bool = False
    unknown: Counter[str] = field(default_factory=Counter)  # what stands among the classes and is none


def read(path: Path, recordings: Sequence[str], secret: bytes) -> Labels:
    """`recordings`: paths in the archive; the table may leave out their suffix."""
    names = _names(recordings)
    table = _Table(path)
    labels = Labels(has_classes="classes" in table.columns, has_patients="patient" in table.columns)
    missing = []
    for line, row in table.rows():
        wanted = os.path.normpath(row["recording"].strip()).replace("\\", "/")
        found = names.get(wanted, ())
        if len(found) > 1:
            raise ValueError(f"{path}: line {line}: {wanted} is {' and '.join(found)}; name one with its suffix")
        if not found:
            missing.append(f"{row['recording'].strip() or 'an empty name'} (line {line})")
            continue
        name = privacy.record_name(secret, found[0])
        if name in labels.of:
            raise ValueError(f"{path}: line {line}: {wanted} stands there twice")
        labels.of[name] = _labelled(row, secret, labels)
    _check(path, labels, missing)
    return labels


def _labelled(row: dict[str, str], secret: bytes, labels: Labels) -> Labelled:
    classes = None
    if labels.has_classes:
        words = [word.strip() for word in re.split(r"[;|,]", row["classes"]) if word.strip()]
        classes = sum({1 << _INDEX[word.upper()] for word in words if word.upper() in _INDEX})
        labels.unknown.update(word for word in words if word.upper() not in _INDEX)
    patient = row.get("patient", "").strip()
    return Labelled(classes, privacy.pseudonym(secret, f"patient/{patient}") if patient else None)


def _check(path: Path, labels: Labels, missing: list[str]) -> None:
    if missing:
        others = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ValueError(f"{path}: no such recordings of your own: {', '.join(missing[:3])}{others}")
    if not labels.of:
        raise ValueError(f"{path}: lists no recordings")
    labels.has_patients = any(labelled.patient for labelled in labels.of.values())  # a column may be empty
    known = any(labelled.classes for labelled in labels.of.values())
    if labels.unknown and not known:
        examples = ", ".join(word for word, _ in labels.unknown.most_common(3))
        raise ValueError(
            f"{path}: none of its classes is known: found {examples}; right would be AF, LBBB or 164889003, "
            "the classes of CinC 2021"
        )
    if not known and not labels.has_patients:
        raise ValueError(f"{path}: names no patient and no class")
    labels.has_classes = known


def _names(recordings: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """With and without suffix -> path."""
    names: dict[str, tuple[str, ...]] = {}
    for path in recordings:
        names[os.path.splitext(path)[0]] = (*names.get(os.path.splitext(path)[0], ()), path)
    return names | {path: (path,) for path in recordings}


class _Table:
    def __init__(self, path: Path) -> None:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"{path}: larger than 1 GiB")
        self._path = path
        try:
            with path.open(encoding="utf-8-sig") as file:
                head = file.readline(1 << 16)
        except UnicodeDecodeError:
            raise ValueError(f"{path}: is no CSV file in UTF-8") from None
        self._separator = ";" if ";" in head and "," not in head else ","
        self.columns = [name.strip().lower() for name in next(csv.reader([head], delimiter=self._separator), [])]
        known = [name for name in COLUMNS if name in self.columns]
        if "recording" not in known or len(known) < 2 or len(set(self.columns)) < len(self.columns):
            found = ", ".join(self.columns) or "nothing"
            raise ValueError(
                f"{path}: its first line is {found}; right would be recording, and classes or patient or both"
            )

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """-> line, and its values by column."""
        try:
            with self._path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.reader(file, delimiter=self._separator, strict=True)
                next(reader)
                for values in reader:
                    if len(values) == len(self.columns):
                        yield reader.line_num, dict(zip(self.columns, values, strict=True))
                    elif values:
                        raise ValueError(
                            f"{self._path}: line {reader.line_num} has {len(values)} values, "
                            f"not {len(self.columns)} as the first"
                        )
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{self._path}: is no CSV file in UTF-8 ({type(error).__name__})") from None
