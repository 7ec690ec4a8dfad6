"""MATLAB: a matrix, or a struct that holds one (CPSC's `ECG`), beside variables that say what it is (CODE-15's)."""

import math
import struct
import zlib
from typing import Any, BinaryIO

import numpy as np

from data_tools.formats import hdf5
from data_tools.formats.library import reading
from data_tools.formats.raw import Raw, check_array, choose, described, wanted_fields
from data_tools.physical import DECODED_LIMIT, Refusal, check_size

_COMPRESSED = 15  # type of an element of a file of version 5
_BLOCK = 1 << 20


def read(file: BinaryIO, key: str | None) -> Raw:
    head = file.read(128)
    file.seek(0)
    if head[:8] == b"\x89HDF\r\n\x1a\n" or head.startswith(b"MATLAB 7.3"):
        return hdf5.read(file, key)
    with reading("scipy"):
        from scipy.io import loadmat, whosmat

        _check_inflated(file, head)
        variables = whosmat(file)
        for _, shape, _ in variables:
            check_size(math.prod(shape) * 8)
        file.seek(0)
        found = _flat(loadmat(file))
    matrices = {name: value for name, value in found.items() if value.dtype.kind in "iuf" and value.size > 1}
    name = choose({name: value.shape for name, value in matrices.items()}, key)
    check_array(matrices[name].shape, matrices[name].dtype)
    fields = {name.rpartition(".")[2]: value for name, value in found.items() if wanted_fields(name.rpartition(".")[2])}
    return described(matrices[name], fields)


def _flat(variables: dict[str, Any]) -> dict[str, Any]:
    """Arrays by name, those of a struct as struct.field."""
    found: dict[str, Any] = {}
    for name, value in variables.items():
        if not isinstance(value, np.ndarray):
            continue
        if value.dtype.names and value.size == 1:
            inside = {f"{name}.{field}": value.flat[0][field] for field in value.dtype.names}
            found |= {name: value for name, value in inside.items() if isinstance(value, np.ndarray)}
        elif not value.dtype.names:
            found[name] = value
    return found


def _check_inflated(file: BinaryIO, head: bytes) -> None:
    """What is compressed in a file of version 5 can become a thousand times as large."""
    order = {b"IM": "<", b"MI": ">"}.get(head[126:128])
    total, place = 0, 128
    while order is not None:
        file.seek(place)
        tag = file.read(8)
        if len(tag) < 8:
            break
        kind, size = struct.unpack(f"{order}II", tag)
        place += 8 + size
        total += _inflated(file, size, DECODED_LIMIT - total) if kind == _COMPRESSED else size
        if total > DECODED_LIMIT:
            raise Refusal("larger than 4 GiB once decoded")
    file.seek(0)


def _inflated(file: BinaryIO, size: int, limit: int) -> int:
    """How many bytes `size` of the file become; stops beyond `limit`."""
    inflate, total = zlib.decompressobj(), 0
    while size > 0 and total <= limit and not inflate.eof:
        block = file.read(min(size, _BLOCK))
        if not block:
            break
        size -= len(block)
        while block and total <= limit:
            total += len(inflate.decompress(block, _BLOCK))
            block = inflate.unconsumed_tail
    return total
