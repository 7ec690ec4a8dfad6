"""From a recording's signal to 10 s crops of two 5 s segments. Pure."""

from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEADS = ("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6")
RATE = 500  # Hz
SEGMENT = 2500  # samples, 5 s
CROP = 2 * SEGMENT
INVALID = -32768  # an invalid sample, as WFDB marks it in 16 bits
_FOLD = 100  # rows added up side by side: 1,200 numbers in a row vectorise, 12 do not; divides SEGMENT


class Crop(NamedTuple):
    start: int  # sample of the recording
    samples: int  # CROP or SEGMENT
    lead_mask: tuple[int, ...]  # a segment: bit i is set where lead i is usable
    content: tuple[bytes, ...]  # a segment: half of the sha256 of what is stored


def cut(signal: NDArray[np.int16], leads: int) -> list[Crop]:
    """The crops of `signal` [samples, 12] in order; what is left over behind the last is shorter than a segment."""
    segments = len(signal) // SEGMENT
    masks = lead_masks(signal[: segments * SEGMENT], leads)
    crops = []
    for first in range(0, segments, 2):
        mask = tuple(masks[first : first + 2])
        start, samples = first * SEGMENT, len(mask) * SEGMENT
        stored = cleaned(signal[start : start + samples], mask)
        content = tuple(sha256(stored[i : i + SEGMENT].data).digest()[:16] for i in range(0, samples, SEGMENT))
        crops.append(Crop(start, samples, mask, content))
    return crops


class Segments(NamedTuple):
    signal: NDArray[np.int16]  # [segments, SEGMENT, 12], uV, cleaned
    start: list[int]  # of each: sample of the recording
    lead_mask: list[int]  # of each: bit i is set where lead i is usable


def segments(signal: NDArray[np.int16], leads: int) -> Segments:
    """Of `signal` [samples, 12], the segments with a usable lead, as crops hold them."""
    whole = signal[: len(signal) // SEGMENT * SEGMENT]
    masks = lead_masks(whole, leads)
    stored = cleaned(whole, tuple(masks)).reshape(-1, SEGMENT, len(LEADS))
    usable = [index for index, mask in enumerate(masks) if mask]
    return Segments(stored[usable], [index * SEGMENT for index in usable], [masks[index] for index in usable])


def lead_masks(signal: NDArray[np.int16], leads: int) -> list[int]:
    """For each whole segment of `signal`, which of `leads` vary and hold no invalid sample in it."""
    folded = signal.reshape(-1, SEGMENT // _FOLD, _FOLD * len(LEADS))
    low = folded.min(1).reshape(-1, _FOLD, len(LEADS)).min(1)  # [segments, 12]
    high = folded.max(1).reshape(-1, _FOLD, len(LEADS)).max(1)
    usable = (low != high) & (low != INVALID)
    masks: list[int] = (usable @ (1 << np.arange(len(LEADS)))).tolist()
    return [mask & leads for mask in masks]


def cleaned(crop: NDArray[np.int16], lead_mask: tuple[int, ...]) -> NDArray[np.int16]:
    """The crop as it is stored: a lead whose bit is 0 in a segment is zero in it."""
    if all(mask == (1 << len(LEADS)) - 1 for mask in lead_mask):
        return np.ascontiguousarray(crop)
    crop = crop.copy()
    for index, mask in enumerate(lead_mask):
        unusable = [lead for lead in range(len(LEADS)) if not mask >> lead & 1]
        crop[index * SEGMENT : (index + 1) * SEGMENT, unusable] = 0
    return crop


def column_sums(digital: NDArray[np.int16]) -> NDArray[np.uint16]:
    """The sum of each column of [samples, columns] modulo 65536: WFDB's checksum."""
    columns = digital.shape[1]
    whole = len(digital) // _FOLD * _FOLD
    unsigned = digital.view(np.uint16)
    folded = unsigned[:whole].reshape(-1, _FOLD * columns).sum(0, dtype=np.uint16).reshape(_FOLD, columns)
    sums: NDArray[np.uint16] = folded.sum(0, dtype=np.uint16) + unsigned[whole:].sum(0, dtype=np.uint16)
    return sums
