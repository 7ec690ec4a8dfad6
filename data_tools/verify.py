"""Holds a dataset folder to its word: python -m data_tools.verify DATA"""

import argparse
import contextlib
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from data_tools import console, files, promises
from data_tools.console import progress, say
from data_tools.crops import LEADS, SEGMENT
from data_tools.names import FORMAT, SPLITS_OF
from data_tools.pack import about
from data_tools.publish import CROPS
from data_tools.views import open_view
from data_tools.writers import CROP_BYTES, index_line, json_member, npy_header, zarr_index

_EPILOG = """examples:
  python -m data_tools.verify data/cinc            every byte
  python -m data_tools.verify data/cinc --quick    sizes, counts and splits, in seconds
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_tools.verify",
        description="Checks a dataset folder and lists what is wrong with it; exit code 0 if nothing is.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", metavar="DATA", type=Path)
    parser.add_argument("--quick", action="store_true", help="do not read the shards")
    return console.run(_verify, parser.parse_args(), interrupted="nothing was changed")


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
        try:
            return files.read_table(self.root / name)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self.root / name}: no table can be read there ({type(error).__name__})") from None


def _open(root: Path) -> _Dataset:
    path = root / "dataset.json"
    try:
        description = files.read_json(path)
        version = description["format"]
        listed = [*description["files"], *description["tables"]]
        counts = [description["crops"][name] for name in ("in", "kept", "rejected")]
        numbers = [*counts, *(file["bytes"] for file in listed), *(file["crops"] for file in description["files"])]
        texts = [text for file in listed for text in (file["name"], file["sha256"])]
        well_formed = all(isinstance(n, int) for n in numbers) and all(isinstance(text, str) for text in texts)
        well_formed = well_formed and isinstance(description["views"], dict)
        well_formed = well_formed and set(description["views"]) <= set(SPLITS_OF)
    except (FileNotFoundError, NotADirectoryError):
        hint = " (unfinished; run the same shard command again)" if root.name.endswith(".partial") else ""
        raise ValueError(f"{root}: no dataset folder: no dataset.json{hint}") from None
    except (ValueError, KeyError, TypeError):
        well_formed = False
    if not well_formed:
        raise ValueError(f"{path}: damaged")
    if version != FORMAT:
        raise ValueError(f"{root}: format {version}; this Leadwise reads format {FORMAT}")
    for file in listed:
        if PurePosixPath(file["name"]).is_absolute() or ".." in PurePosixPath(file["name"]).parts:
            raise ValueError(f"{path}: names a file outside the folder: {file['name']}")
    return _Dataset(root, description)


def _problems(dataset: _Dataset, quick: bool) -> Iterator[str]:
    damaged = list(_damaged_files(dataset, quick))
    yield from damaged
    if any(line.startswith(("crops.parquet", "rejected.parquet", "views/")) for line in damaged):
        return  # what follows would only say so again
    views = _views(dataset)
    crops, rejected = dataset.table("crops.parquet"), dataset.table("rejected.parquet")
    broken = list(_wrong_schema(dataset, crops, views))
    yield from broken
    if broken:
        return
    names = [file["name"] for file in dataset.description["files"]]
    wrong = list(promises.wrong_counts(dataset.description, crops, rejected))
    for name, view in views.items():
        wrong += promises.wrong_rows(name, view, crops, names)
    yield from wrong
    if not any("not there" in line for line in wrong):
        yield from promises.wrong_identities(views, crops)
        yield from promises.leaks(views, crops)
    if not quick and not damaged:
        yield from _wrong_shards(dataset, crops)


def _damaged_files(dataset: _Dataset, quick: bool) -> Iterator[str]:
    listed = {file["name"]: file for file in dataset.files}
    for name, file in progress(listed.items(), len(listed), "sizes" if quick else "sha256"):
        path = dataset.root / name
        if not path.is_file():
            yield f"{name}: is missing"
        elif path.is_symlink() or not path.resolve().is_relative_to(dataset.root.resolve()):
            yield f"{name}: is a link"
        elif (size := path.stat().st_size) != file["bytes"]:
            yield f"{name}: {size} bytes instead of {file['bytes']}"
        elif not quick and files.digest(path) != file["sha256"]:
            yield f"{name}: its sha256 is another one"
    views = {path.name for path in (dataset.root / "views").glob("*")}
    if views != set(dataset.description["views"]):
        yield f"dataset.json: has not the views that are there, {', '.join(sorted(views))}"
    present = {path.relative_to(dataset.root).as_posix() for path in dataset.root.rglob("*") if not path.is_dir()}
    for name in sorted(present - set(listed) - {"dataset.json"}):
        yield f"{name}: does not belong to the dataset"


def _views(dataset: _Dataset) -> dict[str, promises.View]:
    """One that cannot be read is as good as empty."""
    found: dict[str, promises.View] = {}
    for name in dataset.description["views"]:
        found[name] = {}
        with contextlib.suppress(ValueError):
            found[name] = open_view(dataset.root / "views" / name)
    return found


def _wrong_schema(dataset: _Dataset, crops: pa.Table, views: dict[str, promises.View]) -> Iterator[str]:
    if not crops.schema.equals(CROPS):
        yield "crops.parquet: its columns are not those of format 1"
    for name, view in views.items():
        broken = list(promises.wrong_columns(name, view))
        yield from broken
        if not broken and len(view["crop"]) != dataset.description["views"][name]:
            yield f"views/{name}: {len(view['crop'])} rows, dataset.json says {dataset.description['views'][name]}"


def _wrong_shards(dataset: _Dataset, crops: pa.Table) -> Iterator[str]:
    """Each crop's samples are those that were hashed, unusable leads are zero, and indices lead to them."""
    shards = dataset.description["files"]
    for shard in progress(shards, len(shards), "crops"):
        rows = crops.filter(pc.equal(crops["file"], shard["name"])).to_pylist()
        path = dataset.root / shard["name"]
        data = np.memmap(path, np.uint8, "r")
        for row in rows:
            yield from (f"{shard['name']}: crop {row['key']} {what}" for what in _wrong_crop(row, data))
        if path.suffix == ".tar":
            yield from (f"{shard['name']}: {what}" for what in _wrong_tar(path, rows))
        else:
            yield from (f"{shard['name']}: {what}" for what in _wrong_zarr(path, rows, crops))


def _wrong_crop(row: dict[str, Any], data: NDArray[np.uint8]) -> Iterator[str]:
    end = row["offset"] + row["samples"] * promises.FRAME
    if not 0 <= row["offset"] <= end <= len(data):
        yield "reaches beyond its end"
        return
    signal = data[row["offset"] : end].view("<i2").reshape(-1, SEGMENT, len(LEADS))
    for segment, mask, content in zip(signal, row["lead_mask"], row["content"], strict=True):
        if sha256(segment.data).digest()[: len(content)] != content:
            yield "is not what crops.parquet says"
        unusable = [lead for lead in range(len(LEADS)) if not mask >> lead & 1]
        if segment[:, unusable].any():
            yield "has unusable leads that are not zero"


def _wrong_tar(path: Path, rows: list[dict[str, Any]]) -> Iterator[str]:
    try:
        with tarfile.open(path, "r:") as tar:
            members = [(member.name, member.offset_data, member.size) for member in tar]
    except tarfile.TarError as error:
        yield f"no tar ({error})"
        return
    if [name for name, _, _ in members] != [f"{row['key']}.{ext}" for row in rows for ext in ("npy", "json")]:
        yield "its members are not the crops of crops.parquet"
        return
    samples = list(zip(members[::2], members[1::2], strict=True))
    lines = [f"v1.2 {len(samples)}", *(index_line(sample) for sample in samples)]
    if path.with_suffix(".idx").read_text().splitlines() != lines:
        yield "its index does not lead to its members"
    data = np.memmap(path, np.uint8, "r")
    for row, ((_, npy, _), (_, text, size)) in zip(rows, samples, strict=True):
        head = npy_header(row["samples"], len(LEADS))
        if data[npy : npy + len(head)].tobytes() != head or npy + len(head) != row["offset"]:
            yield f"{row['key']}.npy is not where or what crops.parquet says"
        if data[text : text + size].tobytes() != json_member(about(row)):
            yield f"{row['key']}.json does not say what crops.parquet says"


def _wrong_zarr(path: Path, rows: list[dict[str, Any]], crops: pa.Table) -> Iterator[str]:
    array = path.parents[3]  # <split>.zarr/c/<number>/0/0
    metadata = files.read_json(array / "zarr.json")
    slots = metadata["chunk_grid"]["configuration"]["chunk_shape"][0]
    count = pc.sum(pc.equal(crops["split"], array.stem)).as_py()
    if metadata["shape"] != [count, 2 * SEGMENT, len(LEADS)] or metadata["data_type"] != "int16":
        yield f"{array.name}/zarr.json does not describe {count} crops"
    index = zarr_index(len(rows), slots)
    with path.open("rb") as file:
        file.seek(-len(index), 2)
        if file.read() != index or [row["offset"] for row in rows] != [n * CROP_BYTES for n in range(len(rows))]:
            yield "its index does not lead to its crops"


if __name__ == "__main__":
    sys.exit(main())
