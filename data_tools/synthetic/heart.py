"""A beating heart as a moving dipole, seen by twelve leads. Pure.

The dipole's path (the vectorcardiogram) is a sum of Gaussian waves, each a vector that grows and fades, as in the
dipole model of Sameni et al. (EURASIP J. Adv. Signal Process. 2007); Dower's matrix (Dower, Machado and Osborne, Clin.
Cardiol. 1980) projects it to I, II and V1..V6. The other leads follow from I and II, as Einthoven and Goldberger
define them, so that III = II - I holds to a rounding.

Axes: x to the patient's left, y to the feet, z to the back; millivolts. Times in seconds.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

RATE = 500  # Hz
# Leads I, II, V1..V6 from x, y, z.
DOWER = np.array(
    [
        [0.632, -0.235, 0.059],
        [0.235, 1.066, -0.132],
        [-0.515, 0.157, -0.917],
        [0.044, 0.164, -1.387],
        [0.882, 0.098, -1.277],
        [1.213, 0.127, -0.601],
        [1.125, 0.127, -0.086],
        [0.831, 0.076, 0.230],
    ]
)
_REACH = 4.0  # widths on either side at which a wave is cut off


@dataclass(frozen=True)
class Waves:
    """Gaussian waves of one beat: when after its reference, how wide (standard deviation), and which vector."""

    time: NDArray[np.float64]  # [waves] s
    width: NDArray[np.float64]  # [waves] s
    vector: NDArray[np.float64]  # [waves, 3] mV

    @classmethod
    def of(cls, *rows: tuple[float, float, float, float, float]) -> "Waves":
        """Rows of (ms, ms, x, y, z)."""
        table = np.array(rows, float).reshape(-1, 5)
        return cls(table[:, 0] / 1e3, table[:, 1] / 1e3, table[:, 2:].copy())

    def __add__(self, other: "Waves") -> "Waves":
        return Waves(
            np.concatenate([self.time, other.time]),
            np.concatenate([self.width, other.width]),
            np.concatenate([self.vector, other.vector]),
        )

    def stretched(self, factor: float) -> "Waves":
        """Slower or faster, of the same area."""
        return Waves(self.time * factor, self.width * factor, self.vector / np.sqrt(factor))

    def scaled(self, factor: float | NDArray[np.float64]) -> "Waves":
        return replace(self, vector=self.vector * factor)

    def rotated(self, rotation: NDArray[np.float64]) -> "Waves":
        return replace(self, vector=self.vector @ rotation.T)

    def varied(self, chance: np.random.Generator, amount: float) -> "Waves":
        """Another heart's: each wave a little earlier or later, wider or narrower, stronger or weaker, elsewhere."""
        count = len(self.time)
        size = np.linalg.norm(self.vector, axis=1, keepdims=True)
        return Waves(
            self.time + chance.normal(0, 0.6 * amount, count) * self.width,
            self.width * np.exp(chance.normal(0, 0.5 * amount, count)),
            self.vector * np.exp(chance.normal(0, amount, (count, 1))) + chance.normal(0, amount, (count, 3)) * size,
        )


# Around the R peak. Septum (to the right and front), apex, free wall, base; I about 0.7, II 1.2, V4 1.6 mV.
QRS = Waves.of(
    (-26, 7, -0.17, -0.05, -0.24), (-8, 9, 0.5, 0.5, -0.25), (6, 9, 0.75, 0.46, 0.42), (24, 8, -0.18, -0.17, 0.38)
)
# Around the P wave's middle: right atrium, then left.
P = Waves.of((-15, 15, 0.03, 0.07, -0.05), (17, 17, 0.07, 0.06, 0.05))
# Around the T wave's peak, of a QT of 0.4 s: it rises slowly and falls fast.
T = Waves.of((-28, 42, 0.15, 0.13, -0.08), (10, 27, 0.2, 0.15, -0.04))
# Conduction that goes another way (Surawicz et al., AHA/ACCF/HRS recommendations part III, Circulation 2009).
LBBB = Waves.of(
    (-38, 12, 0.3, 0.15, 0.1), (-6, 17, 0.62, 0.3, 0.45), (32, 17, 0.7, 0.2, 0.45), (62, 12, 0.25, 0.05, 0.22)
)
RIGHT_DELAY = Waves.of((67, 16, -0.3, -0.12, -0.62))  # the late R' of V1 and wide S of I and V6
LEFT_ANTERIOR = Waves.of((-22, 7, -0.13, 0.26, -0.15), (4, 11, 0.65, -0.45, 0.15), (22, 10, 0.35, -0.6, 0.3))
PVC = Waves.of((-30, 16, -0.5, 0.4, -0.4), (10, 22, -0.3, 1.1, -0.5), (55, 22, 0.2, 0.7, 0.5))
PACED = Waves.of(
    (-34, 12, 0.2, -0.2, 0.1), (0, 18, 0.5, -0.7, 0.45), (38, 18, 0.55, -0.8, 0.5), (68, 12, 0.2, -0.2, 0.2)
)
SPIKE = Waves.of((-58, 0.9, 0.6, -1.4, 0.4))  # of a pacemaker, 2 ms


def rotation(frontal: float, horizontal: float = 0.0) -> NDArray[np.float64]:
    """Degrees: clockwise in the frontal plane as cardiologists count it, then from front to back."""
    a, b = np.radians((frontal, horizontal))
    in_frontal = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    in_horizontal = np.array([[np.cos(b), 0, -np.sin(b)], [0, 1, 0], [np.sin(b), 0, np.cos(b)]])
    turned: NDArray[np.float64] = in_horizontal @ in_frontal
    return turned


def frontal_axis(waves: Waves) -> float:
    """Degrees of the mean vector, as leads I and aVF show it."""
    area = (waves.vector * waves.width[:, None]).sum(0)
    i, ii = DOWER[0] @ area, DOWER[1] @ area
    return float(np.degrees(np.arctan2((2 * ii - i) / np.sqrt(3), i)))


def add(dipole: NDArray[np.float64], waves: Waves, times: NDArray[np.float64], stretch: NDArray[np.float64]) -> None:
    """Adds `waves` at each of `times` to `dipole` [samples, 3]; `stretch` [beats] is the T wave's with the rate."""
    if not len(times) or not len(waves.time):
        return
    centre = times[:, None] + waves.time * stretch[:, None]  # [beats, waves]
    width = waves.width * stretch[:, None]
    reach = int(np.ceil(_REACH * width.max() * RATE))
    index = np.rint(centre * RATE).astype(np.int64)[..., None] + np.arange(-reach, reach + 1)  # [beats, waves, n]
    height = np.exp(-0.5 * ((index / RATE - centre[..., None]) / width[..., None]) ** 2)
    inside = (index >= 0) & (index < len(dipole))
    where = index[inside]
    for axis in range(3):
        weight = height * waves.vector[:, axis][:, None]
        dipole[:, axis] += np.bincount(where, weight[inside], len(dipole))


def electrodes(chance: np.random.Generator) -> NDArray[np.float64]:
    """Dower's matrix as one recording has it: chest electrodes a little beside their places, limbs a little turned."""
    matrix = DOWER @ rotation(chance.normal(0, 5), chance.normal(0, 6))
    chest = matrix[2:]
    place = np.clip(np.arange(6) + chance.normal(0, 0.2, 6), 0, 5)
    low = np.minimum(place.astype(int), 4)
    part = (place - low)[:, None]
    matrix[2:] = (1 - part) * chest[low] + part * chest[low + 1]
    matrix *= np.exp(chance.normal(0, 0.08, (8, 1)))
    return matrix


def twelve_leads(eight: NDArray[np.float64]) -> NDArray[np.int16]:
    """I, II, V1..V6 in mV [samples, 8] -> all twelve in uV."""
    measured = np.clip(np.rint(eight * 1000), -16_000, 16_000).astype(np.int32)
    i, ii = measured[:, 0], measured[:, 1]
    augmented = [ii - i, -(i + ii) // 2, i - ii // 2, ii - i // 2]
    return np.stack([i, ii, *augmented, *measured[:, 2:].T], 1).astype(np.int16)


def projected(waves: Waves, leads: NDArray[np.float64]) -> NDArray[np.float64]:
    """One QRS complex, mV, as the rows of `leads` see it [leads, time]."""
    time = np.arange(-0.12, 0.14, 0.002)
    height = np.exp(-0.5 * ((time - waves.time[:, None]) / waves.width[:, None]) ** 2)
    seen: NDArray[np.float64] = leads @ (waves.vector.T @ height)
    return seen


def duration(waves: Waves) -> float:
    """s, of a QRS complex: as long as the dipole's speed is above a tenth of its highest."""
    time = np.arange(-0.15, 0.2, 0.001)
    height = np.exp(-0.5 * ((time - waves.time[:, None]) / waves.width[:, None]) ** 2)
    speed = np.linalg.norm(np.gradient(height.T @ waves.vector, axis=0), axis=1)
    return float(np.ptp(time[speed > 0.1 * speed.max()]))


def peak_to_peak(waves: Waves) -> float:
    """mV, of the largest limb lead."""
    i, ii = projected(waves, DOWER[:2])
    return float(max(np.ptp(lead) for lead in (i, ii, ii - i, (i + ii) / 2, i - ii / 2, ii - i / 2)))
