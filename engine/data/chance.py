"""Every random parameter of a sample: its augmentation and its time mask. Pure functions of (seed, position, view).

`position` is [n]; what is drawn is [n, views, ...]. Amplitudes are in mV, frequencies in Hz, times in samples.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from engine.data.philox import Purpose, normal, uniform
from engine.methods import SPAN, SPANS

LEADS = ("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6")
SEGMENT = 2500  # samples
RATE = 500  # Hz
SLOTS = SPANS * SPAN
_BANK = 1 << 22
_BANK_STEP = 16  # floats between the places where a slice may begin

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Augmentation:
    """What is done to a segment. 0 switches a noise off; else it is the largest amplitude, in mV."""

    mask_leads: float = 0.0  # RLM: the chance of each lead to be masked
    powerline: float = 0.0
    emg: float = 0.0
    wander: float = 0.0
    shift: float = 0.0
    vectorcardiogram: bool = False  # 3KG's rotation, scaling and lead-wise time masks
    recipe: str = "paper"

    def __post_init__(self) -> None:
        if self.vectorcardiogram and (self.mask_leads or self.noisy()):
            raise ValueError("3KG's views take no other augmentation")

    def noisy(self) -> bool:
        return any((self.powerline, self.emg, self.wander, self.shift))


class Chance:
    """The draws of the samples at `position`."""

    def __init__(self, seed: int, position: NDArray[np.int64], views: int) -> None:
        self._seed = seed
        self._position = position[:, None]
        self._views = np.arange(views)

    def _uniform(self, purpose: Purpose, count: int) -> Floats:
        return uniform(self._seed, purpose, self._position, self._views, count)  # [n, views, count]

    def kept_leads(self, mask_leads: float) -> NDArray[np.bool_]:
        """RLM: each lead on its own, independent over segments; all of them may go. -> [n, views, 12]"""
        return self._uniform(Purpose.LEADS, len(LEADS)) >= mask_leads

    def powerline(self, largest: float, recipe: str) -> tuple[Floats, Floats, Floats]:
        """-> amplitude, frequency, phase: [n, views], the same for all leads."""
        amplitude, phase, line = np.moveaxis(self._uniform(Purpose.POWERLINE, 3), -1, 0)
        frequency = np.where((line < 0.5) | (recipe == "paper"), 50.0, 60.0)
        return amplitude * largest, frequency, phase * 2 * np.pi

    def emg(self, largest: float) -> tuple[Floats, NDArray[np.int64]]:
        """-> amplitude of each lead [n, views, 12], and where in the Gaussian bank the white noise begins [n]"""
        amplitude = self._uniform(Purpose.EMG, len(LEADS) + 1)
        room = (_BANK - len(self._views) * SEGMENT * len(LEADS)) // _BANK_STEP
        return amplitude[..., : len(LEADS)] * largest, (amplitude[:, 0, -1] * room).astype(np.int64) * _BANK_STEP

    def wander(self, largest: float, recipe: str) -> tuple[Floats, Floats, Floats, Floats]:
        """-> amplitude, frequency, phase of three waves [n, views, 3], and the factor of each lead [n, views, 12]."""
        waves = self._uniform(Purpose.WANDER, 9).reshape(*self._shape(), 3, 3)
        frequency = 0.01 + (0.2 - 0.01) * waves[..., 1, :]
        if recipe == "paper":  # one step of frequency, and its multiples
            frequency = frequency[..., :1] * np.arange(1, 4)
        # The words behind the nine above.
        lots = normal(self._seed, Purpose.WANDER, self._position, self._views, 12 + len(LEADS))[..., 12:]
        return waves[..., 0, :] * largest, frequency, waves[..., 2, :] * 2 * np.pi, 1 + 0.5 * lots

    def shift(self, largest: float, recipe: str) -> tuple[Floats, Floats, Floats]:
        """-> level of each lead [n, views, 12], and the first sample of the span and of what follows it [n, views]."""
        lots = self._uniform(Purpose.SHIFT, len(LEADS) + 1)
        level = (2 * lots[..., : len(LEADS)] - 1) * largest
        if recipe == "reference":  # +-1 mV minus U(0, largest), as it is coded there
            sign, size = np.divmod(2 * lots[..., : len(LEADS)], 1)
            level = 2 * sign - 1 - size * largest
        of_length = normal(self._seed, Purpose.SHIFT, self._position, self._views, 17)[..., 16]
        length = np.rint(np.clip((0.2 + 0.04 * of_length) * SEGMENT, 0, SEGMENT))
        start = np.floor(lots[..., -1] * (SEGMENT - length + 1))
        return level, start, start + length

    def vectorcardiogram(self) -> tuple[Floats, NDArray[np.int64]]:
        """3KG: -> the linear map of the twelve leads [n, views, 12, 12], and the sample at which the zeros of each
        lead begin [n, views, 12]."""
        lots = self._uniform(Purpose.VECTORCARDIOGRAM, 6 + len(LEADS))
        angles = (lots[..., :3] - 0.5) * 90
        turn = Rotation.from_euler("zyx", angles.reshape(-1, 3), degrees=True).as_matrix().reshape(*self._shape(), 3, 3)
        scale = 1 + 0.5 * lots[..., 3:6, None]  # the rows of a diagonal matrix times what follows
        start = (lots[..., 6:] * SEGMENT).astype(np.int64)
        return _FROM_VCG @ (scale * turn) @ _TO_VCG, start

    def time_mask_starts(self, tokens: int, recipe: str) -> NDArray[np.int64]:
        """Where the spans of the time mask begin, without replacement, ascending. -> [n, views, SPANS]"""
        places = tokens - SPAN + (recipe == "paper")
        lots = self._uniform(Purpose.TIME_MASK, SPANS)
        starts = np.full((*self._shape(), SPANS), tokens, np.int64)
        for drawn in range(SPANS):  # the k-th of the places that are still free
            free = np.floor(lots[..., drawn] * (places - drawn)).astype(np.int64)
            for taken in range(drawn):  # ascending
                free += free >= starts[..., taken]
            starts[..., drawn] = free
            starts[..., : drawn + 1].sort(-1)
        return starts

    def time_mask_lots(self) -> Floats:
        """By which recipe `reference` thins the masked tokens. -> [n, views, SLOTS]"""
        return self._uniform(Purpose.TIME_MASK_THINNING, SLOTS)

    def _shape(self) -> tuple[int, int]:
        return len(self._position), len(self._views)


@lru_cache(1)
def gaussian_bank() -> NDArray[np.float32]:
    """White noise enough for a segment at any of 260,000 places: a draw from it is a copy, or not even that."""
    return normal(0, Purpose.GAUSSIAN_BANK, np.arange(_BANK // 256), 0, 256).astype(np.float32).reshape(-1)


# Inverse Dower, as in the reference: rows X, Y, Z of the columns I, II, V1..V6.
_DOWER = np.array(
    [
        [0.156, -0.009, -0.172, -0.073, 0.122, 0.231, 0.239, 0.193],
        [-0.227, 0.886, 0.057, -0.019, -0.106, -0.022, 0.040, 0.048],
        [0.021, 0.102, -0.228, -0.310, -0.245, -0.063, 0.054, 0.108],
    ]
)
# III, aVR, aVL, aVF from I and II.
LIMB_LEADS = np.array([[-1.0, 1.0], [-0.5, -0.5], [1.0, -0.5], [-0.5, 1.0]])
_INDEPENDENT = [0, 1, 6, 7, 8, 9, 10, 11]
_TO_VCG = np.zeros((3, 12))
_TO_VCG[:, _INDEPENDENT] = _DOWER
_FROM_VCG = np.zeros((12, 3))
_FROM_VCG[_INDEPENDENT] = np.linalg.pinv(_DOWER)
_FROM_VCG[2:6] = LIMB_LEADS @ _FROM_VCG[:2]
