"""Holds a dataset folder to its word: python -m data_tools.verify DATA"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from data_tools import console, files
from data_tools.console import progress, say
from data_tools.crops import LEADS, SEGMENT
from data_tools.publish import FORMAT
from data_tools.views import open_view
from data_tools.writers import check_tar_index

_FRAME = 2 * len(LEADS)  # bytes
_EPILOG = """examples:
  python -m data_tools.verify data/cinc            every byte
  python -m data_tools.verify data/cinc --quick    sizes, counts and splits, in seconds
"""
# No two of these views may share a record, a patient or a content.
_APART = (
    ("pretrain", "pretrain-valid", "diagnosis-valid", "diagnosis-test", "identification-gallery"),
    ("pretrain", "pretrain-valid", "diagnosis-valid", "diagnosis-test", "identification-probe"),
    ("diagnosis-train", "diagnosis-valid", "diagnosis-test"),
    ("identification-train", "identification-valid", "identification-gallery"),
    ("identification-train", "identification-valid", "identification-probe"),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_tools.verify",
        description="Checks a dataset folder and lists what is wrong with it; exit code 0 if nothing is.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", metavar="DATA", type=Path)
    parser.add_argument("--quick", action="store_true", help="do not read the shards")
    return console.run(_verify, parser.parse_args())


def _verify(arguments: argparse.Namespace) -> int:
    dataset = _open(arguments.data)
    wrong = list(_problems(dataset, arguments.quick))
    for line in wrong:
        say(line)
    crops = dataset.description["crops"]["kept"]
    say(f"{arguments.data}: {len(wrong)} problems" if wrong else f"{arguments.data}: {crops:,} crops, nothing wrong")
    return 1 if wrong else 0


@dataclass(frozen=True)
class _Dataset:
    root: Path
    description: dict[str, Any]

    @property
    def files(self) -> list[dict[str, Any]]:
        return [*self.description["files"], *self.description["tables"]]

    def table(self, name: str) -> pa.Table:
        return files.read_table(self.root / name)

    def view(self, name: str) -> dict[str, NDArray]:
        return open_view(self.root / "views" / name)


def _open(root: Path) -> _Dataset:
    path = root / "dataset.json"
    try:
        description = files.read_json(path)
        version = description["format"]
        description["crops"]["kept"], description["views"]
        names = [file["name"] for file in [*description["files"], *description["tables"]]]
    except FileNotFoundError:
        hint = " (unfinished; run the same shard command again)" if root.name.endswith(".partial") else ""
        raise ValueError(f"{root}: no dataset folder: no dataset.json{hint}") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: damaged") from None
    if version != FORMAT:
        raise ValueError(f"{root}: format {version}; this Leadwise reads format {FORMAT}")
    for name in names:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(f"{path}: names a file outside the folder: {name}")
    return _Dataset(root, description)


def _problems(dataset: _Dataset, quick: bool) -> Iterator[str]:
    damaged = list(_damaged_files(dataset, quick))
    yield from damaged
    if any("crops.parquet" in line or "rejected.parquet" in line or "views/" in line for line in damaged):
        return  # what follows would only say so again
    crops = dataset.table("crops.parquet")
    yield from _wrong_counts(dataset, crops)
    yield from _wrong_rows(dataset, crops)
    yield from _leaks(dataset, crops)
    if not quick and not damaged:
        yield from _wrong_shards(dataset, crops)


def _damaged_files(dataset: _Dataset, quick: bool) -> Iterator[str]:
    listed = {file["name"]: file for file in dataset.files}
    for name, file in progress(listed.items(), len(listed), "sizes" if quick else "sha256"):
        path = dataset.root / name
        if not path.is_file():
            yield f"{name}: is missing"
        elif (size := path.stat().st_size) != file["bytes"]:
            yield f"{name}: {size} bytes instead of {file['bytes']}"
        elif not quick and files.digest(path) != file["sha256"]:
            yield f"{name}: its sha256 is another one"
    present = {path.relative_to(dataset.root).as_posix() for path in dataset.root.rglob("*") if path.is_file()}
    for name in sorted(present - set(listed) - {"dataset.json"}):
        yield f"{name}: does not belong to the dataset"


def _wrong_counts(dataset: _Dataset, crops: pa.Table) -> Iterator[str]:
    description = dataset.description
    counted = {"kept": len(crops), "rejected": len(dataset.table("rejected.parquet"))}
    counted["in"] = counted["kept"] + counted["rejected"]
    for name, count in counted.items():
        if description["crops"][name] != count:
            yield f"dataset.json: {description['crops'][name]} crops {name}, {count} are there"
    of_file = dict(zip(*(column.to_pylist() for column in crops["file"].value_counts().flatten()), strict=True))
    for file in description["files"]:
        if of_file.get(file["name"], 0) != file["crops"]:
            yield f"{file['name']}: {file['crops']} crops, {of_file.get(file['name'], 0)} rows in crops.parquet"
    if len(pc.unique(crops["key"])) != len(crops):
        yield "crops.parquet: keys stand there twice"
    views = {path.name: len(np.load(path / "crop.npy", mmap_mode="r")) for path in dataset.root.glob("views/*")}
    if views != description["views"]:
        yield f"views: {views} rows, dataset.json says {description['views']}"


def _wrong_rows(dataset: _Dataset, crops: pa.Table) -> Iterator[str]:
    """Every row of a view lies within its crop, and says of it what crops.parquet says."""
    place = {file["name"]: index for index, file in enumerate(dataset.description["files"])}
    file = np.array([place.get(name, -1) for name in crops["file"].to_pylist()])
    offset, samples, classes = (crops[name].to_numpy() for name in ("offset", "samples", "classes"))
    masks = np.zeros((len(crops), 2), np.uint16)
    for segment in range(2):
        has = pc.greater(pc.list_value_length(crops["lead_mask"]), segment).to_numpy()
        masks[has, segment] = pc.list_element(crops["lead_mask"].filter(pa.array(has)), segment).to_numpy()
    for name in dataset.description["views"]:
        view = dataset.view(name)
        crop = view["crop"]
        if len(crop) and not 0 <= crop.min() <= crop.max() < len(crops):
            yield f"views/{name}: rows of crops that are not there"
            continue
        start = (view["offset"] - offset[crop]) // _FRAME
        pair = view["samples"] == 2 * SEGMENT
        first, second = masks[crop, 0], masks[crop, 1]
        across = (start % SEGMENT != 0) & ~pair  # both segments' leads are the same there
        wanted = np.where(start >= SEGMENT, second, first)
        checks = {
            "file": view["file"] == file[crop],
            "offset": (view["offset"] - offset[crop]) % _FRAME == 0,
            "samples": (start >= 0) & (start + view["samples"] <= samples[crop]),
            "classes": view["classes"] == classes[crop],
            "lead_mask": (view["lead_mask"][:, 0] == wanted)
            & (view["lead_mask"][:, 1] == np.where(pair, second, 0))
            & (~across | (first == second)),
        }
        for column, holds in checks.items():
            if not holds.all():
                yield f"views/{name}: {column} of {(~holds).sum()} rows is wrong, the first is row {holds.argmin()}"


def _leaks(dataset: _Dataset, crops: pa.Table) -> Iterator[str]:
    """What stands on both sides of a split, or of two views that have to be apart."""
    split = crops["split"].to_numpy(zero_copy_only=False)
    yield from _shared(crops, {name: np.flatnonzero(split == name) for name in np.unique(split)})
    rows = {name: np.unique(dataset.view(name)["crop"]) for name in dataset.description["views"]}
    for apart in _APART:
        yield from _shared(crops, {name: rows[name] for name in apart if name in rows})


def _shared(crops: pa.Table, sides: dict[str, NDArray]) -> Iterator[str]:
    for what, owners, values in _identities(crops):
        seen: dict[Any, str] = {}
        for name, rows in sides.items():
            here = set(values[np.isin(owners, rows)].tolist())
            for value in sorted(here & set(seen))[:3]:
                shown = value if isinstance(value, str) else value.hex()
                yield f"{what} {shown} is in {seen[value]} and in {name}"
            seen.update(dict.fromkeys(here, name))


def _identities(crops: pa.Table) -> Sequence[tuple[str, NDArray, NDArray]]:
    """What must not be shared: (of what kind, crop of each, value of each)."""
    every = np.arange(len(crops))
    patients = crops["patient"].to_numpy(zero_copy_only=False)
    known = np.flatnonzero(crops["patient"].is_valid().to_numpy())
    content = np.array(pc.list_flatten(crops["content"]).to_pylist() or [b""], object)
    usable = np.flatnonzero(pc.list_flatten(crops["lead_mask"]).to_numpy() != 0)  # empty segments are all alike
    owner = pc.list_parent_indices(crops["content"]).to_numpy()
    return (
        ("record", every, crops["record"].to_numpy(zero_copy_only=False)),
        ("patient", known, patients[known]),
        ("content", owner[usable], content[usable]),
    )


def _wrong_shards(dataset: _Dataset, crops: pa.Table) -> Iterator[str]:
    """Each crop's samples are those that were hashed, unusable leads are zero, and indices lead to them."""
    shards = dataset.description["files"]
    for shard in progress(shards, len(shards), "crops"):
        of_shard = crops.filter(pc.equal(crops["file"], shard["name"]))
        data = np.memmap(dataset.root / shard["name"], np.uint8, "r")
        for crop in of_shard.to_pylist():
            end = crop["offset"] + crop["samples"] * _FRAME
            if end > len(data):
                yield f"{shard['name']}: crop {crop['key']} reaches beyond its end"
                continue
            signal = data[crop["offset"] : end].view("<i2").reshape(-1, SEGMENT, len(LEADS))
            for segment, mask, content in zip(signal, crop["lead_mask"], crop["content"], strict=True):
                if sha256(segment.data).digest()[: len(content)] != content:
                    yield f"{shard['name']}: crop {crop['key']} is not what crops.parquet says"
                unusable = [lead for lead in range(len(LEADS)) if not mask >> lead & 1]
                if segment[:, unusable].any():
                    yield f"{shard['name']}: crop {crop['key']} has unusable leads that are not zero"
        if shard["name"].endswith(".tar"):
            yield from check_tar_index(dataset.root / shard["name"], of_shard["key"].to_pylist())


if __name__ == "__main__":
    sys.exit(main())
