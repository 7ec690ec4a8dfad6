"""Crops into the files of a shard, tar or zarr, behind one small interface. Only the crops decide the bytes."""

import io
import json
import struct
import tarfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from data_tools.crops import CROP, LEADS

_BLOCK = 512  # of a tar
CROP_BYTES = CROP * len(LEADS) * 2
_ABSENT = 2**64 - 1  # offset and length of a chunk that a zarr shard does not hold


class Writer(Protocol):
    def add(self, key: str, signal: NDArray[np.int16], about: Mapping[str, Any]) -> int:
        """Appends a crop [samples, 12]; -> the byte of the file at which its samples begin."""

    def close(self) -> dict[str, str]:
        """-> sha256 of each file written, by suffix."""


class _HashedFile:
    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 (closed by close)
        self._hash = sha256()
        self.position = 0

    def write(self, part: bytes | memoryview) -> None:
        self._hash.update(part)
        self.position += len(part)
        left = memoryview(part)
        while left:  # a full disk first writes less than asked, then raises
            left = left[self._file.write(left) :]

    def close(self) -> str:
        self._file.close()
        return self._hash.hexdigest()


class TarWriter:
    """`<key>.npy` then `<key>.json` of each crop, in plain USTAR without times and owners; DALI's index beside it."""

    def __init__(self, stem: str) -> None:
        self._tar = _HashedFile(f"{stem}.tar")
        self._index_file = _HashedFile(f"{stem}.idx")
        self._index: list[str] = []

    def add(self, key: str, signal: NDArray[np.int16], about: Mapping[str, Any]) -> int:
        head = npy_header(*signal.shape)
        text = json_member(about)
        start, size = self._tar.position, len(head) + signal.nbytes
        self._tar.write(_tar_header(f"{key}.npy", size) + head)
        self._tar.write(signal.data.cast("B"))
        self._tar.write(_padding(size) + _tar_header(f"{key}.json", len(text)) + text + _padding(len(text)))
        text_start = self._tar.position - len(text) - len(_padding(len(text)))
        members = ((f"{key}.npy", start + _BLOCK, size), (f"{key}.json", text_start, len(text)))
        self._index.append(index_line(members))
        return start + _BLOCK + len(head)

    def close(self) -> dict[str, str]:
        self._tar.write(bytes(2 * _BLOCK))
        self._index_file.write("\n".join([f"v1.2 {len(self._index)}", *self._index, ""]).encode())
        return {".tar": self._tar.close(), ".idx": self._index_file.close()}


def json_member(about: Mapping[str, Any]) -> bytes:
    return json.dumps(about, separators=(",", ":")).encode()


@lru_cache
def npy_header(rows: int, columns: int) -> bytes:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<i2", "fortran_order": False, "shape": (rows, columns)})
    return head.getvalue()


_TAR_HEADER = tarfile.TarInfo().tobuf(tarfile.USTAR_FORMAT)  # no times, owner 0


def _tar_header(name: str, size: int) -> bytes:
    """What tarfile makes of them, five times faster."""
    header = bytearray(_TAR_HEADER)
    header[: len(name)] = name.encode("ascii")
    header[124:136] = b"%011o\0" % size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    assert len(header) == _BLOCK and len(name) < 100
    return bytes(header)


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


class ZarrWriter:
    """One shard of a zarr 3 array [crops, 5000, 12]: each crop as it is in memory, then where each begins.

    A crop of 5 s has zeros behind it."""

    def __init__(self, stem: str, crops_per_shard: int) -> None:
        self._file = _HashedFile(stem)
        self._slots = crops_per_shard
        self._crops = 0

    def add(self, key: str, signal: NDArray[np.int16], about: Mapping[str, Any]) -> int:
        start = self._file.position
        self._file.write(signal.data.cast("B"))
        self._file.write(bytes(CROP_BYTES - signal.nbytes))
        self._crops += 1
        return start

    def close(self) -> dict[str, str]:
        self._file.write(zarr_index(self._crops, self._slots))
        return {"": self._file.close()}


def zarr_index(crops: int, slots: int) -> bytes:
    """Behind a shard's chunks: offset and length of each, or that it is not there."""
    places = [(slot * CROP_BYTES, CROP_BYTES) if slot < crops else (_ABSENT, _ABSENT) for slot in range(slots)]
    return b"".join(struct.pack("<QQ", *place) for place in places)


def write_zarr_metadata(folder: Path, crops: int, crops_per_shard: int) -> None:
    """The array of `ZarrWriter`'s shards, in zarr's own words."""
    import zarr
    from zarr.codecs import BytesCodec, ShardingCodec

    sharding = ShardingCodec(chunk_shape=(1, CROP, len(LEADS)), codecs=[BytesCodec()], index_codecs=[BytesCodec()])
    zarr.create_array(
        str(folder),
        shape=(crops, CROP, len(LEADS)),
        chunks=(crops_per_shard, CROP, len(LEADS)),
        dtype="int16",
        fill_value=0,
        serializer=sharding,
        compressors=None,
        filters=None,
        dimension_names=("crop", "sample", "lead"),
        attributes={"leads": list(LEADS), "rate": 500, "unit": "uV"},
    )


def index_line(members: Iterable[tuple[str, int, int]]) -> str:
    """DALI's: extension, where the data begin, their size, name, of each member of a sample."""
    return " ".join(f"{name.rpartition('.')[2]} {offset} {size} {name}" for name, offset, size in members)
