"""Rows into a file as they come: Parquet, or an array of NumPy with a table beside it."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from data_tools.files import replacing
from engine.embedding.encoding import Row

_GROUP_BYTES = 16 << 20  # of embeddings, in a row group
_COLUMNS = ("row", "recording", "rate", "segment", "start", "lead_mask")


def table_beside(out: Path) -> Path | None:
    """Of an array, the file that says what its rows are."""
    return out.with_suffix(".csv") if out.suffix == ".npy" else None


def check(out: Path) -> None:
    """Before hours of work."""
    if out.suffix not in (".parquet", ".npy"):
        raise ValueError(f"--out {out} should end in .parquet or .npy")
    if not out.parent.is_dir():
        raise ValueError(f"--out {out}: there is no folder {out.parent}")
    for path in (out, table_beside(out)):
        if path is not None and path.exists():
            raise ValueError(f"{path} exists already; remove it, or choose another --out")


def write(rows: Iterable[Row], out: Path, about: Mapping[str, Any]) -> int:
    """-> how many. `out` is there when it is whole; `about` stands in a Parquet file's metadata."""
    of_kind: Callable[..., int] = _parquet if out.suffix == ".parquet" else _npy
    return of_kind(rows, out, about)


def _parquet(rows: Iterable[Row], out: Path, about: Mapping[str, Any]) -> int:
    count, group, writer = 0, [], None
    with replacing(out) as temporary:
        for row in rows:
            if writer is None:
                schema = _schema(row.embedding.shape, about)
                writer = pq.ParquetWriter(temporary, schema)
                size = max(1, _GROUP_BYTES // row.embedding.nbytes)
            group.append(row)
            count += 1
            if len(group) == size:
                writer.write_table(_table(group, schema))
                group = []
        if writer is None:
            raise ValueError("nothing to write: no recording could be embedded")
        if group:
            writer.write_table(_table(group, schema))
        writer.close()
    return count


def _schema(shape: tuple[int, ...], about: Mapping[str, Any]) -> pa.Schema:
    embedding = pa.float32()
    for length in reversed(shape):  # [dim], or [tokens, dim]
        embedding = pa.list_(embedding, length)
    return pa.schema(
        {
            "recording": pa.string(),
            "rate": pa.float64(),
            "start": pa.list_(pa.int64()),
            "lead_mask": pa.list_(pa.uint16()),
            "embedding": embedding,
        },
        {"leadwise": json.dumps(about)},
    )


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    columns = [[getattr(row, name) for row in rows] for name in schema.names[:-1]]
    stacked = np.stack([row.embedding for row in rows])
    nested = pa.array(stacked.reshape(-1))
    for length in reversed(stacked.shape[1:]):
        nested = pa.FixedSizeListArray.from_arrays(nested, length)
    columns[0] = [_text(name) for name in columns[0]]
    return pa.table([*columns, nested], schema=schema)


def _npy(rows: Iterable[Row], out: Path, about: Mapping[str, Any]) -> int:
    beside = table_beside(out)
    assert beside is not None
    count, begin = 0, 0
    # The array is renamed last: when it is there, so is its table.
    with replacing(out) as temporary, replacing(beside) as table, temporary.open("wb") as array:
        with table.open("w", newline="", encoding="utf-8") as text:
            lines = csv.writer(text)
            lines.writerow(_COLUMNS)
            for row in rows:
                if not count:
                    begin = _header(array, 0, row.embedding.shape)
                array.write(np.ascontiguousarray(row.embedding, "<f4").tobytes())
                for start, mask in zip(row.start, row.lead_mask, strict=True):
                    lines.writerow((count, _text(row.recording), f"{row.rate:g}", start // 2500, start, mask))
                count += 1
        if not count:
            raise ValueError("nothing to write: no recording could be embedded")
        array.seek(0)  # how many there are is known now; NumPy leaves room for that number
        end = _header(array, count, row.embedding.shape)
        assert end == begin
    return count


def _text(name: str) -> str:
    """A file's name need not be text."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _header(file: Any, rows: int, shape: tuple[int, ...]) -> int:
    """-> where the values begin."""
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, *shape)})
    return int(file.tell())
