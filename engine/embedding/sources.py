"""Which recordings there are in the files and folders that a user names."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from data_tools import archive, check, formats, records
from data_tools.hints import Hints


class Source(NamedTuple):
    name: str  # as the user knows it
    root: str  # nothing outside of it is opened
    path: str  # relative to it
    wrong_gain: float | None  # of old mirrors of its cohort
    told: Hints  # what its file does not say
    refused: str | None = None  # why it is not even tried


def find(paths: Sequence[Path], told: Hints) -> list[Source]:
    """In the order of `paths`, those of a folder sorted; none twice. ValueError for a path without a recording."""
    found: dict[str, Source] = {}
    for path in paths:
        for source in _in_folder(path, told) if path.is_dir() else [_file(path, told)]:
            found.setdefault(os.path.join(source.root, source.path), source)
    formats.check_installed(source.path for source in found.values() if source.refused is None)
    return list(found.values())


def _file(path: Path, told: Hints) -> Source:
    file, told = records.named(path, told)
    root = str(file.parent)
    return Source(str(path), root, file.name, archive.cohort_of(root, file.name).wrong_gain, told)


def _in_folder(folder: Path, told: Hints) -> Iterator[Source]:
    """As shard takes them: parts of other recordings, and tables without samples, are no recordings."""
    found = archive.find(Path(os.path.abspath(folder)), ())
    if not found.recordings and not found.strays:
        raise ValueError(f"{folder}: no recordings there; right would be {records.KINDS}")
    headers = [path for path in found.recordings if path.endswith(".hea")]
    named = {part for path in headers for part in check.other_names(path, records.names(found.root, path))}

    def source(path: str, refused: str | None = None) -> Source:
        gain = archive.cohort_of(found.root, path).wrong_gain
        return Source(os.path.join(folder, path), found.root, path, gain, told, refused)

    yield from (source(path) for path in found.recordings if path not in named)
    yield from (source(path, "no header goes with this file") for path in found.strays if path not in named)
    yield from (source(path, "a link to a folder outside, which is not followed") for path in found.links)
