"""HDF5: the array of samples and leads in it, and what its attributes, and those of its groups, say of it."""

from typing import Any, BinaryIO

import numpy as np

from data_tools.formats.library import reading
from data_tools.formats.raw import Raw, check_array, choose, described, wanted_fields
from data_tools.physical import Refusal

_MOST_OBJECTS = 1000


def read(file: BinaryIO, key: str | None) -> Raw:
    with reading("h5py"):
        import h5py

        with h5py.File(file, "r") as opened:
            datasets = _datasets(opened, h5py.Dataset)
            name = choose({name: found.shape for name, found in datasets.items()}, key)
            array = datasets[name]
            if array.is_virtual or array.external:
                raise Refusal("its array lies in another file")
            check_array(array.shape, array.dtype)
            if not array.id.get_storage_size():
                raise Refusal("its array is declared, and holds nothing")
            return described(array[()], _fields(array))


def _datasets(opened: Any, kind: type) -> dict[str, Any]:
    """Of numbers, by name; no link is followed, least of all into another file."""
    found: dict[str, Any] = {}
    seen = 0

    def visit(name: str, item: Any) -> None:
        nonlocal seen
        seen += 1
        if seen > _MOST_OBJECTS:
            raise Refusal(f"holds more than {_MOST_OBJECTS} objects; give each recording a file of its own")
        if isinstance(item, kind) and item.dtype.kind in "iuf" and item.shape is not None:  # type: ignore[attr-defined]
            found[name] = item

    opened.visititems(visit)
    return found


def _fields(array: Any) -> dict[str, Any]:
    """The attributes that matter, of the array before those of the groups around it."""
    found: dict[str, Any] = {}
    for place in (array, *_groups(array)):
        for name in place.attrs:
            if wanted_fields(name) and name not in found and np.prod(place.attrs.get_id(name).shape) <= 100:
                found[name] = place.attrs[name]
    return found


def _groups(array: Any) -> list[Any]:
    groups = [array.parent]
    while groups[-1].name != "/":
        groups.append(groups[-1].parent)
    return groups
