import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import wfdb

from data_tools import records
from data_tools.crops import INVALID, LEADS
from data_tools.labels import class_names, read_dx
from tests.recordings import noise, write

ALL = (1 << len(LEADS)) - 1


def mask(*leads: str) -> int:
    return sum(1 << LEADS.index(lead) for lead in leads)


# --- the fast path ---


@pytest.mark.parametrize("head", [bytes(24), b""], ids=["mat", "dat"])
def test_the_fast_path_reads_what_wfdb_reads(tmp_path: Path, head: bytes) -> None:
    write(tmp_path, "A0001", noise(1), head=head)
    recording = records.read(str(tmp_path), "A0001.hea")
    assert (recording.signal == wfdb.rdrecord(str(tmp_path / "A0001"), physical=False).d_signal).all()
    assert (recording.leads, recording.rate) == (ALL, 500)
    assert recording.comments["dx"] == "426783006"


@pytest.mark.parametrize(("gain", "dx"), [("1000/mV", "#Dx: "), ("1000.0(0)/mV", "# Dx: ")], ids=["2021", "1.0.3"])
def test_both_header_styles_give_labels(tmp_path: Path, gain: str, dx: str) -> None:
    """Tools that look for `#Dx` find nothing in 1.0.3, and score 0 without a word."""
    write(tmp_path, "A0001", noise(1), gain=gain, comments=[dx + "59118001,,164889003"])
    found = read_dx(records.read(str(tmp_path), "A0001.hea").comments["dx"])
    assert class_names(found.classes) == ["AF", "CRBBB|RBBB"]


@pytest.mark.realdata
def test_every_recording_of_the_public_archives_reads_as_wfdb_reads_it(realdata: Path) -> None:
    compared = 0
    for header in sorted(
        [*realdata.glob("challenge-2021-mini/training/*/*/*.hea"), *realdata.glob("ptb-xl-mini/*/*/*.hea")]
    ):
        ours = (
            records.read(str(realdata), header.relative_to(realdata).as_posix(), resampled=False)
            if not ("/ptb/" in str(header) or "records100" in str(header))
            else None
        )
        if ours is None or header.stem.startswith("E"):  # wfdb 4.3.1 raises on some of Georgia's record lines
            continue
        assert (ours.signal == wfdb.rdrecord(str(header.with_suffix("")), physical=False).d_signal).all(), header
        compared += 1
    assert compared > 140


@pytest.mark.realdata
def test_georgias_recordings_hold_the_raw_samples(realdata: Path) -> None:
    for header in realdata.glob("challenge-2021-mini/training/georgia/*/*.hea"):
        raw = np.fromfile(header.with_suffix(".mat"), "<i2", offset=24).reshape(-1, 12)
        assert (records.read(str(header.parent), header.name).signal == raw).all()


def test_leads_are_ordered_by_name(tmp_path: Path) -> None:
    signal = noise(1)
    order = [7, 3, 0, 11, 5, 1, 2, 9, 4, 6, 8, 10]
    write(tmp_path, "a", signal[:, order], leads=[LEADS[i].upper() for i in order])  # AVR, as PTB-XL spells it
    assert (records.read(str(tmp_path), "a.hea").signal == signal).all()


def test_absent_leads_are_zero_and_other_signals_are_left_out(tmp_path: Path) -> None:
    signal = noise(1)
    write(tmp_path, "a", signal[:, [1, 5, 9]], leads=["II", "vx", "V2"])
    recording = records.read(str(tmp_path), "a.hea")
    assert recording.leads == mask("II", "V2")
    assert (recording.signal[:, LEADS.index("II")] == signal[:, 1]).all()
    assert (recording.signal[:, LEADS.index("V2")] == signal[:, 9]).all()
    assert not np.delete(recording.signal, [LEADS.index("II"), LEADS.index("V2")], 1).any()


@pytest.mark.parametrize(
    ("gain", "microvolts"),
    [
        ("200(0)/mV", lambda d: d * 5),
        ("200(100)/mV", lambda d: (d - 100) * 5),
        ("1(0)/uV", lambda d: d),
        ("2000000(0)/V", lambda d: d // 2 + (d % 2) * ((d // 2) % 2)),  # half microvolts go to the even side
    ],
)
def test_gain_baseline_and_unit_become_microvolts(tmp_path: Path, gain: str, microvolts: object) -> None:
    signal = noise(1)
    write(tmp_path, "a", signal, gain=gain)
    expected = microvolts(signal.astype(int))  # type: ignore[operator]
    assert (records.read(str(tmp_path), "a.hea").signal == expected).all()


def test_what_sixteen_bits_cannot_hold_is_invalid(tmp_path: Path) -> None:
    signal = np.zeros((2500, 12), np.int16)
    signal[:, 0] = np.arange(2500)
    signal[3, 0], signal[4, 1] = 7000, INVALID  # 35 mV; WFDB's mark
    write(tmp_path, "a", signal, gain="200(0)/mV")
    read = records.read(str(tmp_path), "a.hea").signal
    assert np.argwhere(read == INVALID).tolist() == [[3, 0], [4, 1]]


def test_a_known_wrong_gain_is_put_right(tmp_path: Path) -> None:
    write(tmp_path, "E00001", noise(1), gain="4880/mV")
    assert (records.read(str(tmp_path), "E00001.hea", wrong_gain=4880).signal == noise(1)).all()
    assert records.read(str(tmp_path), "E00001.hea", wrong_gain=4880).gain_corrected
    assert not records.read(str(tmp_path), "E00001.hea").gain_corrected


def test_the_signal_file_is_the_one_the_header_names(tmp_path: Path) -> None:
    write(tmp_path, "S23074", noise(1), file="JS23074.mat")
    write(tmp_path, "other", noise(2), file="S23074.mat")
    assert (records.read(str(tmp_path), "S23074.hea").signal == noise(1)).all()


def test_another_rate_is_refused_unless_resampling(tmp_path: Path) -> None:
    write(tmp_path, "a", noise(1), rate="1000")
    with pytest.raises(ValueError, match="not sampled at 500 Hz: 1000 Hz"):
        records.read(str(tmp_path), "a.hea")
    assert records.read(str(tmp_path), "a.hea", resampled=True).signal.shape == (2500, 12)
    write(tmp_path, "a", noise(1), rate="0.001")  # would become 2.5 * 10^9 samples
    with pytest.raises(ValueError, match="not sampled at 500 Hz: 0.001 Hz"):
        records.read(str(tmp_path), "a.hea", resampled=True)


# --- what is refused ---


def test_a_wrong_checksum_names_its_lead(tmp_path: Path) -> None:
    write(tmp_path, "a", noise(1))
    data = bytearray((tmp_path / "a.mat").read_bytes())
    data[24 + 2 * (12 * 100 + 8)] ^= 1  # V3, one bit
    (tmp_path / "a.mat").write_bytes(data)
    with pytest.raises(ValueError, match="checksum does not hold: V3$"):
        records.read(str(tmp_path), "a.hea")


def test_a_short_signal_file(tmp_path: Path) -> None:
    write(tmp_path, "a", noise(1))
    os.truncate(tmp_path / "a.mat", 100_000)
    with pytest.raises(ValueError, match="shorter than its header says"):
        records.read(str(tmp_path), "a.hea")


@pytest.mark.parametrize("format_", ["16+24", "212", "80", "508"])
def test_a_length_that_is_a_lie_allocates_nothing(tmp_path: Path, format_: str) -> None:
    (tmp_path / "a.hea").write_text(f"a 1 500 999999999999\na.dat {format_} 1000/mV 16 0 0 0 0 I\n")
    (tmp_path / "a.dat").write_bytes(bytes(1000))
    with pytest.raises(ValueError, match="shorter than its header says|larger than 4 GiB"):
        records.read(str(tmp_path), "a.hea")


@pytest.mark.parametrize("name", ["../secret.mat", "/etc/passwd", "sub/a.mat", "..", "..\\a.mat"])
def test_a_header_cannot_name_a_file_outside_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.mat").write_bytes(bytes(100_000))
    folder = tmp_path / "archive"
    header = write(folder, "a", noise(1))
    header.write_text(header.read_text().replace("a.mat", name))
    with pytest.raises(ValueError, match="^header names a file outside its folder$"):
        records.read(str(folder), "a.hea")


@pytest.mark.parametrize("suffix", [".hea", ".mat"])
def test_a_link_out_of_the_archive_is_not_followed(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / "elsewhere", "a", noise(1))
    write(tmp_path / "archive", "a", noise(2))
    (tmp_path / "archive" / f"a{suffix}").unlink()
    (tmp_path / "archive" / f"a{suffix}").symlink_to(tmp_path / "elsewhere" / f"a{suffix}")
    with pytest.raises(ValueError, match="link out of the archive"):
        records.read(str(tmp_path / "archive"), "a.hea")


def test_a_link_within_the_archive_is(tmp_path: Path) -> None:
    write(tmp_path / "one", "a", noise(1))
    (tmp_path / "two").mkdir()
    for name in ("a.hea", "a.mat"):
        (tmp_path / "two" / name).symlink_to(f"../one/{name}")
    assert (records.read(str(tmp_path), "two/a.hea").signal == noise(1)).all()


def test_a_pipe_is_no_recording(tmp_path: Path) -> None:
    write(tmp_path, "a", noise(1))
    (tmp_path / "a.mat").unlink()
    os.mkfifo(tmp_path / "a.mat")
    with pytest.raises(ValueError, match="no ordinary file"):
        records.read(str(tmp_path), "a.hea")


def test_a_segment_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, "part", noise(1))
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "a.hea").write_text("a/1 12 500 5000\n../part 5000\n")
    with pytest.raises(ValueError, match="outside its folder"):
        records.read(str(tmp_path / "archive"), "a.hea")


@pytest.mark.parametrize(
    ("leads", "reason"), [(["ECG 1", "ECG 2"], "none of the twelve leads"), (["II", "ii"], "a lead stands there twice")]
)
def test_leads_that_cannot_be_told(tmp_path: Path, leads: list[str], reason: str) -> None:
    write(tmp_path, "a", noise(1)[:, :2], leads=leads)
    with pytest.raises(ValueError, match=reason):
        records.read(str(tmp_path), "a.hea")


def test_pressure_is_no_lead_whatever_its_name(tmp_path: Path) -> None:
    write(tmp_path, "a", noise(1)[:, :1], leads=["II"], gain="100(0)/mmHg")
    with pytest.raises(ValueError, match="in a unit of voltage"):
        records.read(str(tmp_path), "a.hea")


# --- through wfdb ---


def test_other_formats_and_rates_within_a_frame(tmp_path: Path) -> None:
    """Two leads of two samples a frame at 250 frames a second, beside a slow signal: 500 Hz."""
    leads = (noise(1)[:, :2] // 8).astype(np.int64)  # 12 bits
    frames = [leads[:, 0], leads[:, 1], np.arange(2500) % 50]
    wfdb.wrsamp(
        "a", fs=250, units=["mV", "mV", "mmHg"], sig_name=["I", "V6", "ABP"], e_d_signal=frames,
        fmt=["212"] * 3, adc_gain=[500.0] * 3, baseline=[10, 0, 0], samps_per_frame=[2, 2, 1], write_dir=str(tmp_path),
    )  # fmt: skip
    recording = records.read(str(tmp_path), "a.hea")
    assert (recording.leads, recording.rate) == (mask("I", "V6"), 500)
    assert (recording.signal[:, 0] == (leads[:, 0] - 10) * 2).all()
    assert (recording.signal[:, 11] == leads[:, 1] * 2).all()


def test_a_wrong_checksum_of_another_format_is_found(tmp_path: Path) -> None:
    leads = (noise(1)[:, :2] // 8).astype(np.int64)
    wfdb.wrsamp("a", fs=500, units=["mV"] * 2, sig_name=["I", "II"], d_signal=leads, fmt=["212"] * 2,
                adc_gain=[1000.0] * 2, baseline=[0, 0], write_dir=str(tmp_path))  # fmt: skip
    data = bytearray((tmp_path / "a.dat").read_bytes())
    data[300] ^= 1
    (tmp_path / "a.dat").write_bytes(data)
    with pytest.raises(ValueError, match="checksum does not hold: I$"):
        records.read(str(tmp_path), "a.hea")


def test_wfdb_opens_no_other_file_than_the_one_that_was_checked(tmp_path: Path) -> None:
    """wfdb leaves out what is not ASCII: it would read evil.dat, a link out of the archive."""
    archive = tmp_path / "archive"
    header = write(archive, "a", noise(1)[:, :2], leads=["I", "II"], head=b"", file="ev\u00e9il.dat")
    header.write_text(header.read_text().replace("dat 16 ", "dat 16:1 "))
    (tmp_path / "secret.dat").write_bytes(noise(2)[:, :2].tobytes())
    (archive / "evil.dat").symlink_to(tmp_path / "secret.dat")
    with pytest.raises(ValueError, match="header is not plain ASCII"):
        records.read(str(archive), "a.hea")


def test_a_wrong_gain_is_put_right_on_every_path(tmp_path: Path) -> None:
    header = write(tmp_path, "E00001", noise(1)[:, :2], leads=["I", "II"], gain="4880/mV")
    header.write_text(header.read_text().replace("16+24", "16:1+24", 1))  # a skewed signal: through wfdb
    recording = records.read(str(tmp_path), "E00001.hea", wrong_gain=4880)
    assert recording.gain_corrected
    assert (recording.signal[:-1, 0] == noise(1)[1:, 0]).all() and (recording.signal[:, 1] == noise(1)[:, 1]).all()


@pytest.mark.parametrize(
    "signal",
    [
        f"a.mat 16+24 1000({'1' * 400})/mV 16 0 0 0 0 I",
        f"a.mat 16+{'1' * 25} 1000/mV 16 0 0 0 0 I",
        f"a.mat 24 1000({'1' * 400})/mV 16 0 0 0 0 I",
    ],
)
@pytest.mark.parametrize("samples", ["", " 100", " " + "9" * 4000])
def test_impossible_numbers_are_refused(tmp_path: Path, signal: str, samples: str) -> None:
    (tmp_path / "a.hea").write_text(f"a 1 500{samples}\n{signal}\n")
    (tmp_path / "a.mat").write_bytes(bytes(100_000))
    with pytest.raises(ValueError, match="impossible|shorter|larger|malformed|wfdb cannot"):
        records.read(str(tmp_path), "a.hea")


def test_segments_that_repeat_allocate_nothing(tmp_path: Path) -> None:
    write(tmp_path, "part", noise(1))
    lines = ["part 5000"] * 9000
    (tmp_path / "a.hea").write_text("\n".join([f"a/{len(lines)} 12 500 {5000 * len(lines)}", *lines, ""]))
    with pytest.raises(ValueError, match="larger than 4 GiB"):
        records.read(str(tmp_path), "a.hea")


# What becomes of each file of the zoo: leads, rate, samples at 500 Hz; or the reason it is refused.
ZOO = {
    "derived/A99405": "signal file is shorter than its header says",
    "derived/E99880": (ALL, 500, 2500),
    "derived/I99001": (ALL, 257, 15_000),
    "derived/JS99052": "header is malformed",
    "derived/JS99765": (ALL, 500, 2500),
    "derived/S99074": (ALL, 500, 2500),
    "reduced_leads/2/E07500": (mask("I", "II"), 500, 5000),
    "reduced_leads/3/HR06000": (mask("I", "II", "V2"), 500, 5000),
    "reduced_leads/6/JS20000": (mask("I", "II", "III", "aVR", "aVL", "aVF"), 500, 5000),
    "old_2020_headers/HR00001": "a file of the recording is missing",
    "two_lead_200hz_fmt16_baseline/data_101_6": (mask("I", "II"), 200, 55_888),
    "wfdb_sample_data/100": (mask("V5"), 360, 902_778),
    "wfdb_sample_data/100skew": (mask("V5"), 360, 902_778),
    "wfdb_sample_data/100-no-len": (mask("V5"), 360, 902_778),
    "wfdb_sample_data/100_3chan": (mask("I", "II", "III"), 360, 1388),
    "wfdb_sample_data/3000003_0003": (mask("II"), 125, 4112),
    "wfdb_sample_data/310derive": "none of the twelve leads, in a unit of voltage",
    "wfdb_sample_data/a103l-no-len": (mask("II"), 250, 165_000),
    "wfdb_sample_data/binformats": "none of the twelve leads, in a unit of voltage",
    "wfdb_sample_data/mixedsignals": (mask("II", "III"), 62.4725 * 4, 115_258),
    "wfdb_sample_data/s0010_re": (ALL, 1000, 19_200),
    "wfdb_sample_data/v102s": (mask("II"), 250, 150_000),
    "wfdb_sample_data/multi-segment/041s/041s": (mask("I", "III"), 500, 8000),
    "wfdb_sample_data/multi-segment/fixed1/v102s": (mask("II"), 250, 450_000),
    "wfdb_sample_data/multi-segment/p000878/3269321_layout": "a layout header, which names signals and holds none",
    "wfdb_sample_data/multi-segment/p000878/p000878-2137-10-26-16-57": "a file of the recording is missing",
}


@pytest.mark.realdata
@pytest.mark.parametrize("name", ZOO)
def test_the_zoo(realdata: Path, name: str) -> None:
    expected = ZOO[name]
    if isinstance(expected, str):
        with pytest.raises(ValueError) as refusal:
            records.read(str(realdata / "odd"), f"{name}.hea", resampled=True)
        assert str(refusal.value) == expected
    else:
        recording = records.read(str(realdata / "odd"), f"{name}.hea", resampled=True)
        assert (recording.leads, recording.rate, len(recording.signal)) == pytest.approx(expected)


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["multi-segment/041s/041s", "multi-segment/041s/041s02"])
def test_microvolts_of_other_forms_are_wfdbs_physical_signal(realdata: Path, name: str) -> None:
    path = realdata / "odd" / "wfdb_sample_data" / name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = wfdb.rdrecord(str(path), smooth_frames=False)
    ours = records.read(str(path.parent), f"{path.name}.hea").signal
    for lead in ("I", "III"):
        physical = record.e_p_signal[record.sig_name.index(lead)]
        expected = np.where(np.isnan(physical), INVALID, np.rint(physical * 1000))
        assert (ours[:, LEADS.index(lead)] == expected).all()
