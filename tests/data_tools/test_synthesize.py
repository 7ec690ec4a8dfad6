"""The artificial archive: same seed, same bytes; leads that agree; classes and patients that can be told."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from data_tools import records
from data_tools.crops import INVALID, LEADS
from data_tools.labels import CLASS_NAMES
from data_tools.synthetic import classes, heart, layout
from data_tools.synthetic.recordings import patient, record
from data_tools.synthetic.rhythms import VENTRICULAR, Rhythm, beats

ROOT = Path(__file__).parents[2]


def run(module: str, *arguments: object, code: int = 0) -> str:
    command = [sys.executable, "-m", f"data_tools.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def fingerprint(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synthetic") / "raw"
    run("synthesize", "--out", out, "--patients", 1500, "--seed", 3, "--workers", 2)
    return out


def test_same_seed_same_bytes_whatever_the_workers(tmp_path: Path) -> None:
    for name, seed, workers in (("a", 1, 1), ("b", 1, 2), ("c", 2, 1)):
        run("synthesize", "--out", tmp_path / name, "--patients", 60, "--seed", seed, "--workers", workers)
    a, b, c = (fingerprint(tmp_path / name) for name in "abc")
    assert a == b
    assert a != c and a.keys() == c.keys()


def test_leads_agree_to_two_units(archive: Path) -> None:
    checked = 0
    for header in sorted((archive / "challenge-2021").rglob("*.hea"))[::7]:
        signal = records.read(str(header.parent), header.name).signal.astype(int)
        if (signal == INVALID).any() or not np.ptp(signal, axis=0).all():
            continue  # Ningbo's defects
        i, ii, iii, avr, avl, avf = signal[:, :6].T
        for measured, wanted in ((iii, ii - i), (avr, -(i + ii) / 2), (avl, i - ii / 2), (avf, ii - i / 2)):
            assert np.abs(measured - wanted).max() <= 2
        checked += 1
    assert checked > 150


def test_all_cohorts_in_their_proportions_and_their_lengths(archive: Path) -> None:
    ledger = pq.read_table(archive / "ledger.parquet").to_pylist()
    count = {name: sum(row["cohort"] == name for row in ledger) for name in classes.COHORTS}
    for name, real in zip(classes.COHORTS, classes.RECORDINGS, strict=True):
        assert count[name] == pytest.approx(len(ledger) * real / sum(classes.RECORDINGS), rel=0.1, abs=3)
    seconds = {name: [row["samples"] / 500 for row in ledger if row["cohort"] == name] for name in classes.COHORTS}
    assert 6 <= min(seconds["cpsc_2018"]) < 9 and 30 < max(seconds["cpsc_2018"]) <= 144
    assert set(seconds["ningbo"]) == {10.0}


def test_shard_finds_what_the_ledger_says(archive: Path, tmp_path: Path) -> None:
    table = archive / "ptb-xl" / "ptbxl_database.csv"
    run("shard", archive / "challenge-2021", "--out", tmp_path / "data", "--ptbxl-metadata", table)
    assert "nothing wrong" in run("verify", tmp_path / "data")
    kept = {row["record"]: row for row in pq.read_table(tmp_path / "data" / "crops.parquet").to_pylist()}
    rejected = {row["record"]: row for row in pq.read_table(tmp_path / "data" / "rejected.parquet").to_pylist()}
    ledger = {row["record"]: row for row in pq.read_table(archive / "ledger.parquet").to_pylist()}
    assert kept.keys() | rejected.keys() == ledger.keys() and not kept.keys() & rejected.keys()
    assert {name: row["detail"] for name, row in rejected.items()} == {
        name: row["twin_of"] for name, row in ledger.items() if row["twin_of"]
    }
    for name, row in kept.items():
        assert (row["cohort"], row["classes"]) == (ledger[name]["cohort"], ledger[name]["classes"])
        if row["cohort"] == "ptb-xl":
            assert row["patient"] == ledger[name]["patient"]
    views = list((tmp_path / "data" / "views").glob("*/crop.npy"))
    assert len(views) == 9 and all(len(np.load(path)) for path in views)


def test_ptbxl_in_its_own_layout_holds_the_same_samples(archive: Path) -> None:
    for header in sorted((archive / "ptb-xl").rglob("*_hr.hea"))[::40]:
        own = records.read(str(header.parent), header.name)
        twin = next((archive / "challenge-2021").rglob(f"HR{header.stem[:5]}.hea"))
        assert (own.signal == records.read(str(twin.parent), twin.name).signal).all()


def test_wrong_arguments_are_one_line(tmp_path: Path) -> None:
    assert "from 6 to 84,711" in run("synthesize", "--out", tmp_path / "a", "--patients", 5, code=1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").touch()
    assert "exists already" in run("synthesize", "--out", tmp_path / "b", "--patients", 50, code=1)


# --- classes ---


def shown(name: str, seed: int) -> classes.Ecg:
    chance = np.random.default_rng([5, seed])
    return classes.shown(patient(chance).ecg, [name], chance)


def duration(waves: heart.Waves) -> float:
    """s, of the QRS complex: while the dipole's speed is above a tenth of its highest."""
    time = np.arange(-0.15, 0.2, 0.001)
    height = np.exp(-0.5 * ((time - waves.time[:, None]) / waves.width[:, None]) ** 2)
    speed = np.linalg.norm(np.gradient(height.T @ waves.vector, axis=0), axis=1)
    return float(np.ptp(time[speed > 0.1 * speed.max()]))


def median(name: str, of: object) -> float:
    return float(np.median([of(shown(name, seed)) for seed in range(25)]))  # type: ignore[operator]


def lead(name: str, ecg: classes.Ecg, waves: str) -> np.ndarray:
    time = np.arange(-0.15, 0.2, 0.002)
    part = getattr(ecg, waves)
    height = np.exp(-0.5 * ((time - part.time[:, None]) / part.width[:, None]) ** 2)
    row = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6").index(name)
    return heart.DOWER[row] @ (part.vector.T @ height)  # type: ignore[no-any-return]


def test_conduction_shows_in_width_and_shape() -> None:
    def qrs(ecg: classes.Ecg) -> float:
        return duration(ecg.qrs)

    assert 0.07 < median("NSR", qrs) < 0.11
    assert median("CLBBB|LBBB", qrs) > 0.125 and median("CRBBB|RBBB", qrs) > 0.12
    assert median("NSR", qrs) < median("IRBBB", qrs) < 0.13 and median("NSIVCB", qrs) > 0.11
    assert median("CRBBB|RBBB", lambda ecg: lead("V1", ecg, "qrs")[-80:].max()) > 0.3  # R'
    assert median("CLBBB|LBBB", lambda ecg: lead("V1", ecg, "qrs").max()) < 0.15  # QS or rS
    assert median("CLBBB|LBBB", lambda ecg: lead("V6", ecg, "qrs").min()) > -0.1  # no q


def test_axes() -> None:
    for seed in range(25):
        assert -90 <= heart.frontal_axis(shown("LAD", seed).qrs) <= -30
        assert -90 <= heart.frontal_axis(shown("LAnFB", seed).qrs) <= -45
        assert 90 <= heart.frontal_axis(shown("RAD", seed).qrs) <= 180
        assert -30 < heart.frontal_axis(shown("NSR", seed).qrs) < 90


def test_intervals_rates_and_voltages() -> None:
    for seed in range(25):
        assert shown("IAVB", seed).pr > 0.2 >= shown("NSR", seed).pr
        assert shown("LQT", seed).qtc > 0.46 > shown("NSR", seed).qtc
        assert heart.peak_to_peak(shown("LQRSV", seed).qrs) < 0.5
        assert (
            shown("SB", seed).rhythm.rate
            < 60
            <= shown("NSR", seed).rhythm.rate
            <= 100
            < shown("STach", seed).rhythm.rate
        )
        assert lead("V3", shown("PRWP", seed), "qrs").max() <= 0.3
        flat, upright = lead("V5", shown("TAb", seed), "t"), lead("V5", shown("NSR", seed), "t")
        assert np.abs(flat).max() < 0.5 * np.abs(upright).max()
    assert median("TInv", lambda ecg: lead("V5", ecg, "t").min()) < -0.1
    assert not shown("AF", 0).has_p and not shown("AFL", 0).has_p and shown("PR", 0).spike


def test_rhythms() -> None:
    chance = np.random.default_rng(0)
    regular = beats(Rhythm(rate=70, sway=0.02, scatter=0.01), 60, chance)
    assert len(regular.time) == pytest.approx(71, abs=3) and regular.before.std() / regular.before.mean() < 0.03
    irregular = beats(Rhythm(rate=90, scatter=0.2, sway=0), 60, chance)
    assert irregular.before.std() / irregular.before.mean() > 0.12
    flutter = beats(Rhythm(flutter=5.0, conducted=2), 60, chance)
    assert np.median(flutter.before) == pytest.approx(0.4, abs=0.01)
    early = beats(Rhythm(rate=70, ectopic=VENTRICULAR, ectopic_part=0.2, sway=0, scatter=0), 60, chance)
    place = np.flatnonzero(early.kind == VENTRICULAR)
    place = place[place < len(early.time) - 1]
    assert len(place) and (early.before[place] < 0.8 * 60 / 70).all()
    both = early.before[place] + early.before[place + 1]
    assert both == pytest.approx(2 * 60 / 70, rel=0.01)  # a full compensatory pause


def test_every_class_can_be_drawn_and_named() -> None:
    assert set(classes.COUNTS) == set(CLASS_NAMES) == set(classes.RHYTHMS) | set(classes.LASTING) | set(classes.PASSING)
    chance = np.random.default_rng(0)
    seen = {name for _ in range(4000) for name in classes.passing(5, classes.lasting(5, chance), chance)}
    assert seen == {name for name in CLASS_NAMES if classes.COUNTS[name][5] > 30} | seen & {"Brady"}


def test_a_patient_keeps_his_heart() -> None:
    """The shape of V2's mean beat is nearer to that of another recording of his than to anyone else's."""
    right = 0
    for seed in range(12):
        patients = [patient(np.random.default_rng([6, seed, number])) for number in range(4)]
        shapes = [
            [_mean_beat(record(of, ["NSR"], 10, np.random.default_rng([6, seed, place, visit])))
             for place, of in enumerate(patients)]
            for visit in range(2)
        ]  # fmt: skip
        right += sum(int(np.argmax([a @ b for b in shapes[1]]) == place) for place, a in enumerate(shapes[0]))
    assert 24 < right < 48  # of 48: neither guessed nor trivial


def _mean_beat(signal: np.ndarray) -> np.ndarray:
    leads = signal[:, [LEADS.index(name) for name in ("I", "II", "V2", "V5")]].astype(float)
    steep = np.convolve(np.abs(np.diff(leads, axis=0)).sum(1), np.ones(15), "same")
    peaks = [p for p in range(200, len(steep) - 250) if steep[p] == steep[p - 100 : p + 100].max()]
    beat = np.mean([leads[p - 60 : p + 200] for p in peaks], axis=0)
    beat = (beat - beat.mean(0)).ravel()
    return beat / np.linalg.norm(beat)  # type: ignore[no-any-return]


def test_shares_add_up() -> None:
    for patients in (6, 7, 100, 3000, 84_711):
        counts = layout.shares(patients)
        assert sum(counts) == patients and min(counts) >= 1
        assert all(count <= cohort.patients for count, cohort in zip(counts, layout.COHORTS, strict=True))
