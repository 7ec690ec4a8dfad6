"""A view of one or several dataset folders as numbered samples, which are mapped, never loaded.

The samples are numbered as they are stored, folder after folder and file after file.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.data import description
from engine.data.cache import CacheFolder, RemoteFolder
from engine.data.chance import LEADS, SEGMENT
from engine.data.storage import REMEDY, LocalFolder, Storage, mapped

TRAINING_VIEWS = ("pretrain", "diagnosis-train", "identification-train")
_FRAME = 2 * len(LEADS)  # bytes of one sample of all leads
_COLUMNS = ("file", "offset", "samples", "lead_mask", "identity", "classes", "crop")


@dataclass(frozen=True)
class Rows:
    """What is known of the samples of a batch."""

    file: NDArray[np.int64]  # [n], of the dataset
    offset: NDArray[np.int64]  # [n], byte of the file
    present: NDArray[np.bool_]  # [n, segments, 12], the leads that are there
    identity: NDArray[np.int64]  # [n], different over folders
    classes: NDArray[np.uint32]  # [n], bit i: class i


class Folder:
    """The rows of one view of one dataset folder."""

    def __init__(self, storage: Storage, view: str, verify: bool) -> None:
        self.storage = storage
        text = storage.description()
        self.fingerprint = hashlib.sha256(text).hexdigest()
        self._description = description.understood(text, storage.where)
        self.classes: list[str] = self._description["classes"]
        self.files = [description.file(entry, storage.where) for entry in self._description["files"]]
        self._tables = {
            table.name: table
            for table in (description.file(entry, storage.where) for entry in self._description["tables"])
        }
        self._view = view
        self.views: list[str] = sorted(self._description["views"])
        if view not in self.views:
            there = ", ".join(self.views)
            raise ValueError(f"{storage.where} has no view {view!r}; it has {there} (data_tools.shard --views)")
        storage.check([*self.files, *self._tables.values()], verify)
        self._columns = {name: self._column(view, name) for name in _COLUMNS}
        self._rows: NDArray[np.intp] | None = None  # those that are used, in the order of the files; none: all
        file = self._columns["file"]
        if (file[1:] < file[:-1]).any():
            self._rows = np.argsort(file, kind="stable")
        if not len(self):
            raise ValueError(f"{storage.where}: the view {view!r} is empty")
        self.samples = int(self._columns["samples"][0])
        assert (self._columns["samples"] == self.samples).all()
        self.identities = int(self._columns["identity"].max()) + 1

    def __len__(self) -> int:
        return len(self._columns["file"]) if self._rows is None else len(self._rows)

    def column(self, name: str, rows: NDArray[np.int64]) -> NDArray:
        return self._columns[name][rows if self._rows is None else self._rows[rows]]

    def counts(self) -> NDArray[np.int64]:
        """Rows of each file."""
        file = self._columns["file"] if self._rows is None else self._columns["file"][self._rows]
        return np.diff(np.searchsorted(file, np.arange(len(self.files) + 1)))

    def crops(self, *columns: str) -> pa.Table:
        with self._table("crops.parquet") as path:
            return pq.read_table(path, columns=list(columns))

    def keys(self, rows: NDArray[np.int64]) -> list[str]:
        keys: list[str] = self.crops("key")["key"].take(self.column("crop", rows)).to_pylist()
        return keys

    def origins(self, rows: NDArray[np.int64]) -> tuple[list[str], list[str]]:
        """Recording, and patient or else the recording."""
        crops = self.crops("record", "patient").take(self.column("crop", rows))
        return crops["record"].to_pylist(), pc.coalesce(crops["patient"], crops["record"]).to_pylist()

    def contents(self) -> tuple[pa.Array, pa.Array]:
        """Of the segments of what this view is taken from, and of what is held out from it."""
        crops = self.crops("split", "content")
        used = pc.unique(crops["split"].take(np.unique(self._columns["crop"])))
        training = pc.is_in(crops["split"], used).to_numpy()
        if (
            self._view == "identification-train" and "identification-valid" in self.views
        ):  # its validation lies in the same split
            training[np.unique(self._column("identification-valid", "crop"))] = False
        content = crops["content"].combine_chunks()
        return tuple(pc.unique(pc.list_flatten(content.filter(pa.array(mask)))) for mask in (training, ~training))

    def leave_out(self, held_out: pa.Array, twins: pa.Array) -> None:
        """Rows of records and patients of whom a segment is held out, and of crops in which a twin stands."""
        crops = self.crops("record", "patient", "content")
        content = crops["content"].combine_chunks()
        crop_of, segments = pc.list_parent_indices(content).to_numpy(), pc.list_flatten(content)
        found = pc.is_in(segments, held_out).to_numpy(zero_copy_only=False)
        out = np.zeros(len(crops), bool)
        out[crop_of[pc.is_in(segments, twins).to_numpy(zero_copy_only=False)]] = True
        for subject in (crops["record"], crops["patient"]):
            theirs = pc.drop_null(pc.unique(subject.take(pa.array(np.unique(crop_of[found])))))
            out |= pc.is_in(subject, theirs).to_numpy()
        if out.any():
            rows = np.arange(len(self._columns["crop"])) if self._rows is None else self._rows
            self._rows = rows[~out[self._columns["crop"][rows]]]

    def _column(self, view: str, name: str) -> NDArray:
        with self._table(f"views/{view}/{name}.npy") as path:
            column: NDArray = np.load(path, mmap_mode="r", allow_pickle=False)
            return column

    def _table(self, name: str) -> AbstractContextManager[Path]:
        if name not in self._tables:
            raise ValueError(f"{self.storage.where}/dataset.json lists no {name}; {REMEDY}")
        return self.storage.local(self._tables[name])


class Dataset:
    """`pairs`: a sample is a crop with its two segments; else it is one segment. `maps`: files mapped at a time."""

    def __init__(self, folders: Sequence[Folder], pairs: bool, maps: int) -> None:
        self.folders = folders
        self.segments = 2 if pairs else 1
        for folder in folders:
            if pairs and folder.samples != 2 * SEGMENT:
                raise ValueError(f"{folder.storage.where}: pairs are asked of a view of single segments")
            if folder.classes != folders[0].classes:
                raise ValueError(f"{folder.storage.where} has other classes than {folders[0].storage.where}")
        self._samples_of_row = [folder.samples // (self.segments * SEGMENT) for folder in folders]
        sizes = [len(folder) * each for folder, each in zip(folders, self._samples_of_row, strict=True)]
        self._ends = np.cumsum(sizes)
        self._first_file = np.cumsum([0, *(len(folder.files) for folder in folders)])
        self._first_identity = np.cumsum([0, *(folder.identities for folder in folders)])
        self.counts = np.concatenate(
            [folder.counts() * each for folder, each in zip(folders, self._samples_of_row, strict=True)]
        )
        self._maps: OrderedDict[int, NDArray[np.uint8]] = OrderedDict()
        self._most_maps = maps

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def identities(self) -> int:
        return int(self._first_identity[-1])

    @property
    def classes(self) -> list[str]:
        return self.folders[0].classes

    def labels(self) -> NDArray[np.bool_]:
        """[samples, classes]"""
        classes = self.rows(np.arange(len(self))).classes
        return (classes[:, None] >> np.arange(len(self.classes), dtype=np.uint32) & 1).astype(bool)

    def origins(self) -> tuple[NDArray, NDArray]:
        """[samples] and [samples]: the names of the recording, and of the patient where known."""
        named = [
            (number, here, folder.origins(row)) for number, folder, here, row, _ in self._parts(np.arange(len(self)))
        ]
        records, people = np.empty((2, len(self)), object)
        for number, here, names in named:
            records[here], people[here] = ([f"{number}/{name}" for name in of] for of in names)
        return records.astype(str), people.astype(str)

    def of_files(self, of_folders: Sequence[float]) -> NDArray[np.float64]:
        """A value of each folder, for each of its files."""
        return np.repeat(np.asarray(of_folders, np.float64), np.diff(self._first_file))

    @property
    def fingerprints(self) -> list[str]:
        """Of the contents, wherever the folders lie."""
        return [folder.fingerprint for folder in self.folders]

    def rows(self, samples: NDArray[np.int64]) -> Rows:
        n = len(samples)
        rows = Rows(
            np.empty(n, np.int64),
            np.empty(n, np.int64),
            np.empty((n, self.segments, len(LEADS)), bool),
            np.empty(n, np.int64),
            np.empty(n, np.uint32),
        )
        for number, folder, here, row, half in self._parts(samples):
            rows.file[here] = folder.column("file", row) + self._first_file[number]
            rows.offset[here] = folder.column("offset", row) + half * (SEGMENT * _FRAME)
            mask = folder.column("lead_mask", row)
            mask = mask if self.segments == 2 else np.take_along_axis(mask, half[:, None], 1)
            rows.present[here] = mask[..., None] >> np.arange(len(LEADS)) & 1
            rows.identity[here] = folder.column("identity", row) + self._first_identity[number]
            rows.classes[here] = folder.column("classes", row)
        return rows

    def signals(self, rows: Rows) -> list[NDArray[np.int16]]:
        """Of each row [segments, SEGMENT, 12] in uV: parts of the mapped files themselves, nothing is copied."""
        shape = (self.segments, SEGMENT, len(LEADS))
        count = self.segments * SEGMENT * len(LEADS)
        return [
            np.frombuffer(self._map(file), "<i2", count, offset).reshape(shape)
            for file, offset in zip(rows.file.tolist(), rows.offset.tolist(), strict=True)
        ]

    def keys(self, samples: NDArray[np.int64]) -> list[str]:
        """What crops.parquet calls the crops of the samples."""
        keys = np.empty(len(samples), object)
        for _, folder, here, row, _ in self._parts(samples):
            keys[here] = folder.keys(row)
        return list(keys)

    def ahead(self, files: NDArray[np.intp]) -> None:
        folder_of = np.searchsorted(self._first_file, files, side="right") - 1
        for number in np.unique(folder_of).tolist():
            folder = self.folders[number]
            mine = files[folder_of == number] - self._first_file[number]
            folder.storage.ahead([folder.files[file] for file in mine.tolist()])

    def _parts(
        self, samples: NDArray[np.int64]
    ) -> list[tuple[int, Folder, NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]]:
        """By folder: its number, it, which of the samples are its, their rows, and their segments of these."""
        number_of = np.searchsorted(self._ends, samples, side="right")
        parts = []
        for number in np.unique(number_of).tolist():
            here = np.flatnonzero(number_of == number)
            first = int(self._ends[number - 1]) if number else 0
            row, half = np.divmod(samples[here] - first, self._samples_of_row[number])
            parts.append((number, self.folders[number], here, row, half))
        return parts

    def _map(self, file: int) -> NDArray[np.uint8]:
        if file in self._maps:
            self._maps.move_to_end(file)
            return self._maps[file]
        number = int(np.searchsorted(self._first_file, file, side="right")) - 1
        folder = self.folders[number]
        with folder.storage.local(folder.files[file - int(self._first_file[number])]) as path:
            self._maps[file] = mapped(path)
        if len(self._maps) > self._most_maps:
            self._maps.popitem(last=False)
        return self._maps[file]


def open_dataset(
    paths: Sequence[str],
    view: str,
    *,
    pairs: bool = False,
    verify: bool = False,
    window: int = 8,
    cache: Path = Path("~/.cache/leadwise"),
    cache_bytes: int = 64 << 30,
) -> Dataset:
    """`view` of all folders as one. `verify`: contents too, not only sizes. `window`: files an order shuffles at once.
    Addresses with :// are fetched into `cache`."""
    shared = CacheFolder(cache.expanduser(), cache_bytes, verify) if any("://" in path for path in paths) else None
    folders = [Folder(_storage(path, shared), view, verify) for path in paths]
    if len({folder.fingerprint for folder in folders}) < len(folders):
        raise ValueError(f"{', '.join(paths)}: one dataset stands there twice")
    if len(folders) > 1 and view in TRAINING_VIEWS:
        _hold_out_everywhere(folders)
    if shared is not None:
        sizes = sorted((file.bytes for folder in folders for file in folder.files), reverse=True)
        wanted = sum(sizes[: 3 * window])  # the one that is read, the next, and what is left of the one before
        if wanted > cache_bytes:
            held, needed = cache_bytes / 1e9, wanted / 1e9
            raise ValueError(
                f"the cache holds {held:.1f} GB, and three windows of {window} files are {needed:.1f} GB:"
                " allow it more, or shuffle over fewer files (data.cache_gb, data.window)"
            )
    return Dataset(folders, pairs, maps=2 * window)


def _storage(path: str, cache: CacheFolder | None) -> Storage:
    if "://" not in path:
        return LocalFolder(path)
    assert cache is not None
    return RemoteFolder(path.rstrip("/"), cache)


def _hold_out_everywhere(folders: Sequence[Folder]) -> None:
    """What one folder holds out, by content, no other may train on; and what stands in two is taken from the first."""
    contents = [folder.contents() for folder in folders]
    for number, folder in enumerate(folders):
        held_out = [theirs for other, (_, theirs) in enumerate(contents) if other != number]
        twins = [contents[0][0].slice(0, 0), *(training for training, _ in contents[:number])]
        folder.leave_out(pa.concat_arrays(held_out), pa.concat_arrays(twins))
        if not len(folder):
            raise ValueError(f"{folder.storage.where}: all of it is in another of the datasets, or held out there")
