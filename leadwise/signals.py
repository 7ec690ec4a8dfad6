"""From arrays as people have them to what an encoder takes."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from data_tools import crops
from data_tools.crops import LEADS, RATE, SEGMENT
from data_tools.physical import LEAD, beyond_16_bits, check_rate, to_int16
from data_tools.records import twelve


def place(signal: Tensor, leads: Sequence[str]) -> Tensor:
    """[..., samples, leads], its columns named -> [..., samples, 12] in the encoder's order; absent leads are zeros."""
    columns = _columns(leads, signal.shape[-1] if signal.ndim > 1 else 0)
    placed = signal.new_zeros((*signal.shape[:-1], len(LEADS)))
    placed[..., columns] = signal
    return placed


def segments(signal: ArrayLike, leads: Sequence[str] = LEADS, rate: float = RATE) -> Tensor:
    """A recording [samples, leads] in mV at `rate` Hz -> [segments, 2500, 12] in mV at 500 Hz.

    As datasets and `python -m engine.embed` cut it: from its first sample into segments of 5 s, whatever is left over
    behind the last is dropped. A lead that is flat in a segment or holds NaN in it is zeros there; a segment without
    any usable lead is left out. ValueError where nothing is left.
    """
    array = np.asarray(signal, np.float64)
    columns = _columns(leads, array.shape[1] if array.ndim == 2 else 0)
    check_rate(rate, resampled=True)
    microvolts = array * 1e3
    recording = twelve(to_int16(microvolts), columns, rate)
    if len(recording) < SEGMENT:
        raise ValueError(f"{len(recording) / RATE:g} s at {rate:g} Hz are shorter than a segment of 5 s")
    found = crops.segments(recording, sum(1 << column for column in columns))
    if not found.start:
        beyond = beyond_16_bits(microvolts)
        why = "values go beyond +-32.767 mV; is it in uV?" if beyond else "flat, or values that are no numbers"
        raise ValueError(f"no segment has a usable lead: {why}")
    return torch.from_numpy(found.signal).float() / 1e3


def _columns(leads: Sequence[str], found: int) -> tuple[int, ...]:
    """Which of the twelve each column is."""
    strange = [lead for lead in leads if lead.upper() not in LEAD]
    if strange or not leads or len({lead.upper() for lead in leads}) < len(leads):
        raise ValueError(f"leads are some of {', '.join(LEADS)}, each at most once; found {', '.join(leads) or 'none'}")
    if found != len(leads):
        raise ValueError(f"signal should be [samples, {len(leads)}], a column for each of the leads {', '.join(leads)}")
    return tuple(LEAD[lead.upper()] for lead in leads)
