"""The tables of a dataset folder and its description, once its files are written."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_tools import __version__, files, views
from data_tools.crops import LEADS, RATE
from data_tools.labels import CLASS_NAMES
from data_tools.names import FORMAT
from data_tools.pack import Packed
from data_tools.promises import occurrences
from data_tools.views import Stretches
from data_tools.writers import write_zarr_metadata

CROPS = pa.schema(
    [
        ("file", pa.string()),
        ("offset", pa.int64()),
        ("samples", pa.int32()),
        ("key", pa.string()),
        ("record", pa.string()),
        ("patient", pa.string()),
        ("cohort", pa.string()),
        ("split", pa.string()),
        ("start", pa.int64()),
        ("age", pa.int16()),
        ("sex", pa.string()),
        ("classes", pa.uint32()),
        ("lead_mask", pa.list_(pa.uint16())),
        ("content", pa.list_(pa.binary(16))),
    ]
)


def data_suffix(format_: str) -> str:
    return ".tar" if format_ == "tar" else ""


def tables(
    data: Path,
    crops: pa.Table,
    rejected: pa.Table,
    packed: Sequence[Packed],
    chosen: Mapping[str, Stretches],
    suffix: str,
) -> None:
    """crops.parquet, rejected.parquet and the views; `packed` in the order of `crops`."""
    counts = [len(shard.offsets) for shard in packed]
    place = np.repeat(np.arange(len(packed), dtype=np.int32), counts)
    offset = np.concatenate([shard.offsets for shard in packed])
    located = crops.append_column("file", pa.array(place)).append_column("offset", pa.array(offset))
    for name, stretches in chosen.items():
        folder = data / "views" / name
        folder.mkdir(parents=True)
        for column, values in views.columns(located, stretches).items():
            np.save(folder / f"{column}.npy", values)
    names = pa.array([f"{shard.name}{suffix}" for shard in packed])
    named = located.set_column(located.schema.get_field_index("file"), "file", names.take(pa.array(place)))
    files.write_table(named.select(CROPS.names).cast(CROPS), data / "crops.parquet")
    files.write_table(rejected.drop_columns(["header"]), data / "rejected.parquet")


def zarr_metadata(data: Path, crops: pa.Table, crops_per_shard: int, scratch: Path) -> None:
    """zarr writes it to `scratch`, where it may be interrupted."""
    for split, count in occurrences(crops["split"]).items():
        shutil.rmtree(scratch, ignore_errors=True)
        write_zarr_metadata(scratch, count, crops_per_shard)
        (scratch / "zarr.json").replace(data / f"{split}.zarr" / "zarr.json")


def describe(
    data: Path,
    arguments: Mapping[str, Any],
    crops: pa.Table,
    rejected: pa.Table,
    packed: Sequence[Packed],
    counts: Counter[str],
    crops_in: int,
) -> dict[str, Any]:
    """dataset.json: what is here and what made it; nothing of where, when, or with how many workers."""
    suffix = data_suffix(arguments["format"])
    shards = [
        {
            "name": f"{shard.name}{suffix}",
            "bytes": shard.bytes[suffix],
            "sha256": shard.sha256[suffix],
            "crops": len(shard.offsets),
        }
        for shard in packed
    ]
    listed = {shard["name"] for shard in shards}
    others = sorted(path for path in data.rglob("*") if path.is_file())
    return {
        "format": FORMAT,
        "rate": RATE,
        "leads": LEADS,
        "unit": "uV",
        "classes": CLASS_NAMES,
        "arguments": dict(arguments),
        "versions": {"leadwise": __version__} | {name: version(name) for name in ("numpy", "scipy", "wfdb")},
        "crops": {"in": crops_in, "kept": len(crops), "rejected": len(rejected)},
        "recordings": len(pc.unique(crops["record"])),
        "rejected": occurrences(rejected["reason"]),
        "seconds_left_over": counts.pop("samples left over", 0) / RATE,
        "found": {name: count for name, count in sorted(counts.items()) if count},
        "splits": occurrences(crops["split"]),
        "views": {path.name: len(np.load(path / "crop.npy", mmap_mode="r")) for path in sorted(data.glob("views/*"))},
        "files": shards,
        "tables": [
            {"name": name, "bytes": path.stat().st_size, "sha256": files.digest(path)}
            for path in others
            if (name := path.relative_to(data).as_posix()) not in listed
        ],
    }
