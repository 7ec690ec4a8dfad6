"""Segments through an encoder, in full batches, whosever they are."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.embedding.reading import Read, Segments


class Row(NamedTuple):
    """A row of the output, and what it was made of."""

    recording: str
    rate: float  # Hz, as recorded
    start: list[int]  # of each segment: sample at 500 Hz
    lead_mask: list[int]  # of each segment: bit i is set where the encoder saw lead i
    embedding: NDArray[np.float32]


class _Part(NamedTuple):
    read: Read
    segments: Segments  # some of the recording's
    last: bool  # of it


def means(
    forward: Callable[[Tensor], Tensor], reads: Iterable[Read], batch: int, device: torch.device
) -> Iterator[Row]:
    """A row a recording: the mean of its segments' vectors. `forward`: [segments, 2500, 12] -> [segments, dim]."""
    total: NDArray[np.float64] | float = 0.0
    for part, vectors in _encoded(forward, reads, batch, device):
        total = total + vectors.sum(0, dtype=np.float64)
        if part.last:
            assert part.read.segments is not None
            _, start, lead_mask = part.read.segments
            yield Row(part.read.name, part.read.rate, start, lead_mask, np.asarray(total / len(start), np.float32))
            total = 0.0


def each(forward: Callable[[Tensor], Tensor], reads: Iterable[Read], batch: int, device: torch.device) -> Iterator[Row]:
    """A row a segment. `forward`: [segments, 2500, 12] -> [segments, tokens, dim]."""
    for part, vectors in _encoded(forward, reads, batch, device):
        _, starts, masks = part.segments
        for start, mask, vector in zip(starts, masks, vectors, strict=True):
            yield Row(part.read.name, part.read.rate, [start], [mask], vector)


def _encoded(
    forward: Callable[[Tensor], Tensor], reads: Iterable[Read], batch: int, device: torch.device
) -> Iterator[tuple[_Part, NDArray[np.float32]]]:
    for parts in _batches(reads, batch):
        microvolts = torch.from_numpy(np.concatenate([part.segments.signal for part in parts]))
        with torch.inference_mode():
            found = forward(microvolts.to(device).float() / 1e3).float().cpu().numpy()
        if not np.isfinite(found).all():
            raise ValueError(f"the model gives values that are no numbers, near {parts[0].read.name}")
        yield from zip(
            parts, np.split(found, np.cumsum([len(part.segments.start) for part in parts])[:-1]), strict=True
        )


def _batches(reads: Iterable[Read], size: int) -> Iterator[list[_Part]]:
    parts: list[_Part] = []
    room = size
    for read in reads:
        assert read.segments is not None
        first, end = 0, len(read.segments.start)
        while first < end:
            taken = slice(first, min(first + room, end))
            signal, start, lead_mask = read.segments
            segments = Segments(signal[taken], start[taken], lead_mask[taken])
            parts.append(_Part(read, segments, taken.stop == end))
            room -= taken.stop - first
            first = taken.stop
            if not room:
                yield parts
                parts, room = [], size
    if parts:
        yield parts
