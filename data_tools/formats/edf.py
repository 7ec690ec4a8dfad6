"""EDF, EDF+ and BDF: the channels that are leads; annotations and other channels are left out."""

import os
from typing import BinaryIO

import numpy as np

from data_tools.formats.library import reading
from data_tools.formats.raw import Raw
from data_tools.physical import LEAD, Refusal, check_size, lead_name

_FIXED, _PER_SIGNAL = 256, 256  # bytes of a header


def read(file: BinaryIO, key: str | None) -> Raw:
    _check_header(file)
    with reading("pyedflib"):
        from pyedflib import edfreader

        # By its descriptor: what is read is what was checked.
        with edfreader.EdfReader(
            f"/dev/fd/{file.fileno()}", edfreader.DO_NOT_READ_ANNOTATIONS, edfreader.DO_NOT_CHECK_FILE_SIZE
        ) as opened:
            labels = [lead_name(label) for label in opened.getSignalLabels()]
            channels = [i for i, label in enumerate(labels) if label.upper() in LEAD] or list(range(len(labels)))
            rates = {float(opened.getSampleFrequency(i)) for i in channels}
            if len(rates) != 1:
                raise Refusal("leads are sampled at different rates" if rates else "holds no channels")
            return Raw(
                np.stack([opened.readSignal(i) for i in channels], 1),
                names=tuple(labels[i] for i in channels),
                units=tuple(opened.getPhysicalDimension(i).strip() for i in channels),
                rate=rates.pop(),
                comments={"sex": opened.getSex()},
            )


def _check_header(file: BinaryIO) -> None:
    """Every data record is there, before anything is allocated for them. pyedflib would say so on the screen."""
    size = os.fstat(file.fileno()).st_size
    try:
        head = file.read(_FIXED)
        bits = {b"0": 16, b"\xff": 24}[head[:8].strip()[:1]]
        begin, records, signals = (int(head[a:b]) for a, b in ((184, 192), (236, 244), (252, 256)))
        if records < 0 or signals < 1 or begin != _FIXED + signals * _PER_SIGNAL:
            raise ValueError
        file.seek(_FIXED + signals * 216)
        counts = [int(file.read(8)) for _ in range(signals)]
        if min(counts) < 0:
            raise ValueError
    except (KeyError, ValueError):
        raise Refusal("header is malformed") from None
    if begin + records * sum(counts) * bits // 8 > size:
        raise Refusal("file is shorter than its header says")
    check_size(records * sum(counts) * 8)
    file.seek(0)
