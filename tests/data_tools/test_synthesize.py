"""The artificial archive: same seed, same bytes; leads that agree; classes and patients that can be told."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.believable import FEATURES, measure
from data_tools import files, records
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
        run("synthesize", "--out", tmp_path / name, "--patients", 700, "--seed", seed, "--workers", workers)
    a, b, c = (fingerprint(tmp_path / name) for name in "abc")
    assert a == b
    assert a.keys() == c.keys() and all(a[name] != c[name] for name in a if name.endswith(".mat"))


def test_leads_agree_to_two_units(archive: Path) -> None:
    checked = 0
    for header in sorted((archive / "challenge-2021").rglob("*.hea"))[::7]:
        signal = records.read(str(header.parent), header.name).signal.astype(int)
        if (signal == INVALID).any() or not np.ptp(signal, axis=0).all():
            continue  # Ningbo's defects
        if signal.max() == 32767:
            continue  # at the rail
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


def test_headers_are_written_as_each_cohort_writes_them(archive: Path) -> None:
    training = archive / "challenge-2021" / "training"
    texts = {name: [path.read_text() for path in (training / name).rglob("*.hea")] for name in classes.COHORTS}
    assert not any("Sx" in text for text in texts["georgia"]) and all("Sx" in text for text in texts["ningbo"])
    assert all("/mV" in text for text in texts["chapman_shaoxing"]) and any("/mv" in text for text in texts["ptb-xl"])
    assert {"# Age" in text for text in texts["ningbo"]} == {True, False}
    assert any(text.split()[0].endswith(".mat") for text in texts["georgia"])
    assert all("Mar-2021" in text or "# Age" in text for text in texts["ningbo"])


def test_patients_grow_older(archive: Path) -> None:
    table = (archive / "ptb-xl" / "ptbxl_database.csv").read_text().splitlines()[1:]
    visits: dict[str, list[tuple[str, float]]] = {}
    for row in (line.split(",") for line in table):
        if row[2]:
            visits.setdefault(row[1], []).append((row[4], float(row[2])))
    several = [rows for rows in visits.values() if len(rows) > 1]
    assert several and all(rows == sorted(rows) for rows in several)
    assert any(rows[0][1] < rows[-1][1] for rows in several)


def test_a_run_goes_on_and_two_do_not_mix(tmp_path: Path) -> None:
    out = tmp_path / "raw"
    (tmp_path / "raw.partial").mkdir()
    with files.locked(tmp_path / "raw.partial"):
        assert "another run is at work" in run("synthesize", "--out", out, "--patients", 60, code=1)
    run("synthesize", "--out", tmp_path / "expected", "--patients", 60)
    command = [sys.executable, "-m", "data_tools.synthesize", "--out", str(out), "--patients", "60"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while not list((tmp_path / "raw.partial").rglob("*.mat")):
            assert process.poll() is None
        process.kill()
    assert "other arguments" in run("synthesize", "--out", out, "--patients", 61, code=1)
    run("synthesize", "--out", out, "--patients", 60)
    assert fingerprint(out) == fingerprint(tmp_path / "expected")
    assert not (tmp_path / "raw.partial").exists()


def test_wrong_arguments_are_one_line(tmp_path: Path) -> None:
    assert "from 6 to 84,711" in run("synthesize", "--out", tmp_path / "a", "--patients", 5, code=1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").touch()
    assert "exists already" in run("synthesize", "--out", tmp_path / "b", "--patients", 50, code=1)


# --- classes ---


def shown(name: str, seed: int) -> classes.Ecg:
    chance = np.random.default_rng([5, seed])
    return classes.shown(patient(chance).ecg, [name], chance)


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
        return heart.duration(ecg.qrs)

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
        assert min(lead(name, shown("TInv", seed), "t").min() for name in ("I", "II", "V2", "V3", "V5")) < -0.1
    assert not shown("AF", 0).has_p and not shown("AFL", 0).has_p and shown("PR", 0).spike


def measured(name: str, feature: str) -> float:
    """Median over twelve hearts, of what can be measured on a recording of the class."""
    found = []
    for seed in range(12):
        chance = np.random.default_rng([11, seed])
        row = measure(record(patient(chance), [name], 10, chance))
        if row is not None:
            found.append(row[FEATURES.index(feature)])
    return float(np.median(found))


@pytest.mark.parametrize(
    ("name", "feature", "factor"),
    [
        ("AF", "P in II", 0.75),
        ("AF", "interval spread", 4.0),
        ("AFL", "P in II", 1.5),  # what stands before the QRS complex is a tooth
        ("PAC|SVPB", "early beats", np.inf),
        ("PVC|VPB", "early beats", np.inf),
        ("PVC|VPB", "widest beat", 1.2),
        ("PR", "spike", 1.3),
        ("CLBBB|LBBB", "QRS", 1.4),
        ("CRBBB|RBBB", "late V1", np.inf),
        ("NSIVCB", "QRS", 1.25),
        ("IAVB", "PR", 1.25),
        ("LQT", "QTc", 1.1),
        ("LQRSV", "limb peak to peak", 0.45),
        ("TAb", "T in V5", 0.5),
        ("QAb", "QRS", 1.05),
        ("SA", "interval spread", 2.5),
        ("PRWP", "R in V3", 0.4),
    ],
)
def test_classes_show_in_what_is_recorded(name: str, feature: str, factor: float) -> None:
    normal, other = measured("NSR", feature), measured(name, feature)
    if factor == np.inf:
        assert other > max(normal, 0.0) + 0.02
    elif factor > 1:
        assert other > factor * normal
    else:
        assert other < factor * normal


@pytest.mark.parametrize("name", sorted(CLASS_NAMES))
@pytest.mark.parametrize("seconds", [5, 60, 144])
def test_no_heart_stops_before_the_recording_does(name: str, seconds: int) -> None:
    for seed in range(4):
        ecg = shown(name, seed)
        found = beats(ecg.rhythm, seconds, np.random.default_rng(seed))
        assert found.time[0] < 0 and found.time[-1] > seconds and np.diff(found.time).max() < 3.2
        if ecg.rhythm.ectopic_part:
            inside = (found.time > 0.2) & (found.time < seconds)
            assert (found.kind[inside] == ecg.rhythm.ectopic).any()


def test_a_deviation_is_what_it_says_beside_other_classes() -> None:
    def axis(names: list[str], seed: int) -> float:
        chance = np.random.default_rng([12, seed])
        return heart.frontal_axis(classes.shown(patient(chance).ecg, names, chance).qrs)

    for seed in range(30):
        for other in ("CRBBB|RBBB", "QAb", "LQRSV", "IRBBB", "NSIVCB"):
            assert -90 <= axis([other, "LAD"], seed) <= -30
            assert 90 <= axis([other, "RAD"], seed) <= 180
            assert -30 < axis([other], seed) < 90


def test_counts_are_those_of_the_challenge() -> None:
    chance = np.random.default_rng(1)
    for cohort in (2, 5):
        drawn = [classes.passing(cohort, classes.lasting(cohort, chance), chance) for _ in range(6000)]
        for name in CLASS_NAMES:
            wanted = classes.COUNTS[name][cohort] / classes.RECORDINGS[cohort]
            assert sum(name in names for names in drawn) / 6000 == pytest.approx(wanted, rel=0.2, abs=0.006), name


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
    assert (
        set(classes.COUNTS)
        == set(CLASS_NAMES)
        == {
            *classes.STANDING,
            *classes.SINUS,
            *classes.LASTING,
            *classes.PASSING,
        }
    )
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
