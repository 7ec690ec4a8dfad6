"""Every format gives the same samples, says what it does not know, and is refused with a reason when it is broken."""

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from data_tools import formats, hints, records
from data_tools.crops import INVALID, LEADS, cut
from data_tools.hints import Hints
from tests import others, recordings
from tests.recordings import noise

ALL = (1 << len(LEADS)) - 1
TWELVE = Hints(500, "mV", LEADS)


def read(path: Path, told: Hints = hints.NONE, resampled: bool = False) -> records.Recording:
    return records.read(str(path.parent), path.name, resampled=resampled, told=told)


def refusal(path: Path, told: Hints = hints.NONE) -> str:
    with pytest.raises(ValueError) as error:
        read(path, told, resampled=True)
    return str(error.value)


# --- one recording in every format ---


@pytest.mark.parametrize("suffix", others.WRITERS)
@pytest.mark.parametrize("leads", [LEADS, ("V2", "II", "aVF")], ids=["12", "3"])
def test_the_same_recording_gives_the_same_crops(tmp_path: Path, suffix: str, leads: tuple[str, ...]) -> None:
    columns = [LEADS.index(lead) for lead in leads]
    signal = noise(1, 10_000)
    recordings.write(tmp_path / "wfdb", "a", signal[:, columns], leads=leads)
    others.WRITERS[suffix](tmp_path / f"a{suffix}", signal[:, columns], leads)
    expected, found = read(tmp_path / "wfdb" / "a.hea"), read(tmp_path / f"a{suffix}")
    assert (found.signal == expected.signal).all() and found.signal.dtype == np.int16
    assert (found.leads, found.rate) == (expected.leads, 500)
    assert cut(found.signal, found.leads) == cut(expected.signal, expected.leads)


def test_edf_is_exact_to_its_quantum(tmp_path: Path) -> None:
    """5 mV over 16 bits: steps of 0.15 uV, so that no microvolt is lost. 50 mV: of 1.5 uV, cut off by the writer."""
    for limit, error in ((5_000, 0), (50_000, 2)):
        others.edf(tmp_path / "a.edf", noise(1), limits=(-limit, limit))
        difference = read(tmp_path / "a.edf").signal.astype(int) - noise(1)
        assert np.abs(difference).max() == error


@pytest.mark.parametrize("suffix", others.WRITERS)
def test_other_rates_are_resampled_alike(tmp_path: Path, suffix: str) -> None:
    recordings.write(tmp_path / "wfdb", "a", noise(1, 4000), rate="400")
    others.WRITERS[suffix](tmp_path / f"a{suffix}", noise(1, 4000), rate=400)
    assert refusal_of_rate(tmp_path / f"a{suffix}") == "not sampled at 500 Hz: 400 Hz"
    found = read(tmp_path / f"a{suffix}", resampled=True)
    assert (found.signal == read(tmp_path / "wfdb" / "a.hea", resampled=True).signal).all()
    assert (found.rate, len(found.signal)) == (400, 5000)


def refusal_of_rate(path: Path) -> str:
    with pytest.raises(ValueError) as error:
        read(path)
    return str(error.value)


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<i2", "<i4", "<u2", "<f2"])
@pytest.mark.parametrize("transposed", [False, True])
def test_arrays_of_every_type_and_order(tmp_path: Path, dtype: str, transposed: bool) -> None:
    signal = np.abs(noise(1)) % 2048  # what 16-bit floats hold
    array = signal.astype(dtype)
    np.save(tmp_path / "a.npy", np.asfortranarray(array).T if transposed else array)
    assert (read(tmp_path / "a.npy", TWELVE._replace(unit="uV")).signal == signal).all()


def test_nan_infinity_and_what_16_bits_cannot_hold_is_invalid(tmp_path: Path) -> None:
    signal = noise(1).astype(float)
    signal[0, 0], signal[1, 1], signal[2, 2], signal[3, 3] = np.nan, np.inf, 40_000, 1e300
    np.save(tmp_path / "a.npy", signal)
    found = read(tmp_path / "a.npy", TWELVE._replace(unit="uV")).signal
    assert [found[i, i] for i in range(4)] == [INVALID] * 4
    assert (found == INVALID).sum() == 4


def test_steps_of_a_converter_are_a_unit_too(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noise(1)[:, :2])
    found = read(tmp_path / "a.npy", Hints(500, "4.88uV", ("I", "V6")))
    assert (found.signal[:, 0] == np.rint(noise(1)[:, 0] * 4.88)).all()
    assert found.leads == 1 | 1 << 11


# --- what the file does not say ---


@pytest.mark.parametrize("missing", ["rate", "unit", "leads"])
def test_nothing_is_guessed(tmp_path: Path, missing: str) -> None:
    np.save(tmp_path / "a.npy", noise(1))
    told = TWELVE._replace(**{missing: None})
    assert refusal(tmp_path / "a.npy", told) == (
        f"its file does not say the {missing}; give --{missing}, or a recordings.json"
    )
    (tmp_path / "recordings.json").write_text(json.dumps({missing: TWELVE.plain()[missing]}))
    assert read(tmp_path / "a.npy", told).hinted == ("leads", "rate", "unit")


def test_the_file_comes_before_flags_and_these_before_a_sidecar(tmp_path: Path) -> None:
    (tmp_path / "recordings.json").write_text('{"unit": "V", "rate": 250}')
    others.csv(tmp_path / "a.csv", noise(1))
    assert (read(tmp_path / "a.csv", Hints(rate=100, unit="uV")).signal == noise(1)).all()
    np.save(tmp_path / "a.npy", noise(1))
    assert (read(tmp_path / "a.npy", TWELVE._replace(unit="uV")).signal == noise(1)).all()


def test_a_sidecar_holds_for_the_folders_below_and_the_nearest_counts(tmp_path: Path) -> None:
    for folder, unit in (("a", "uV"), ("a/b", None), ("a/b/c", "mV")):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "x.npy", noise(1) // 100)
        if unit:
            about = TWELVE._replace(unit=unit).plain()
            (tmp_path / folder / "recordings.json").write_text(json.dumps({k: v for k, v in about.items() if v}))
    for path, factor in (("a/x.npy", 1), ("a/b/x.npy", 1), ("a/b/c/x.npy", 1000)):
        found = records.read(str(tmp_path), path).signal
        assert (found == noise(1) // 100 * factor).all()
        assert (records.read_file(tmp_path / path).signal == found).all()


def test_no_sidecar_outside_of_the_archive_is_read(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    np.save(tmp_path / "raw" / "a.npy", noise(1))
    (tmp_path / "elsewhere.json").write_text(json.dumps(TWELVE._replace(unit="uV").plain() | {"key": "x"}))
    (tmp_path / "recordings.json").symlink_to("elsewhere.json")
    assert "does not say" in refusal(tmp_path / "raw" / "a.npy")
    (tmp_path / "raw" / "recordings.json").symlink_to("../elsewhere.json")
    assert refusal(tmp_path / "raw" / "a.npy") == "a file of the recording is a link out of the archive"


def test_another_sidecar_is_another_recording(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noise(1))
    stamps = []
    for unit in ("uV", "4.88uV"):
        (tmp_path / "recordings.json").write_text(f'{{"unit": "{unit}"}}')
        stamps.append(read(tmp_path / "a.npy", TWELVE._replace(unit=None)).stamp)
    assert stamps[0] != stamps[1]


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"rate": "fast"}', '{"rate": true}', '{"rate": 0}', '{"unit": "mmHg"}', '{"unit": 1}'),
        *('{"leads": "I"}', '{"leads": ["I", "I"]}', '{"leads": ["X"]}', '{"leads": []}', '{"leads": [1]}'),
        *('{"hz": 500}', '{"rate": 1e999}', "[" * 100_000, '{"key": ""}'),
    ],
)
def test_a_wrong_sidecar_is_refused(tmp_path: Path, text: str) -> None:
    np.save(tmp_path / "a.npy", noise(1))
    (tmp_path / "recordings.json").write_text(text)
    assert refusal(tmp_path / "a.npy").startswith("the recordings.json beside or above it is no JSON object of rate")


def test_channels_that_are_no_leads_are_left_out(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noise(1)[:, :4])
    found = read(tmp_path / "a.npy", Hints(500, "uV", ("-", "II", "-", "V1")))
    assert (found.signal[:, 1] == noise(1)[:, 1]).all() and (found.signal[:, 6] == noise(1)[:, 3]).all()
    assert found.leads == 1 << 1 | 1 << 6


def test_which_axis_is_time_is_not_guessed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noise(1, 12))
    assert refusal(tmp_path / "a.npy", TWELVE) == "has as many samples as leads; which is which cannot be told"
    np.save(tmp_path / "a.npy", noise(1)[:, :5])
    assert refusal(tmp_path / "a.npy", TWELVE) == "has another number of channels than there are names of leads"


# --- each format's own ways ---


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("I,II\n1,2\n3,4\n", "uV"),
        ("\ufeffI,II\n1,2\n3,4\n", "uV"),
        ("I;II\n1,0;2,0\n3,0;4,0\n", "uV"),
        ("I\tII\n1\t2\n3\t4\n", "uV"),
        ("ecg lead I (uV),EKG II [uV]\n1,2\n3,4\n", None),
        ("id,I,note,II\n7,1,,2\n7,3,,4\n", "uV"),
        ('"I","II"\n1.0,2.0\n3,4', "uV"),
        ("time,II,I\n0,2,1\n1,4,3\n", "uV"),
        ("I,II\r\n1,2\r\n3,4\r\n", "uV"),
    ],
)
def test_csv_as_it_comes(tmp_path: Path, text: str, unit: str | None) -> None:
    (tmp_path / "a.csv").write_text(text)
    found = read(tmp_path / "a.csv", Hints(500, unit)).signal
    assert found[:, :2].tolist() == [[1, 2], [3, 4]]


def test_csv_without_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")
    assert read(tmp_path / "a.csv", Hints(500, "uV", ("II", "I"))).signal[:, :2].tolist() == [[2, 1], [4, 3]]


def test_csv_gaps_are_invalid(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("I,II\n1,2\n,4\nnan,6\n")
    found = read(tmp_path / "a.csv", Hints(500, "uV")).signal
    assert found[:, :2].tolist() == [[1, 2], [INVALID, 4], [INVALID, 6]]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1000)])
def test_csv_tells_its_rate_by_its_times(tmp_path: Path, unit: str, factor: int) -> None:
    times = np.arange(4000) / 400 * factor
    lines = "".join(f"{time:.4f},{index}\n" for index, time in enumerate(times))
    (tmp_path / "a.csv").write_text(f"time ({unit}),II (uV)\n{lines}")
    assert read(tmp_path / "a.csv", resampled=True).rate == 400


def test_csv_with_a_gap_in_its_times_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time (s),II (uV)\n0,1\n0.002,2\n0.004,3\n0.5,4\n")
    assert refusal(tmp_path / "a.csv") == "its times are not evenly spaced"


def test_edf_takes_the_leads_and_leaves_other_channels(tmp_path: Path) -> None:
    others.edf(tmp_path / "a.edf", noise(1), more=[("Resp", "Ohm", 50), ("Marker", "", 1)])
    found = read(tmp_path / "a.edf")
    assert (found.signal == noise(1)).all() and found.rate == 500


def test_edf_leads_of_two_rates_are_refused(tmp_path: Path) -> None:
    others.edf(tmp_path / "a.edf", noise(1)[:, :2], leads=("I", "II"), more=[("V1", "uV", 250)])
    assert refusal(tmp_path / "a.edf") == "leads are sampled at different rates"


def test_a_lead_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("I,ECG I\n1,2\n3,4\n")
    assert refusal(tmp_path / "a.csv", Hints(500, "uV")) == "a lead stands there twice"


def test_dicom_says_age_and_sex_and_marks_padding(tmp_path: Path) -> None:
    signal = noise(1)
    signal[7, 3] = -9999
    others.dicom(tmp_path / "a.dcm", signal, WaveformPaddingValue=struct.pack("<h", -9999))
    found = read(tmp_path / "a.dcm")
    assert found.signal[7, 3] == INVALID and (found.signal == INVALID).sum() == 1
    assert found.comments == {"age": "093", "sex": "F"}


def test_dicom_channels_without_sensitivity_have_no_unit(tmp_path: Path) -> None:
    others.dicom(tmp_path / "a.dcm", noise(1))
    import pydicom

    file = pydicom.dcmread(tmp_path / "a.dcm")
    for channel in file.WaveformSequence[0].ChannelDefinitionSequence:
        del channel.ChannelSensitivity
    file.save_as(tmp_path / "a.dcm")
    assert "does not say the unit" in refusal(tmp_path / "a.dcm")
    assert (read(tmp_path / "a.dcm", Hints(unit="2uV")).signal == np.clip(noise(1) * 2, -32768, 32767)).all()


def test_dicom_of_two_recordings_is_refused(tmp_path: Path) -> None:
    others.dicom(tmp_path / "a.dcm", noise(1))
    import pydicom

    file = pydicom.dcmread(tmp_path / "a.dcm")
    file.WaveformSequence[1].WaveformOriginality = "ORIGINAL"
    file.save_as(tmp_path / "a.dcm")
    assert refusal(tmp_path / "a.dcm") == "holds several recorded waveforms"


def test_hdf5_and_matlab_of_several_arrays_need_a_key(tmp_path: Path) -> None:
    import h5py
    from scipy.io import savemat

    arrays = {"raw": noise(1), "filtered": noise(2)}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    savemat(tmp_path / "a.mat", arrays)
    for name in ("a.h5", "a.mat"):
        told = TWELVE._replace(unit="uV")
        assert refusal(tmp_path / name, told) == "holds several arrays; give --key"
        assert (read(tmp_path / name, told._replace(key="filtered")).signal == noise(2)).all()
        assert "no array of numbers of the name" in refusal(tmp_path / name, told._replace(key="none"))


def test_hdf5_reads_no_other_file(tmp_path: Path) -> None:
    import h5py

    raw = tmp_path / "raw"
    raw.mkdir()
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["ecg"] = noise(1)
    (tmp_path / "secret.bin").write_bytes(noise(1).tobytes())
    with h5py.File(raw / "link.h5", "w") as file:
        file["ecg"] = h5py.ExternalLink("../secret.h5", "ecg")
    with h5py.File(raw / "external.h5", "w") as file:
        external = [("../secret.bin", 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("ecg", (5000, 12), "i2", external=external)
    with h5py.File(raw / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((5000, 12), "i2")
        layout[:] = h5py.VirtualSource("../secret.h5", "ecg", shape=(5000, 12))
        file.create_virtual_dataset("ecg", layout)
    assert refusal(raw / "link.h5", TWELVE) == "holds no array of numbers"
    assert refusal(raw / "external.h5", TWELVE) == "its array lies in another file"
    assert refusal(raw / "virtual.h5", TWELVE) == "its array lies in another file"


def test_matlab_of_version_73_is_hdf5(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        file["val"] = noise(1)
    with (tmp_path / "a.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    assert (read(tmp_path / "a.mat", TWELVE._replace(unit="uV")).signal == noise(1)).all()


def test_age_and_sex_of_a_matlab_struct(tmp_path: Path) -> None:
    others.matlab(tmp_path / "a.mat", noise(1))
    assert read(tmp_path / "a.mat").comments == {"age": "61", "sex": "Female"}


def test_no_pickle_is_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], object), allow_pickle=True)
    assert refusal(tmp_path / "a.npy", TWELVE) == "holds no numbers"


def test_several_recordings_in_one_array_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 5000, 12), np.int16))
    assert refusal(tmp_path / "a.npy", TWELVE) == "holds several recordings in one array; give each a file of its own"


# --- broken files ---


@pytest.mark.parametrize("suffix", others.WRITERS)
@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, 0.99])
def test_what_is_cut_off_is_refused_or_read_to_its_end(tmp_path: Path, suffix: str, kept: float) -> None:
    path = tmp_path / f"a{suffix}"
    others.WRITERS[suffix](path, noise(1))
    size = path.stat().st_size
    os.truncate(path, int(kept if kept >= 1 or kept == 0 else size * kept))
    try:
        found = read(path, TWELVE, resampled=True)
    except ValueError as error:
        assert str(error) and "Jane" not in str(error)
    else:
        assert suffix == ".csv" or (found.signal == noise(1)).all()  # cut off behind the samples


@pytest.mark.parametrize("suffix", sorted(formats.SUFFIXES))
@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"\xff" * 5000, b"Jane Doe\n" * 1000])
def test_what_is_another_file_altogether_is_refused(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    assert "Jane" not in refusal(path, TWELVE)


def npy_header(shape: tuple[int, ...]) -> bytes:
    import io

    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("shape", [(10**12, 12), (10**6, 12), (0, 12), (5000, 0), (10**400, 12)])
def test_impossible_shapes_allocate_nothing(tmp_path: Path, shape: tuple[int, ...]) -> None:
    (tmp_path / "a.npy").write_bytes(npy_header(shape))
    try:
        assert read(tmp_path / "a.npy", TWELVE).signal.shape == (0, 12)
    except ValueError as error:
        assert str(error)


def test_bombs_are_refused(tmp_path: Path) -> None:
    """40 GB of zeros in a file of a few kB."""
    import zlib

    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("ecg", (12, 5 * 10**8), "f8", chunks=(1, 10**6), compression="gzip")[0, :10] = 1
    assert refusal(tmp_path / "a.h5", TWELVE) == "larger than 4 GiB once decoded"
    deflate = zlib.compressobj()
    packed = b"".join(deflate.compress(bytes(1 << 24)) for _ in range(300)) + deflate.flush()
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    (tmp_path / "a.mat").write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)
    assert refusal(tmp_path / "a.mat", TWELVE) == "larger than 4 GiB once decoded"


def test_a_pipe_or_a_folder_is_no_recording(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.edf")
    (tmp_path / "b.edf").mkdir()
    for name in ("a.edf", "b.edf"):
        assert refusal(tmp_path / name) == "a file of the recording is no ordinary file"


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others.edf(tmp_path / "a.edf", noise(1))
    monkeypatch.setitem(__import__("sys").modules, "pyedflib", None)
    expected = "pyedflib is needed to read such files; pip install 'leadwise[formats]'"
    assert refusal(tmp_path / "a.edf") == expected
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pydicom is needed to read \.dcm files: pip install 'leadwise\[formats\]'"):
        formats.check_installed(["x/a.DCM"])


# --- real files ---

FLAGS = Hints(500, "mV", LEADS)
CODE = Hints(None, "mV", LEADS)


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("path", "told", "shape", "rate"),
    [
        ("cpsc2018_original_struct/A1980.mat", FLAGS, (5000, 12), 500),
        ("cpsc2018_original_struct/A1981.mat", FLAGS, (7950, 12), 500),
        ("code15_400hz_mat5/code_15_270272.mat", CODE, (5120, 12), 400),
        ("code15_400hz_mat5/code_15_1238362.mat", CODE, (3668, 12), 400),
        ("sph_h5/SPH00001.h5", FLAGS, (5000, 12), 500),
        ("sph_h5/SPH00003.h5", FLAGS, (6500, 12), 500),
    ],
)
def test_real_files(realdata: Path, path: str, told: Hints, shape: tuple[int, int], rate: float) -> None:
    assert refusal(realdata / "odd" / path).startswith("its file does not say the leads")
    found = read(realdata / "odd" / path, told, resampled=True)
    assert (found.signal.shape, found.rate, found.leads) == (shape, rate, ALL)
    one, two, three = (found.signal[:, lead].astype(int) for lead in range(3))
    assert np.median(np.abs(two - one - three)) <= 2  # the leads are in the order that was said


@pytest.mark.realdata
def test_a_real_recording_in_every_format(realdata: Path, tmp_path: Path) -> None:
    header = realdata / "challenge-2021-mini/training/georgia/g8/E07501.hea"
    expected = read(header).signal
    for suffix, write in others.WRITERS.items():
        write(tmp_path / f"a{suffix}", expected)
        assert (read(tmp_path / f"a{suffix}").signal == expected).all()
