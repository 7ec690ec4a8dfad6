"""A patient's heart, and recordings of it. Pure: the same chance, the same samples."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from data_tools.synthetic import heart
from data_tools.synthetic.classes import Ecg, shown
from data_tools.synthetic.heart import PVC, QRS, RATE, SPIKE, P, T, Waves, add
from data_tools.synthetic.rhythms import ATRIAL, NORMAL, VENTRICULAR, Beats, Rhythm, beats

_ONSET = 0.04  # s from the beginning of a narrow QRS complex to the R peak
_HALF_P = 0.052  # s from the beginning of the P wave to its middle
# Dower's leads are of one thorax; the amplitudes of the challenge's recordings are these times theirs.
_NEAR = np.array([1.15, 1.05, 1.1, 1.5, 1.3, 1.25, 1.2, 1.15])
_T_END = 0.075  # s from the T wave's peak to its end, at a QT of 0.4 s


@dataclass(frozen=True)
class Patient:
    """What stays from one recording to the next."""

    ecg: Ecg
    ectopic: Waves  # a ventricular extrasystole's
    chest: NDArray[np.float64]  # [8] of each lead of heart.DOWER: how near the electrode is to the heart
    noise: float


def patient(chance: np.random.Generator) -> Patient:
    size = np.exp(chance.normal(0, 0.25))
    turn = heart.rotation(chance.normal(-10, 22), chance.normal(0, 14))
    # Humps, notches or slurs of his own.
    own = Waves(chance.uniform(-0.03, 0.04, 3), chance.uniform(0.004, 0.009, 3), chance.normal(0, 0.06, (3, 3)))
    qrs = (QRS.varied(chance, 0.16) + own).rotated(turn).scaled(size).stretched(np.exp(chance.normal(-0.08, 0.08)))
    axis = heart.frontal_axis(qrs)
    if not -20 < axis < 80:  # the axis of who has no deviation
        qrs = qrs.rotated(heart.rotation(float(np.clip(axis, -20, 80)) - axis))
    ecg = Ecg(
        p=P.varied(chance, 0.2).scaled(np.exp(chance.normal(0, 0.25))),
        qrs=qrs,
        t=T.varied(chance, 0.16)
        .rotated(heart.rotation(chance.normal(0, 12), chance.normal(0, 12)))
        .scaled(size * np.exp(chance.normal(0, 0.25))),
        rhythm=Rhythm(
            rate=float(np.clip(chance.normal(73, 11), 55, 105)),
            sway=chance.uniform(0.01, 0.05),
            scatter=chance.uniform(0.004, 0.02),
            breath=chance.uniform(0.18, 0.35),
        ),
        pr=float(np.clip(chance.normal(0.155, 0.018), 0.12, 0.195)),
        qtc=float(np.clip(chance.normal(0.408, 0.018), 0.36, 0.445)),
    )
    chest = np.append(_NEAR[:2], _NEAR[2:] * np.exp(chance.normal(0, 0.2) + chance.normal(0, 0.1, 6)))
    ectopic = PVC.varied(chance, 0.3).rotated(heart.rotation(chance.uniform(0, 360)))
    return Patient(ecg, ectopic, chest, noise=chance.uniform(0.5, 1.5))


def record(of: Patient, names: list[str], seconds: float, chance: np.random.Generator) -> NDArray[np.int16]:
    """One recording of the classes `names`: another day, other electrodes, another rate."""
    rate = of.ecg.rhythm.rate * np.exp(chance.normal(0, 0.12))
    day = replace(of.ecg, rhythm=replace(of.ecg.rhythm, rate=float(np.clip(rate, 50, 115))))
    ecg = shown(day, names, chance)
    samples = round(seconds * RATE)
    dipole = np.zeros((samples, 3))
    found = beats(ecg.rhythm, seconds, chance)
    _beat(dipole, ecg, of.ectopic, found, chance)
    time = np.arange(samples) / RATE
    _atria(dipole, ecg, time, chance)
    breath = np.sin(2 * np.pi * ecg.rhythm.breath * time + chance.uniform(0, 6.3))
    dipole *= 1 + chance.uniform(0.01, 0.05) * breath[:, None]
    eight = dipole @ heart.electrodes(chance).T * of.chest
    eight += _noise(time, breath, of.noise, chance)
    return heart.twelve_leads(eight)


def _beat(dipole: NDArray[np.float64], ecg: Ecg, ectopic: Waves, found: Beats, chance: np.random.Generator) -> None:
    one = np.ones(len(found.time))
    narrow = found.kind != VENTRICULAR
    add(dipole, ecg.qrs, found.time[narrow], np.exp(chance.normal(0, 0.012, narrow.sum())))
    add(dipole, ectopic, found.time[~narrow], one[~narrow])
    if ecg.spike:
        add(dipole, SPIKE.scaled(ecg.spike), found.time[narrow], one[narrow])
    if ecg.has_p:
        middle = found.time - _ONSET - ecg.pr + _HALF_P
        sinus, atrial = found.kind == NORMAL, found.kind == ATRIAL
        add(dipole, ecg.p, middle[sinus], one[sinus])
        elsewhere = ecg.p.rotated(heart.rotation(130, 40))  # the early beat begins elsewhere in the atria
        add(dipole, elsewhere, middle[atrial] + 0.03, one[atrial])
    qt = ecg.qtc * np.clip(found.before, 0.35, 1.6) ** (1 / 3)
    wide = max(
        0.0, float((ecg.qrs.time + 2 * ecg.qrs.width).max()) - 0.05
    )  # a late QRS complex ends late, and so does T
    stretch = (qt + 0.5 * wide) / 0.4
    peak = found.time - _ONSET + qt + 0.5 * wide - _T_END * stretch
    add(dipole, ecg.t, peak[narrow], stretch[narrow])
    opposite = Waves(ecg.t.time, ecg.t.width, -1.5 * np.abs(ecg.t.vector) * np.sign(ectopic.vector.sum(0)))
    add(dipole, opposite, peak[~narrow] + 0.04, stretch[~narrow])


def _atria(dipole: NDArray[np.float64], ecg: Ecg, time: NDArray[np.float64], chance: np.random.Generator) -> None:
    if ecg.fibrillation:
        for _ in range(3):  # a few fronts of 350 to 600 a minute, which wax and wane; best seen in V1
            phase = 2 * np.pi * np.cumsum(chance.uniform(5.8, 9) + 0.8 * _slow(time, 1.0, chance)) / RATE
            direction = chance.normal(0, 0.3, 3) + np.array([-0.8, 0.4, -0.45])
            swell = 0.6 + 0.4 * _slow(time, 0.7, chance)
            dipole += ecg.fibrillation * (np.sin(phase) * swell)[:, None] * direction
    if ecg.flutter:
        turns = time * ecg.rhythm.flutter + chance.random()
        tooth = (turns % 1) - 0.5 + 0.15 * np.sin(2 * np.pi * turns)  # falls slowly, rises fast, in II, III and aVF
        dipole += ecg.flutter * tooth[:, None] * np.array([0.0, -1.0, -0.6])


def _slow(time: NDArray[np.float64], hertz: float, chance: np.random.Generator) -> NDArray[np.float64]:
    """A smooth random curve of about unit size, of no frequency above `hertz`."""
    knots = chance.normal(0, 0.7, int(time[-1] * 2 * hertz) + 3)
    curve: NDArray[np.float64] = np.interp(time * 2 * hertz, np.arange(len(knots)), knots)
    return curve


def _noise(
    time: NDArray[np.float64], breath: NDArray[np.float64], level: float, chance: np.random.Generator
) -> NDArray[np.float64]:
    """[samples, 8] mV: baseline, muscle, mains, now and then a lead that moves."""
    noise = np.empty((len(time), 8))
    drift = np.array([_slow(time, 0.15, chance) for _ in range(8)]).T
    noise[:] = 0.03 * level * drift * np.exp(chance.normal(0, 0.5, 8)) + 0.02 * level * np.outer(
        breath, chance.normal(0, 1, 8)
    )
    muscle = chance.standard_normal((len(time), 8), np.float32)
    muscle[1:] += 0.6 * muscle[:-1]  # less of it at the highest frequencies
    noise += 0.005 * level * np.exp(chance.normal(0, 0.5)) * muscle * np.exp(chance.normal(0, 0.35, 8))
    if chance.random() < 0.25:
        noise += 0.01 * np.outer(np.sin(2 * np.pi * 50 * time + chance.uniform(0, 6.3)), chance.random(8))
    if chance.random() < 0.08:
        lead, begin = chance.integers(8), chance.uniform(0, time[-1])
        noise[:, lead] += chance.normal(0, 0.8) * np.exp(-np.clip(time - begin, 0, None) / 0.6) * (time >= begin)
    return noise
