"""Archives of any size to measure on: a few recordings repeated under new names, no two with the same content."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_tools import records
from data_tools.archive import find
from data_tools.crops import CROP, INVALID, LEADS, column_sums
from data_tools.synthetic.layout import mat_head

_FOLDER_SIZE = 1000  # recordings, as on PhysioNet
_DX = ("426783006", "164889003", "426177001,59118001", "270492004", "284470004,164934002")


def make(root: Path, count: int, source: Path | None) -> None:
    """`count` recordings of 10 s in challenge-2021's layout and 1.0.3's header style, as cohort chapman_shaoxing."""
    pool = _drawn() if source is None else _read(source)
    for number in range(1, count + 1):
        folder = root / "training" / "chapman_shaoxing" / f"g{(number - 1) // _FOLDER_SIZE + 1}"
        folder.mkdir(parents=True, exist_ok=True)
        signal = pool[number % len(pool)].copy()
        signal[number % CROP] += np.int16(number // CROP + 1)  # one sample of each lead makes it another recording
        _write(folder, f"JS{number:05d}", signal)


def _read(source: Path) -> list[NDArray[np.int16]]:
    """The whole 10 s recordings of an archive."""
    found = []
    for header in find(source, ()).recordings:
        try:
            signal = records.read(str(source), header).signal
        except ValueError:
            continue  # other rates, defects
        if signal.shape == (CROP, len(LEADS)) and signal.min() > INVALID:
            found.append(signal)
    if not found:
        raise ValueError(f"{source}: no recording of 10 s at 500 Hz")
    return found


def _drawn() -> list[NDArray[np.int16]]:
    """Random walks: the amplitudes of an ECG, nothing of its shape. Enough where only bytes are moved."""
    steps = np.random.default_rng(0).normal(0, 20, (64, CROP, len(LEADS)))
    return list(np.cumsum(steps, 1).clip(-5000, 5000).astype(np.int16))


def _write(folder: Path, name: str, signal: NDArray[np.int16]) -> None:
    sums = column_sums(signal).astype(np.int16)
    lines = [
        f"{name}.mat 16x1+24 1000.0(0)/mV 16 0 {first} {checksum} 0 {lead}"
        for lead, first, checksum in zip(LEADS, signal[0], sums, strict=True)
    ]
    dx = _DX[int(sums[0]) % len(_DX)]
    comments = ["# Age: 60", "# Sex: Male", f"# Dx: {dx}", "# Rx: Unknown", "# Hx: Unknown", "# Sx: Unknown"]
    (folder / f"{name}.hea").write_text("\n".join([f"{name} 12 500 {CROP}", *lines, *comments, ""]))
    (folder / f"{name}.mat").write_bytes(mat_head(CROP) + signal.tobytes())
