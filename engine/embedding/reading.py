"""Recordings as segments, in order and a little ahead of whoever uses them. Imports no torch: workers are many."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from data_tools import crops, pool, records
from data_tools.crops import LEADS, SEGMENT
from data_tools.crops import Segments as Segments
from data_tools.physical import no_usable_lead
from engine.embedding.sources import Source

_AHEAD = 4  # recordings, for each worker
_WORTH_A_WORKER = 200  # recordings, in which it makes up for its start


class Read(NamedTuple):
    name: str
    rate: float = 0.0  # Hz, as recorded
    segments: Segments | None = None  # at least one, or `refused` says why there is none
    hinted: tuple[str, ...] = ()  # what the file did not say, and a flag or a sidecar did
    refused: str | None = None


def read(source: Source, leads: int) -> Read:
    """`leads`: bit i is set where the encoder may see lead i; the others are zeros."""
    if source.refused is not None:
        return Read(source.name, refused=source.refused)
    try:
        found = records.read(source.root, source.path, source.wrong_gain, resampled=True, told=source.told)
    except ValueError as error:
        return Read(source.name, refused=str(error))
    seen = found.leads & leads
    segments = crops.segments(found.signal, seen)
    reason = None
    if not seen:
        wanted = [lead for i, lead in enumerate(LEADS) if leads >> i & 1]
        reason = f"has none of the leads {', '.join(wanted)}" if len(wanted) > 1 else f"has no lead {wanted[0]}"
    elif len(found.signal) < SEGMENT:
        reason = "shorter than 5 s"
    elif not segments.start:
        reason = no_usable_lead(found.beyond)
    return Read(source.name, found.rate, None if reason else segments, found.hinted, reason)


def reading(sources: Sequence[Source], leads: int, workers: int) -> Iterator[Read]:
    """One after the other, in order; never more than a few in memory, however many there are."""
    useful = min(workers, 1 + len(sources) // _WORTH_A_WORKER)
    size = _AHEAD * useful
    with pool.opened(useful, None, (__name__,)) as run, ThreadPoolExecutor(1) as ahead:

        def window(first: int) -> list[Read]:
            results = run(partial(read, leads=leads), sources[first : first + size])
            return [found for _, found in sorted(results, key=lambda result: result[0])]

        coming = ahead.submit(window, 0)
        for first in range(0, len(sources), size):
            ready, coming = coming.result(), ahead.submit(window, first + size)
            yield from ready
