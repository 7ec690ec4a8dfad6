"""Small archives for the tests, written as PhysioNet, and others, would."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_tools.crops import LEADS

MAT_HEAD = bytes(range(24))
DX = "426783006"


def noise(seed: int, samples: int = 5000) -> NDArray[np.int16]:
    """[samples, 12] uV: nobody's heart, but every sample another one."""
    return np.random.default_rng(seed).integers(-2000, 2000, (samples, len(LEADS)), np.int16)


def write(
    folder: Path,
    name: str,
    digital: NDArray[np.int16],
    leads: Sequence[str] = LEADS,
    rate: str = "500",
    gain: str = "1000.0(0)/mV",
    comments: Sequence[str] = ("# Age: 60", "# Sex: Male", f"# Dx: {DX}"),
    head: bytes = MAT_HEAD,
    file: str | None = None,
) -> Path:
    """A header and its signal file (`file`, else `name`.mat) behind `head`; -> the header."""
    folder.mkdir(parents=True, exist_ok=True)
    file = file or f"{name}.mat"
    offset = f"+{len(head)}" if head else ""
    sums = [int(column.astype(np.int64).sum()) % 65536 for column in digital.T]
    lines = [f"{name} {len(leads)} {rate} {len(digital)}"]
    for lead, first, total in zip(leads, digital[0], sums, strict=True):
        signed = total - 65536 if total >= 32768 else total
        lines.append(f"{file} 16{offset} {gain} 16 0 {first} {signed} 0 {lead}")
    header = folder / f"{name}.hea"
    header.write_text("\n".join([*lines, *comments, ""]))
    (folder / file).write_bytes(head + digital.astype("<i2").tobytes())
    return header


def public_archive(root: Path) -> Path:
    """Of four cohorts: 24 of CPSC and Georgia, 20 of Chapman and Ningbo, 20 of ten patients of PTB-XL and 6 of six."""
    training = root / "training"
    for number in range(1, 13):
        write(training / "cpsc_2018" / "g1", f"A{number:04d}", noise(number, 5000 + 2500 * (number % 4)))
        write(training / "georgia" / "g1", f"E{number:05d}", noise(100 + number, 2500 if number == 5 else 5000))
    for number in range(1, 11):
        write(training / "chapman_shaoxing" / "g1", f"JS{number:05d}", noise(200 + number))
        write(training / "ningbo" / "g1", f"JS{10_000 + number:05d}", noise(300 + number))
    for number in range(1, 27):
        write(training / "ptb-xl" / "g1", f"HR{number:05d}", noise(400 + number))
    rows = [f"{number},{(number + 1) // 2 if number <= 20 else number}.0,300,1" for number in range(1, 27)]
    (root / "ptbxl_database.csv").write_text("\n".join(["ecg_id,patient_id,age,sex", *rows, ""]))
    return root
