"""The views of a dataset: which stretch of which file is a sample of which task. Pure.

A view's rows are columns of equal length, in the order of storage:
    file        which data file (its place in dataset.json), int32
    offset      the byte of it at which the samples begin, int64
    samples     5000: a pair of segments; 2500: one segment, int32
    lead_mask   [rows, 2], of each segment: bit i is set where lead i is usable, uint16
    identity    the patient (the recording where unknown), numbered from 0 within the view, int32
    classes     bit i: class i, uint32
    crop        row of crops.parquet, int32
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from data_tools.crops import CROP, LEADS, SEGMENT
from data_tools.names import SPLITS_OF, VIEWS
from data_tools.splits import draw, draws

IDENTIFICATION_VALID_PART = 0.1  # of the recordings of train
COLUMNS = {
    "file": np.int32,
    "offset": np.int64,
    "samples": np.int32,
    "lead_mask": np.uint16,
    "identity": np.int32,
    "classes": np.uint32,
    "crop": np.int32,
}


@dataclass(frozen=True)
class Stretches:
    """Parts of crops: what a view's rows point to, before it is known where in which file that is."""

    crop: NDArray[np.int64]
    start: NDArray[np.int64]  # sample of the crop
    samples: int
    lead_mask: NDArray[np.uint16]  # [n, 2]

    def take(self, which: NDArray) -> "Stretches":
        return Stretches(self.crop[which], self.start[which], self.samples, self.lead_mask[which])


def open_view(folder: Path) -> dict[str, NDArray]:
    """The columns of a view, mapped: nothing is read before it is looked at."""
    return {path.stem: _mapped(path) for path in sorted(folder.glob("*.npy"))}


def _mapped(path: Path) -> NDArray:
    try:
        column: NDArray = np.load(path, mmap_mode="r")
    except (ValueError, EOFError, SyntaxError, TokenError, OverflowError):  # of numpy, which parses its header
        raise ValueError(f"{path}: is damaged") from None
    return column


def choose(
    crops: pa.Table, pairs: Mapping[str, tuple[str, str]], seed: int, wanted: Sequence[str]
) -> dict[str, Stretches]:
    """The views of the tasks `wanted`; `crops` and `pairs` of decide.Decision."""
    masks = lead_masks(crops)
    whole, single = _pairs_of_segments(masks), _segments(masks)
    views: dict[str, Stretches] = {}
    if "pretrain" in wanted:
        views |= {name: whole.take(_in_splits(crops, whole, name)) for name in VIEWS["pretrain"]}
    if "diagnosis" in wanted:
        of_diagnosis = crops["diagnosis"].to_numpy()
        of_task = single.take(of_diagnosis[single.crop])
        views |= {name: of_task.take(_in_splits(crops, of_task, name)) for name in VIEWS["diagnosis"]}
    if "identification" in wanted:
        views |= _identification(crops, single.take(_in_splits(crops, single, "identification-train")), seed)
        views |= _gallery_and_probe(crops, masks, pairs, seed)
    return views


def _in_splits(crops: pa.Table, stretches: Stretches, view: str) -> NDArray[np.bool_]:
    of: NDArray[np.bool_] = pc.is_in(crops["split"], pa.array(SPLITS_OF[view])).to_numpy()
    return of[stretches.crop]


def lead_masks(crops: pa.Table) -> NDArray[np.uint16]:
    """[crops, 2]; 0 where a crop has no second segment."""
    flat = pc.list_flatten(crops["lead_mask"]).to_numpy()
    owner = pc.list_parent_indices(crops["lead_mask"]).to_numpy()
    first = np.searchsorted(owner, np.arange(len(crops)))
    masks = np.zeros((len(crops), 2), np.uint16)
    masks[owner, np.arange(len(owner)) - first[owner]] = flat
    return masks


def _pairs_of_segments(masks: NDArray[np.uint16]) -> Stretches:
    """Crops with two segments that have a usable lead."""
    crop = np.flatnonzero((masks != 0).all(1))
    return Stretches(crop, np.zeros(len(crop), np.int64), CROP, masks[crop])


def _segments(masks: NDArray[np.uint16]) -> Stretches:
    """Segments with a usable lead."""
    crop, segment = np.nonzero(masks)
    mask = np.stack([masks[crop, segment], np.zeros(len(crop), np.uint16)], 1)
    return Stretches(crop, segment * SEGMENT, SEGMENT, mask)


def subjects(crops: pa.Table) -> tuple[NDArray[np.int64], list[str]]:
    """-> the patient, or recording, of each crop as an index, and their names."""
    encoded = pc.coalesce(crops["patient"], crops["record"]).combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _identification(crops: pa.Table, segments: Stretches, seed: int) -> dict[str, Stretches]:
    subject, names = subjects(crops)
    subject = subject[segments.crop]  # of each segment
    count = np.bincount(subject, minlength=len(names))
    lots = draws(seed, "identification-valid", names)
    # A subject who shares content with another stays where that one is.
    group = np.zeros(len(names), np.int64)
    group[subject] = crops["group"].to_numpy()[segments.crop]
    subjects_of_group = np.bincount(group[np.unique(subject)], minlength=int(group.max(initial=0)) + 1)
    eligible = np.flatnonzero((count >= 2) & (subjects_of_group[group] == 1))
    chosen = eligible[np.argsort(lots[eligible])][: max(1, round(IDENTIFICATION_VALID_PART * int((count > 0).sum())))]
    held_out = np.isin(subject, chosen)
    # Two segments of each, drawn: gallery and probe.
    keys = crops["key"].take(segments.crop[held_out]).to_pylist()
    names = [f"{key}+{start}" for key, start in zip(keys, segments.start[held_out].tolist(), strict=True)]
    order = np.lexsort((draws(seed, "identification-valid", names), subject[held_out]))
    of = subject[held_out][order]
    place = np.arange(len(of)) - np.searchsorted(of, of)  # within its subject
    return {
        "identification-train": segments.take(~held_out),
        "identification-valid": segments.take(np.flatnonzero(held_out)[order[place < 2]]),
    }


def _gallery_and_probe(
    crops: pa.Table, masks: NDArray[np.uint16], pairs: Mapping[str, tuple[str, str]], seed: int
) -> dict[str, Stretches]:
    """One segment of each recording, which begins at any sample of it."""
    crops_of: dict[str, list[int]] = {}
    wanted = {record for pair in pairs.values() for record in pair}
    for index, record in enumerate(crops["record"].to_pylist()):
        if record in wanted:
            crops_of.setdefault(record, []).append(index)
    views = {}
    for place, name in enumerate(("identification-gallery", "identification-probe")):
        crop, start = [], []
        for pair in pairs.values():
            lot = draw(seed, "segment", pair[place])
            chosen = crops_of[pair[place]][lot % len(crops_of[pair[place]])]
            crop.append(chosen)
            start.append(_start(int(masks[chosen, 0]), int(masks[chosen, 1]), lot >> 32))
        mask = np.zeros((len(crop), 2), np.uint16)
        mask[:, 0] = masks[crop, np.array(start, int) // SEGMENT]
        views[name] = Stretches(np.array(crop, np.int64), np.array(start, np.int64), SEGMENT, mask)
    return views


def _start(first: int, second: int, lot: int) -> int:
    """A segment that lies across both of a crop has one lead mask only where theirs are equal."""
    if first == second:
        return lot % (CROP - SEGMENT + 1)
    usable = [start for start, mask in ((0, first), (SEGMENT, second)) if mask]
    return usable[lot % len(usable)]


def identities(subject: NDArray) -> NDArray[np.int32]:
    """Numbered as they appear."""
    _, first, identity = np.unique(subject, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[identity]


def columns(crops: pa.Table, stretches: Stretches) -> dict[str, NDArray]:
    """What a view's folder holds; `crops` by now with the columns file and offset."""

    def of_crop(name: str) -> NDArray:
        values: NDArray = crops[name].to_numpy()[stretches.crop]
        return values

    values = {
        "file": of_crop("file"),
        "offset": of_crop("offset") + stretches.start * (2 * len(LEADS)),
        "samples": np.full(len(stretches.crop), stretches.samples),
        "lead_mask": stretches.lead_mask,
        "identity": identities(subjects(crops)[0][stretches.crop]),
        "classes": of_crop("classes"),
        "crop": stretches.crop,
    }
    return {name: values[name].astype(dtype) for name, dtype in COLUMNS.items()}
