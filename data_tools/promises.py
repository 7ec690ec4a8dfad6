"""What the tables of a dataset promise, held against each other. Each function yields what is wrong."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from data_tools.crops import LEADS, RATE, SEGMENT
from data_tools.labels import CLASS_NAMES
from data_tools.names import SPLITS_OF
from data_tools.views import COLUMNS, identities, lead_masks, subjects

FRAME = 2 * len(LEADS)  # bytes
View = Mapping[str, NDArray]


def wrong_counts(description: Mapping[str, Any], crops: pa.Table, rejected: pa.Table) -> Iterator[str]:
    counted = {"kept": len(crops), "rejected": len(rejected), "in": len(crops) + len(rejected)}
    for name, count in counted.items():
        if description["crops"][name] != count:
            yield f"dataset.json: {description['crops'][name]} crops {name}, {count} are there"
    constants = {"rate": RATE, "leads": list(LEADS), "unit": "uV", "classes": list(CLASS_NAMES)}
    counts = {
        "splits": occurrences(crops["split"]),
        "rejected": occurrences(rejected["reason"]),
        "recordings": len(pc.unique(crops["record"])),
    }
    for name, value in (constants | counts).items():
        if description.get(name) != value:
            yield f"dataset.json: its {name} are not those of the dataset"
    of_file = dict(zip(*(column.to_pylist() for column in crops["file"].value_counts().flatten()), strict=True))
    for file in description["files"]:
        if of_file.get(file["name"], 0) != file["crops"]:
            yield f"{file['name']}: {file['crops']} crops, {of_file.get(file['name'], 0)} rows in crops.parquet"
    if len(pc.unique(crops["key"])) != len(crops):
        yield "crops.parquet: keys stand there twice"
    for file, split in {(row["file"], row["split"]) for row in crops.select(["file", "split"]).to_pylist()}:
        if file.split("/")[0].removesuffix(".zarr") != split:
            yield f"crops.parquet: crops of the split {split} in {file}"


def occurrences(values: pa.ChunkedArray) -> dict[str, int]:
    """How often each value stands there, in their order."""
    return dict(sorted((pair["values"], pair["counts"]) for pair in values.value_counts().to_pylist()))


def wrong_columns(name: str, view: View) -> Iterator[str]:
    """Before anything else is done with a view."""
    if set(view) != set(COLUMNS):
        yield f"views/{name}: columns {', '.join(sorted(view))} instead of {', '.join(sorted(COLUMNS))}"
        return
    rows = len(view["crop"])
    for column, dtype in COLUMNS.items():
        shape = (rows, 2) if column == "lead_mask" else (rows,)
        if view[column].dtype != dtype or view[column].shape != shape:
            yield f"views/{name}: {column} is {view[column].dtype} {view[column].shape}, not {np.dtype(dtype)} {shape}"


def wrong_rows(name: str, view: View, crops: pa.Table, files: Sequence[str]) -> Iterator[str]:
    """Every row lies within its crop, in the right split, and says of it what crops.parquet says."""
    crop = np.asarray(view["crop"])
    if len(crop) and not 0 <= crop.min() <= crop.max() < len(crops):
        yield f"views/{name}: rows of crops that are not there"
        return
    place = {file: index for index, file in enumerate(files)}
    file = np.array([place.get(file, -1) for file in crops["file"].to_pylist()])[crop]
    masks = lead_masks(crops)[crop]
    distance = view["offset"] - crops["offset"].to_numpy()[crop]
    start = distance // FRAME
    pair = view["samples"] == 2 * SEGMENT
    across = (start % SEGMENT != 0) & ~pair  # a segment over both of a crop, whose leads are the same then
    wanted = np.where(start >= SEGMENT, masks[:, 1], masks[:, 0])
    of_split = pc.is_in(crops["split"], pa.array(SPLITS_OF[name])).to_numpy()
    checks = {
        "crop": of_split[crop],
        "file": view["file"] == file,
        "offset": (distance % FRAME == 0) & (start >= 0),
        "samples": (pair | (view["samples"] == SEGMENT))
        & (start + view["samples"] <= crops["samples"].to_numpy()[crop]),
        "classes": view["classes"] == crops["classes"].to_numpy()[crop],
        "identity": view["identity"] == identities(subjects(crops)[0][crop]),
        "lead_mask": (view["lead_mask"][:, 0] == wanted)
        & (view["lead_mask"][:, 1] == np.where(pair, masks[:, 1], 0))
        & (~across | (masks[:, 0] == masks[:, 1])),
    }
    for column, holds in checks.items():
        if not holds.all():
            yield f"views/{name}: {column} of {(~holds).sum()} rows is wrong, the first is row {holds.argmin()}"


def wrong_identities(views: Mapping[str, View], crops: pa.Table) -> Iterator[str]:
    """Gallery and probe, and the pairs of identification-valid."""
    subject, record = subjects(crops)[0], crops["record"].to_numpy(zero_copy_only=False)
    if "identification-gallery" in views and "identification-probe" in views:
        gallery, probe = (views[f"identification-{name}"]["crop"] for name in ("gallery", "probe"))
        if len(gallery) != len(probe) or (subject[gallery] != subject[probe]).any():
            yield "views/identification-probe: its rows are not the patients of identification-gallery"
        elif (record[gallery] == record[probe]).any():
            yield "views/identification-probe: has recordings that are in identification-gallery"
    if "identification-valid" in views:
        count = np.bincount(subject[views["identification-valid"]["crop"]])
        if not np.isin(count, (0, 2)).all():
            yield "views/identification-valid: has not two segments of each"


def leaks(views: Mapping[str, View], crops: pa.Table) -> Iterator[str]:
    """What stands on both sides of a split, or in training and validation of identification."""
    split = crops["split"].to_numpy(zero_copy_only=False)
    yield from _shared(crops, {name: np.flatnonzero(split == name) for name in np.unique(split)})
    apart = ("identification-train", "identification-valid")
    yield from _shared(crops, {name: np.unique(views[name]["crop"]) for name in apart if name in views})


def _shared(crops: pa.Table, sides: Mapping[str, NDArray]) -> Iterator[str]:
    for what, owners, values in _identifying(crops):
        seen: dict[Any, str] = {}
        for name, rows in sides.items():
            here = set(values[np.isin(owners, rows)].tolist())
            for value in sorted(here & set(seen))[:3]:
                shown = value if isinstance(value, str) else value.hex()
                yield f"{what} {shown} is in {seen[value]} and in {name}"
            seen.update(dict.fromkeys(here, name))


def _identifying(crops: pa.Table) -> Sequence[tuple[str, NDArray, NDArray]]:
    """What must not be shared: (what it is, crop of each, value of each)."""
    every = np.arange(len(crops))
    known = np.flatnonzero(crops["patient"].is_valid().to_numpy())
    content = np.array([*pc.list_flatten(crops["content"]).to_pylist(), None], object)[:-1]
    usable = np.flatnonzero(pc.list_flatten(crops["lead_mask"]).to_numpy() != 0)  # empty segments are all alike
    owner = pc.list_parent_indices(crops["content"]).to_numpy()
    return (
        ("record", every, crops["record"].to_numpy(zero_copy_only=False)),
        ("patient", known, crops["patient"].to_numpy(zero_copy_only=False)[known]),
        ("content", owner[usable], content[usable]),
    )
