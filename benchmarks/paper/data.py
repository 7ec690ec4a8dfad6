"""Which datasets a grid reads, and for what: --data, and others that its size may train on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.paper import sizes
from benchmarks.paper.grid import Pretrain
from benchmarks.paper.worker import Order
from engine.data.dataset import Folder, open_dataset

_TESTS = {"diagnosis": ("valid", "test"), "identification": ("gallery", "probe")}


class Place(NamedTuple):
    path: str
    view: str


def places(order: Order) -> list[Place]:
    """What has to be there: views of tests first."""
    tests = (f"{task}-{part}" for task in order.selection.tasks for part in _TESTS[task])
    found = [Place(path, view) for view in tests for path in order.data]
    size = sizes.read(order.size)
    for cell in order.selection.cells():
        kinds = ["pretrain"] if isinstance(cell, Pretrain) else [f"{cell.task}-train", f"{cell.task}-valid"]
        paths = sizes.config(cell, size, order.data, Path(order.out)).data.path
        found += [Place(path, kind) for kind in kinds for path in paths]
    return list(dict.fromkeys(found))


def described(order: Order) -> list[dict[str, Any]]:
    """Of each folder, those of --data first."""
    views: dict[str, list[str]] = {}
    for place in places(order):
        views.setdefault(place.path, []).append(place.view)
    return [_described(path, of_path) for path, of_path in views.items()]


def _described(path: str, views: list[str]) -> dict[str, Any]:
    folder = _folder(Place(path, views[0]))
    crops = folder.crops("record", "patient")
    counts = {name: len(crops[name].drop_null().unique()) for name in ("record", "patient")}
    sha256, used = folder.fingerprint, sorted(set(views))
    return {"path": path, "sha256": sha256, "records": counts["record"], "patients": counts["patient"], "views": used}


def hold_out(order: Order) -> None:
    """A folder keeps its tests out of its own training; of another folder's, nobody has."""
    tested = pc.unique(pa.concat_arrays(list(_segments(order, "test"))))
    for place in places(order):
        if place.path not in order.data and place.view.endswith(("train", "pretrain")):
            trained, _ = _folder(place).contents()
            shared = pc.sum(pc.is_in(trained, tested)).as_py()
            if shared:
                raise ValueError(f"{place.path} trains on {shared} segments that are tests of --data")


def _segments(order: Order, split: str) -> Iterator[pa.Array]:
    """Contents of what --data holds out for tests."""
    for path in order.data:
        crops = _folder(Place(path, places(order)[0].view)).crops("split", "content")
        held_out = pc.ends_with(crops["split"], split)
        yield pc.list_flatten(crops["content"].filter(held_out).combine_chunks())


def _folder(place: Place) -> Folder:
    return open_dataset([place.path], place.view).folders[0]
