"""Whether the artificial archive is believable: nobody is told by his samples alone, every class can be seen."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.signal import butter, find_peaks, sosfiltfilt
from scipy.stats import rankdata

from benchmarks import report
from data_tools import records
from data_tools.archive import find
from data_tools.crops import INVALID, LEADS
from data_tools.labels import CLASS_NAMES
from data_tools.synthetic import classes
from data_tools.synthetic.recordings import patient, record

RATE = 500
_BEFORE, _AFTER = 150, 260  # samples of a beat around its R peak
_BAND = butter(2, (0.5, 40), "bandpass", fs=RATE, output="sos")
_PTBXL = 2  # place of the cohort among classes.COHORTS
FEATURES = (
    *(
        "rate",
        "interval spread",
        "early beats",
        "widest beat",
        "PR",
        "P in II",
        "QRS",
        "QTc",
        "axis",
        "limb peak to peak",
    ),
    *(
        "R in V1",
        "S in V1",
        "late V1",
        "R in V3",
        "R in V6",
        "late I",
        "Q in II",
        "Q in V2",
        "Q in I",
        "T in II",
        "T in V5",
    ),
    *("saw-tooth", "spike"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--patients", type=int, default=600)
    parser.add_argument("--source", type=Path, help="an archive of real recordings to compare with")
    parser.add_argument("--out", type=Path, default=report.RESULTS)


def run(chosen: argparse.Namespace) -> Path:
    """-> the page of results."""
    patients, source = chosen.patients, chosen.source
    figures: dict[str, Any] = {"identification": _identification(patients), "classes": _classes(patients * 6)}
    artificial = [_sample(seed) for seed in range(400)]
    figures["measures"] = {"artificial": _quantiles(artificial)}
    if source is not None:
        figures["measures"]["real"] = _quantiles(_real(source))
    command = f"python -m benchmarks believable --patients {patients}" + (" --source ARCHIVE" if source else "")
    return report.write(chosen.out, "believable", command, figures, lines(figures))


# --- identification ---


def _identification(patients: int) -> dict[str, float]:
    """Rank-1 of gallery against probe, two recordings a patient, by what any program can measure."""
    visits: list[list[NDArray[np.int16]]] = [[], []]
    for number in range(patients):
        of = np.random.default_rng([7, number])
        heart, lasting = patient(of), classes.lasting(_PTBXL, of)
        for visit in range(2):
            chance = np.random.default_rng([7, number, 1 + visit])
            visits[visit].append(record(heart, classes.passing(_PTBXL, lasting, chance), 10, chance))
    raw = [np.stack([_unit(s[:2500].astype(float).ravel()) for s in visit]) for visit in visits]
    simple = [np.stack([_rate_and_amplitudes(s) for s in visit]) for visit in visits]
    scale = simple[0].std(0)
    distance = np.linalg.norm(simple[0][:, None] / scale - simple[1][None] / scale, axis=2)
    truth = np.arange(patients)
    return {
        "patients": patients,
        "raw signal, cosine": float(((raw[0] @ raw[1].T).argmax(0) == truth).mean()),
        "rate and amplitudes, nearest": float((distance.argmin(0) == truth).mean()),
        "chance": 1 / patients,
    }


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    unit: NDArray[np.float64] = (values - values.mean()) / max(float(np.linalg.norm(values - values.mean())), 1e-9)
    return unit


def _rate_and_amplitudes(signal: NDArray[np.int16]) -> NDArray[np.float64]:
    filtered, peaks = _beats(signal)
    rate = 60 * RATE / np.median(np.diff(peaks)) if len(peaks) > 2 else 60.0
    return np.append(filtered.max(0) - filtered.min(0), rate / 20)


# --- measures ---


def _beats(signal: NDArray[np.int16]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """-> mV without baseline and muscle [samples, 12], R peaks."""
    filtered = sosfiltfilt(_BAND, np.where(signal == INVALID, 0, signal) / 1000.0, axis=0)
    steep = np.sqrt((np.diff(filtered, axis=0, prepend=filtered[:1]) ** 2).sum(1))
    steep = np.convolve(steep, np.ones(20) / 20, "same")
    found, _ = find_peaks(steep, distance=int(0.22 * RATE), height=0.45 * np.quantile(steep, 0.985))
    size = np.sqrt((filtered**2).sum(1))
    window = np.arange(-25, 26)
    peaks = [int(p + window[np.argmax(size[np.clip(p + window, 0, len(size) - 1)])]) for p in found]
    return filtered, np.unique(peaks).astype(np.int64)


def measure(signal: NDArray[np.int16]) -> NDArray[np.float64] | None:
    """FEATURES of a recording, as a textbook measures them on its mean beat; None if there are no beats to measure."""
    filtered, peaks = _beats(signal)
    whole = peaks[(peaks > _BEFORE) & (peaks < len(signal) - _AFTER)]
    if len(whole) < 3:
        return None
    cut = np.stack([filtered[p - _BEFORE : p + _AFTER] for p in whole])  # [beats, time, 12]
    beat = np.median(cut, axis=0)
    slope = np.convolve(np.sqrt((np.diff(beat, axis=0, prepend=beat[:1]) ** 2).sum(1)), np.ones(5) / 5, "same")
    begin, end = _complex(slope)
    interval = np.diff(peaks) / RATE
    mean = float(np.median(interval))
    level = beat[max(begin - 8, 0) : max(begin - 2, 1)].mean(0)
    beat = beat - level
    i, ii, v1, v2, v3, v5, v6 = (beat[:, LEADS.index(lead)] for lead in ("I", "II", "V1", "V2", "V3", "V5", "V6"))
    inside, late = slice(begin, end), slice(_BEFORE + 18, max(end, _BEFORE + 19) + 8)
    before = slice(max(begin - 130, 0), max(begin - 8, 1))
    p_peak = before.start + int(np.argmax(np.abs(_level(ii[before]))))
    qt_end = _t_end(beat, slope, end)
    net = ii[inside].sum(), i[inside].sum()
    axis = np.degrees(np.arctan2((2 * net[0] - net[1]) / np.sqrt(3), net[1]))
    widths = [_width(np.sqrt((np.diff(one, axis=0) ** 2).sum(1))) for one in cut]
    return np.array(
        [
            60 / mean, interval.std() / mean, (interval < 0.82 * mean).mean(), max(widths) / max(np.median(widths), 1),
            (begin - p_peak) / RATE + 0.05, np.ptp(_level(ii[before])), (end - begin) / RATE,
            (qt_end - begin) / RATE / mean ** (1 / 3), axis, max(np.ptp(beat[inside, lead]) for lead in range(6)),
            v1[inside].max(), -v1[inside].min(), v1[late].mean(), v3[inside].max(), v6[inside].max(), i[late].mean(),
            -ii[begin:_BEFORE].min(initial=0), -v2[begin:_BEFORE].min(initial=0), -i[begin:_BEFORE].min(initial=0),
            _peak(ii[end + 15 : qt_end + 10]), _peak(v5[end + 15 : qt_end + 10]),
            _sawtooth(filtered[:, LEADS.index("II")], peaks), _spike(signal),
        ]
    )  # fmt: skip


def _level(part: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without its straight line."""
    return part - np.linspace(part[:5].mean(), part[-5:].mean(), len(part)) if len(part) > 10 else part - part.mean()


def _complex(slope: NDArray[np.float64]) -> tuple[int, int]:
    """Where the QRS complex of a mean beat begins and ends: where it is no longer steep."""
    steep = slope > 0.11 * slope[_BEFORE - 25 : _BEFORE + 40].max()
    quiet = 5
    begin = next((n for n in range(_BEFORE - 4, 45, -1) if not steep[n - quiet : n].any()), 45)
    end = next((n for n in range(_BEFORE + 6, _BEFORE + 110) if not steep[n : n + quiet].any()), _BEFORE + 110)
    return begin, end


def _width(steep: NDArray[np.float64]) -> int:
    smooth = np.convolve(steep, np.ones(5) / 5, "same")[_BEFORE - 50 : _BEFORE + 90]
    return int((smooth > 0.15 * smooth.max()).sum())


def _t_end(beat: NDArray[np.float64], slope: NDArray[np.float64], end: int) -> int:
    size = np.sqrt((beat**2).sum(1))
    first = min(end + 30, len(size) - 40)
    peak = first + int(np.argmax(size[first : len(size) - 10]))
    low = 0.18 * size[peak]
    return next(
        (n for n in range(peak, len(size) - 1) if size[n] < low or (size[n + 1] > size[n] * 1.02 and n > peak + 25)),
        len(size) - 1,
    )


def _peak(part: NDArray[np.float64]) -> float:
    return float(part[np.argmax(np.abs(part))]) if len(part) else 0.0


def _sawtooth(ii: NDArray[np.float64], peaks: NDArray[np.int64]) -> float:
    """Part of the power outside of the QRS complexes at 4 to 6 Hz."""
    quiet = ii.copy()
    for p in peaks:
        a, b = max(p - 35, 0), min(p + 45, len(ii) - 1)
        quiet[a:b] = np.linspace(ii[a], ii[b], b - a)
    power = np.abs(np.fft.rfft(quiet)) ** 2
    hertz = np.fft.rfftfreq(len(quiet), 1 / RATE)
    return float(power[(hertz > 3.8) & (hertz < 6.2)].sum() / power[(hertz > 0.6) & (hertz < 30)].sum())


def _spike(signal: NDArray[np.int16]) -> float:
    bend = np.abs(np.diff(signal[:, 1].astype(float), 2))
    return float(np.quantile(bend, 0.998) / (np.median(bend) + 5))


# --- classes ---


def _classes(count: int) -> dict[str, float]:
    """AUROC of each class by a logistic regression on FEATURES, for other patients than it was fitted to."""
    rows, labels = [], []
    for number in range(count):
        of = np.random.default_rng([8, number])
        heart, names = patient(of), _some_classes(of)
        found = measure(record(heart, names, 10, of))
        if found is not None:
            rows.append(found)
            labels.append([name in names for name in CLASS_NAMES])
    x, y = np.array(rows), np.array(labels)
    low, high = np.quantile(x, (0.005, 0.995), axis=0)
    x = (np.clip(x, low, high) - x.mean(0)) / x.std(0)
    x = np.concatenate([x, x**2, np.ones((len(x), 1))], 1)
    half = len(x) // 2
    return {name: _auroc(x[half:] @ _fit(x[:half], y[:half, c]), y[half:, c]) for c, name in enumerate(CLASS_NAMES)}


def _some_classes(chance: np.random.Generator) -> list[str]:
    """As in the cohorts, but with the rare ones not so rare."""
    cohort = int(chance.integers(len(classes.COHORTS)))
    names = classes.passing(cohort, classes.lasting(cohort, chance), chance)
    rare = str(chance.choice(CLASS_NAMES))
    rates = {*classes.STANDING, *classes.SINUS}
    kept = [name for name in names if not classes.clash(rare, name) and not (rare in rates and name in rates)]
    return [*dict.fromkeys([*kept, rare])]


def _fit(x: NDArray[np.float64], y: NDArray[np.bool_]) -> NDArray[np.float64]:
    sign = np.where(y, 1.0, -1.0)

    def loss(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = sign * (x @ w)
        wrong = sign / (1 + np.exp(np.clip(margin, -500, 500)))
        return float(np.logaddexp(0, -margin).mean() + 1e-3 * w @ w), 2e-3 * w - x.T @ wrong / len(x)

    fitted: NDArray[np.float64] = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x
    return fitted


def _auroc(score: NDArray[np.float64], truth: NDArray[np.bool_]) -> float:
    ranks = rankdata(score)
    yes = int(truth.sum())
    return float((ranks[truth].sum() - yes * (yes + 1) / 2) / max(1, yes * (len(truth) - yes)))


# --- beside real recordings ---


def _sample(seed: int) -> NDArray[np.int16]:
    chance = np.random.default_rng([9, seed])
    cohort = int(chance.choice(len(classes.COHORTS), p=np.array(classes.RECORDINGS) / sum(classes.RECORDINGS)))
    heart, lasting = patient(chance), classes.lasting(cohort, chance)
    return record(heart, classes.passing(cohort, lasting, chance), 10, chance)


def _real(source: Path) -> list[NDArray[np.int16]]:
    found = []
    for header in find(source, ()).recordings:
        try:
            recording = records.read(str(source), header)
        except ValueError:
            continue
        if recording.leads == 4095 and len(recording.signal) >= 5000:
            found.append(recording.signal[:5000])
    return found


def _quantiles(signals: Sequence[NDArray[np.int16]]) -> dict[str, list[float]]:
    parts = (0.05, 0.25, 0.5, 0.75, 0.95)
    measured = np.array([found for signal in signals if (found := measure(signal)) is not None])
    table = {name: measured[:, FEATURES.index(name)] for name in ("rate", "PR", "QRS", "QTc", "axis")}
    spans = np.array([np.ptp(_beats(signal)[0], axis=0) for signal in signals])
    table |= {f"{lead} peak to peak, mV": spans[:, place] for place, lead in enumerate(LEADS)}
    return {name: np.quantile(values, parts).round(3).tolist() for name, values in table.items()}


def lines(figures: dict[str, Any]) -> list[str]:
    found = dict(figures["identification"])
    page = [f"Rank-1 of {found.pop('patients')} patients, gallery against probe:", "", "| by | rank-1 |", "|---|---|"]
    page += [f"| {name} | {value:.1%} |" for name, value in found.items()]
    page += ["", f"AUROC of a logistic regression on {len(FEATURES)} textbook measures and their squares:", ""]
    page += [
        "| class | AUROC |",
        "|---|---|",
        *(f"| {name.replace('|', '/')} | {value:.3f} |" for name, value in figures["classes"].items()),
    ]
    page += ["", "Quantiles 5, 25, 50, 75, 95 %:", "", "| | " + " | ".join(figures["measures"]) + " |"]
    page.append("|---" * (1 + len(figures["measures"])) + "|")
    for name in figures["measures"]["artificial"]:
        cells = [", ".join(f"{v:g}" for v in table[name]) for table in figures["measures"].values()]
        page.append(f"| {name.replace('|', '/')} | " + " | ".join(cells) + " |")
    return page
