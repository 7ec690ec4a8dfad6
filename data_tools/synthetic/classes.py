"""The 26 scored classes: how often each occurs in each cohort, and what it does to a heart. Pure.

Counts: the table of scored diagnoses of the PhysioNet/CinC challenge 2021. Criteria: AHA/ACCF/HRS recommendations for
the standardization and interpretation of the electrocardiogram, parts III (conduction) and IV (ST, T, QT), Circulation
2009, and the Minnesota code for Q waves and low voltage; each number stands beside the class it belongs to.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from data_tools.labels import CLASS_NAMES
from data_tools.synthetic.heart import (
    DOWER,
    LBBB,
    LEFT_ANTERIOR,
    PACED,
    RIGHT_DELAY,
    Waves,
    duration,
    frontal_axis,
    peak_to_peak,
    projected,
    rotation,
)
from data_tools.synthetic.rhythms import ATRIAL, VENTRICULAR, Rhythm

COHORTS = ("cpsc_2018", "cpsc_2018_extra", "ptb-xl", "georgia", "chapman_shaoxing", "ningbo")
RECORDINGS = (6_877, 3_453, 21_837, 10_344, 10_247, 34_905)
COUNTS = {
    "AF": (1221, 153, 1514, 570, 1780, 0),
    "AFL": (0, 54, 73, 186, 445, 7615),
    "BBB": (0, 0, 0, 116, 0, 385),
    "Brady": (0, 271, 0, 6, 0, 7),
    "CLBBB|LBBB": (236, 38, 536, 231, 205, 248),
    "CRBBB|RBBB": (1857, 114, 542, 570, 454, 1291),
    "IAVB": (722, 106, 797, 769, 247, 893),
    "IRBBB": (0, 86, 1118, 407, 0, 246),
    "LAD": (0, 0, 5146, 940, 382, 1163),
    "LAnFB": (0, 0, 1626, 180, 0, 380),
    "LPR": (0, 0, 340, 0, 12, 40),
    "LQRSV": (0, 0, 182, 374, 249, 794),
    "LQT": (0, 4, 118, 1391, 57, 337),
    "NSIVCB": (0, 4, 789, 203, 235, 536),
    "NSR": (918, 4, 18092, 1752, 1826, 6299),
    "PAC|SVPB": (616, 126, 555, 640, 258, 1063),
    "PR": (0, 3, 296, 0, 0, 1182),
    "PRWP": (0, 0, 0, 0, 0, 638),
    "PVC|VPB": (0, 196, 0, 357, 294, 1091),
    "QAb": (0, 1, 548, 464, 235, 828),
    "RAD": (0, 1, 343, 83, 215, 638),
    "SA": (0, 11, 772, 455, 0, 2550),
    "SB": (0, 45, 637, 1677, 3889, 12670),
    "STach": (0, 303, 826, 1261, 1568, 5687),
    "TAb": (0, 22, 2345, 2306, 1876, 5167),
    "TInv": (0, 5, 294, 812, 157, 2720),
}
STANDING = ("AF", "AFL", "PR")  # rhythms that stay; a patient has one of them at most
SINUS = ("NSR", "SB", "STach", "Brady")  # where none of those is: one of these, or none named
# Of these, a patient has what he has for good; the others come and go from one recording to the next.
LASTING = (
    *(
        "CLBBB|LBBB",
        "CRBBB|RBBB",
        "BBB",
        "IRBBB",
        "NSIVCB",
        "LAnFB",
        "LAD",
        "RAD",
        "LQRSV",
        "QAb",
        "PRWP",
        "IAVB",
        "LPR",
    ),
)
PASSING = ("SA", "PAC|SVPB", "PVC|VPB", "LQT", "TAb", "TInv")
# What does not occur together here, or could not be told apart: the first that was drawn stays.
_EXCLUSIVE = (
    {"CLBBB|LBBB", "CRBBB|RBBB", "BBB", "IRBBB", "NSIVCB"},
    {"CLBBB|LBBB", "LAnFB"},
    {"CLBBB|LBBB", "PRWP"},
    {"CLBBB|LBBB", "QAb"},
    {"RAD", "LAD"},
    {"RAD", "LAnFB"},
    {"IAVB", "LPR"},
)
_NO_DEVIATION = (-25.0, 85.0)  # degrees; the leads as recorded add a few
_NO_SINUS = {"AF", "AFL", "PR"}  # with these there is no PR interval and no early atrial beat
_NEEDS_SINUS = {"IAVB", "LPR", "PAC|SVPB", "SA"}


@dataclass(frozen=True)
class Ecg:
    """What one recording shows."""

    p: Waves
    qrs: Waves
    t: Waves
    rhythm: Rhythm
    pr: float  # s, from the P wave's beginning to the QRS complex's
    qtc: float  # s, Fridericia's
    has_p: bool = True
    fibrillation: float = 0.0  # mV
    flutter: float = 0.0  # mV
    spike: float = 0.0  # of a pacemaker; 1: as a unipolar lead shows it, far less of a bipolar one


def lasting(cohort: int, chance: np.random.Generator) -> list[str]:
    """What a patient has for good."""
    rhythm = _one_of(STANDING, cohort, chance, RECORDINGS[cohort])
    return _drawn(LASTING, cohort, chance, rhythm)


def passing(cohort: int, of_patient: list[str], chance: np.random.Generator) -> list[str]:
    """What a recording of the patient shows: with what stays, the rate and what comes and goes."""
    left = RECORDINGS[cohort] - sum(COUNTS[name][cohort] for name in STANDING)
    rate = [] if set(of_patient) & _NO_SINUS else _one_of(SINUS, cohort, chance, left)
    return _drawn(PASSING, cohort, chance, rate + of_patient)


def _one_of(names: tuple[str, ...], cohort: int, chance: np.random.Generator, of: int) -> list[str]:
    counts = np.array([COUNTS[name][cohort] for name in names], float)
    part = np.append(counts, max(0.0, of - counts.sum()))
    place = chance.choice(len(part), p=part / part.sum())
    return [names[place]] if place < len(names) else []


def _drawn(names: tuple[str, ...], cohort: int, chance: np.random.Generator, found: list[str]) -> list[str]:
    for name in names:
        if chance.random() < _chance(name, cohort) and not _rivals(name).intersection(found):
            found = [*found, name]
    return found


@lru_cache
def _rivals(name: str) -> frozenset[str]:
    """With which of these `name` is not seen."""
    rivals = {other for group in _EXCLUSIVE if name in group for other in group} - {name}
    if name in _NEEDS_SINUS:
        rivals |= _NO_SINUS
    if name in LASTING:  # a pacemaker's way is seen instead of the heart's own
        rivals.add("PR")
    return frozenset(rivals)


def clash(one: str, other: str) -> bool:
    """Whether the two are never seen together."""
    return other in _rivals(one) or one in _rivals(other)


@lru_cache
def _chance(name: str, cohort: int) -> float:
    """Of having it, among those who have none of its rivals that are drawn before it."""
    drawn = (*STANDING, *SINUS, *LASTING, *PASSING)
    before = [other for other in drawn[: drawn.index(name)] if other in _rivals(name)]
    others = sum(COUNTS[other][cohort] for other in before)
    return min(1.0, COUNTS[name][cohort] / max(1, RECORDINGS[cohort] - others))


def bits(names: list[str]) -> int:
    return sum(1 << CLASS_NAMES.index(name) for name in names)


def shown(ecg: Ecg, names: list[str], chance: np.random.Generator) -> Ecg:
    """`ecg` with every class of `names`: T wave, conduction, Q waves, axis, voltage, intervals, rhythm."""
    ordered = sorted(names, key=_ORDER.index)
    for name in ordered:
        if _ORDER.index(name) < _ORDER.index("LAnFB"):
            ecg = _EFFECTS[name](ecg, chance)
    if not {"LAnFB", "LAD", "RAD", "PR"} & set(names):  # whoever has no deviation has none through a block either
        low, high = _NO_DEVIATION
        axis = frontal_axis(ecg.qrs)
        ecg = ecg if low < axis < high else _to_axis(ecg, float(np.clip(axis, low + 5, high - 5)))
    for name in ordered:
        if _ORDER.index(name) >= _ORDER.index("LAnFB"):
            ecg = _EFFECTS[name](ecg, chance)
    return ecg


def _discordant(ecg: Ecg, amount: float) -> Waves:
    """A T wave that points away from the QRS complex, as it does where conduction is abnormal."""
    mean = (ecg.qrs.vector * ecg.qrs.width[:, None]).sum(0)
    size = np.linalg.norm(ecg.t.vector, axis=1, keepdims=True)
    return replace(ecg.t, vector=-amount * size * mean / max(np.linalg.norm(mean), 1e-9))


def _lbbb(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # 130 ms or more, no septal q, broad R in I, V5, V6
    size = np.linalg.norm(ecg.qrs.vector, axis=1).max() / 1.0
    blocked = LBBB.varied(chance, 0.08).scaled(size).stretched(chance.uniform(0.88, 1.05))
    ecg = replace(ecg, qrs=blocked)
    return replace(ecg, t=_discordant(ecg, 1.1))


def _rbbb(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # 120 ms or more, late R' in V1
    late = RIGHT_DELAY.varied(chance, 0.1).scaled(chance.uniform(0.8, 1.3))
    right = Waves.of((0, 34, 0.1, 0.0, 0.16))  # T inverted in V1, V2
    return replace(ecg, qrs=ecg.qrs + late, t=ecg.t + right)


def _irbbb(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # the same in 100 to 119 ms
    late = Waves.of((49, 8.5, -0.2, -0.03, -0.4)).varied(chance, 0.08)
    return replace(ecg, qrs=ecg.qrs + late.scaled(chance.uniform(0.9, 1.3)))


def _bbb(ecg: Ecg, chance: np.random.Generator) -> Ecg:
    return (_lbbb if chance.random() < 0.5 else _rbbb)(ecg, chance)


def _nsivcb(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # over 110 ms, neither of the two
    return replace(ecg, qrs=ecg.qrs.stretched(chance.uniform(0.118, 0.15) / duration(ecg.qrs)))


def _to_axis(ecg: Ecg, target: float) -> Ecg:
    qrs = ecg.qrs
    for _ in range(6):  # Dower's I and II are not at right angles to what they measure
        qrs = qrs.rotated(rotation((target - frontal_axis(qrs) + 180) % 360 - 180))
    turn = (target - frontal_axis(ecg.qrs) + 180) % 360 - 180
    return replace(ecg, qrs=qrs, t=ecg.t.rotated(rotation(0.3 * turn)))


def _lafb(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # axis -45 to -90, qR in aVL, rS in II, III, aVF
    size = np.linalg.norm(ecg.qrs.vector, axis=1).max()
    late = (ecg.qrs.time > 0.045) | (ecg.qrs.time < -0.03)  # a right bundle branch block's R', and a Q wave, stay
    kept = Waves(ecg.qrs.time[late], ecg.qrs.width[late], ecg.qrs.vector[late])
    ecg = replace(ecg, qrs=LEFT_ANTERIOR.varied(chance, 0.1).scaled(size) + kept)
    return _to_axis(ecg, chance.uniform(-75, -53))


def _lad(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # axis -30 to -90
    return ecg if -85 < frontal_axis(ecg.qrs) < -38 else _to_axis(ecg, chance.uniform(-65, -40))


def _rad(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # axis 90 to 180
    return _to_axis(ecg, chance.uniform(102, 150))


def _lqrsv(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # under 0.5 mV from peak to peak in every limb lead
    factor = min(1.0, chance.uniform(0.2, 0.36) / peak_to_peak(ecg.qrs))
    return replace(ecg, qrs=ecg.qrs.scaled(factor), t=ecg.t.scaled(max(factor, 0.5)))


def _qab(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # Q of 40 ms and a quarter of R: inferior, anterior or lateral
    away = ((-0.05, -0.55, 0.0), (0.05, 0.0, 0.65), (-0.55, 0.05, 0.1))[chance.integers(3)]
    return replace(ecg, qrs=ecg.qrs + Waves.of((-31, 10, *away)).scaled(chance.uniform(0.8, 1.3)))


def _prwp(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # R of at most 0.3 mV in V3: the front's forces are lost
    vector, limit = ecg.qrs.vector.copy(), chance.uniform(0.05, 0.15)
    early = ecg.qrs.time <= 0.035
    for _ in range(30):
        if projected(replace(ecg.qrs, vector=vector), DOWER[4:5]).max() <= limit:
            break
        vector[early & (vector[:, 2] < 0), 2] *= 0.7
        vector[early, 0] *= 0.94
        vector[early, 2] += 0.01
    return replace(ecg, qrs=replace(ecg.qrs, vector=vector))


def _long_pr(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # over 200 ms
    return replace(ecg, pr=chance.uniform(0.208, 0.3))


def _lqt(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # corrected, over 450 ms in men and 460 ms in women
    return replace(ecg, qtc=chance.uniform(0.47, 0.55))


def _tab(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # flat: under a tenth of the R wave
    return replace(ecg, t=ecg.t.scaled(chance.uniform(-0.15, 0.3)))


def _tinv(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # -0.1 mV and more, in one region
    axis, sign = ((0, -1), (1, -1), (2, 1))[chance.integers(3)]  # lateral, inferior, anterior
    vector = ecg.t.vector.copy()
    vector[:, axis] = sign * chance.uniform(0.9, 1.4) * np.maximum(np.linalg.norm(vector, axis=1), 0.18)
    return replace(ecg, t=replace(ecg.t, vector=vector))


def _at(low: float, high: float) -> Callable[[Ecg, np.random.Generator], Ecg]:
    def effect(ecg: Ecg, chance: np.random.Generator) -> Ecg:
        return replace(ecg, rhythm=replace(ecg.rhythm, rate=chance.uniform(low, high)))

    return effect


def _sa(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # intervals that differ by more than 120 ms
    return replace(ecg, rhythm=replace(ecg.rhythm, sway=chance.uniform(0.1, 0.2)))


def _af(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # no P, 350 to 600 fine waves a minute, irregular
    rhythm = replace(ecg.rhythm, rate=chance.uniform(60, 130), scatter=chance.uniform(0.16, 0.26), sway=0.0)
    return replace(ecg, has_p=False, fibrillation=chance.uniform(0.02, 0.08), rhythm=rhythm)


def _afl(
    ecg: Ecg, chance: np.random.Generator
) -> Ecg:  # a saw-tooth of 240 to 340 a minute, every 2nd to 4th conducted
    flutter = chance.uniform(240, 340) / 60
    rhythm = replace(ecg.rhythm, flutter=flutter, conducted=int(chance.choice([2, 3, 4], p=[0.5, 0.15, 0.35])))
    return replace(ecg, has_p=False, flutter=chance.uniform(0.15, 0.35), rhythm=rhythm)


def _paced(ecg: Ecg, chance: np.random.Generator) -> Ecg:  # spikes, then a broad complex from the right apex
    rhythm = replace(ecg.rhythm, rate=chance.uniform(60, 80), sway=0.0, scatter=0.002)
    ecg = replace(ecg, qrs=PACED.varied(chance, 0.1), has_p=False, spike=chance.uniform(0.1, 0.8), rhythm=rhythm)
    return replace(ecg, t=_discordant(ecg, 1.3))


def _early(kind: int) -> Callable[[Ecg, np.random.Generator], Ecg]:
    def effect(ecg: Ecg, chance: np.random.Generator) -> Ecg:
        return replace(ecg, rhythm=replace(ecg.rhythm, ectopic=kind, ectopic_part=chance.uniform(0.1, 0.25)))

    return effect


_EFFECTS: dict[str, Callable[[Ecg, np.random.Generator], Ecg]] = {
    "TAb": _tab,
    "TInv": _tinv,
    "PR": _paced,
    "CLBBB|LBBB": _lbbb,
    "BBB": _bbb,
    "CRBBB|RBBB": _rbbb,
    "IRBBB": _irbbb,
    "NSIVCB": _nsivcb,
    "QAb": _qab,
    "LAnFB": _lafb,
    "LAD": _lad,
    "RAD": _rad,
    "PRWP": _prwp,
    "LQRSV": _lqrsv,
    "IAVB": _long_pr,
    "LPR": _long_pr,
    "LQT": _lqt,
    "NSR": _at(60, 99),
    "SB": _at(40, 59),
    "Brady": _at(38, 58),
    "STach": _at(101, 145),
    "SA": _sa,  # after the rate
    "AF": _af,
    "AFL": _afl,
    "PAC|SVPB": _early(ATRIAL),
    "PVC|VPB": _early(VENTRICULAR),
}
_ORDER = list(_EFFECTS)
