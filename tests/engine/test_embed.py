"""Embedding as a user calls it, against vectors worked out here from the samples themselves."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray

from data_tools import records
from data_tools.crops import INVALID, LEADS
from data_tools.resample import to_rate
from engine import released
from engine.embed import main
from engine.embedding import encoding, reading, whole
from engine.embedding.sources import find
from engine.model.encoder import Encoder, mean_over_time
from engine.model.sizes import NO_DROPOUT, Sizes
from tests import others
from tests.recordings import noise, write

SMALL = Sizes(conv_dim=16, dim=32, layers=1, heads=2, feedforward=32, position_taps=16, position_groups=4)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "encoder"
    torch.manual_seed(2)
    weights = {f"encoder.{name}": value for name, value in Encoder(SMALL).state_dict().items()}
    released.save(folder, weights, "paper", SMALL, {"system": "w2v", "trained_leads": list(LEADS)})
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def embed(*arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["embed", *map(str, arguments)])
        found = main()
        said = capsys.readouterr()
        assert found == code, said.out + said.err
        return said.err

    return embed


def contexts(model: Path, microvolts: NDArray[np.int16]) -> torch.Tensor:
    """[segments, tokens, dim] of a recording of whole segments."""
    encoder = Encoder(SMALL, drop=NO_DROPOUT).eval()
    encoder.load_state_dict({n.removeprefix("encoder."): v for n, v in released.read(model)[1].items()})
    with torch.no_grad():
        return encoder(torch.from_numpy(microvolts.reshape(-1, 2500, 12) / 1000).float()).contexts


def expected(model: Path, microvolts: NDArray[np.int16]) -> NDArray[np.float32]:
    return mean_over_time(contexts(model, microvolts)).mean(0).numpy()


def rows(path: Path) -> dict[str, dict[str, Any]]:
    """By the name of the recording's file."""
    return {Path(row["recording"]).name: row for row in pq.read_table(path).to_pylist()}


def assert_close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=0, atol=2e-6)


def test_one_recording_in_seven_formats_has_one_vector(tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    raw = tmp_path / "raw"
    write(raw, "wfdb", noise(1, 7500))
    for suffix, writer in others.WRITERS.items():
        (raw / suffix[1:]).mkdir()
        writer(raw / suffix[1:] / f"a{suffix}", noise(1, 7500))
    assert run(raw, "--model", model, "--out", tmp_path / "e.parquet") == ""
    found = rows(tmp_path / "e.parquet")
    assert len(found) == 1 + len(others.WRITERS) == 7
    for row in found.values():
        assert_close(row["embedding"], expected(model, noise(1, 7500)))
        assert (row["start"], row["lead_mask"], row["rate"]) == ([0, 2500, 5000], [4095] * 3, 500)
    assert np.abs(expected(model, noise(2, 7500)) - expected(model, noise(1, 7500))).max() > 0.01
    about = json.loads(pq.read_schema(tmp_path / "e.parquet").metadata[b"leadwise"])
    assert about["leads"] == list(LEADS) and about["pool"] == "mean" and about["model"]["system"] == "w2v"


def test_other_rates_rests_and_lead_subsets(tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    raw = tmp_path / "raw"
    write(raw, "slow", noise(1, 4000 + 100), rate="400")  # 10.25 s
    write(raw, "two", noise(2)[:, [1, 7]], leads=["II", "V2"])
    run(raw, "--model", model, "--out", tmp_path / "e.parquet")
    found = rows(tmp_path / "e.parquet")
    slow = to_rate(noise(1, 4100), 400, 500)
    assert len(slow) == 5125 and found["slow.hea"]["rate"] == 400
    assert_close(found["slow.hea"]["embedding"], expected(model, slow[:5000]))
    two = np.zeros_like(noise(2))
    two[:, [1, 7]] = noise(2)[:, [1, 7]]
    assert_close(found["two.hea"]["embedding"], expected(model, two))
    assert found["two.hea"]["lead_mask"] == [1 << 1 | 1 << 7] * 2
    run(raw / "two.hea", "--model", model, "--out", tmp_path / "v2.parquet", "--leads", "V2,I")
    two[:, 1] = 0
    assert_close(rows(tmp_path / "v2.parquet")["two.hea"]["embedding"], expected(model, two))


def test_what_a_model_was_trained_with_is_all_it_sees(tmp_path: Path, run: Callable[..., str]) -> None:
    torch.manual_seed(3)
    weights = {f"encoder.{name}": value for name, value in Encoder(SMALL).state_dict().items()}
    released.save(tmp_path / "m", weights, "paper", SMALL, {"system": "w2v", "trained_leads": ["I", "II"]})
    write(tmp_path / "raw", "a", noise(1))
    write(tmp_path / "raw", "b", noise(1)[:, :1], leads=["V1"])
    said = run(tmp_path / "raw", "--model", tmp_path / "m", "--out", tmp_path / "e.parquet", code=3)
    assert said == f"skipped: {tmp_path}/raw/b.hea: has none of the leads I, II\n"
    seen = noise(1)
    seen[:, 2:] = 0
    assert_close(rows(tmp_path / "e.parquet")["a.hea"]["embedding"], expected(tmp_path / "m", seen))
    said = run(tmp_path / "raw", "--model", tmp_path / "m", "--out", tmp_path / "v6.npy", "--leads", "V6", code=3)
    assert said == f"skipped: {tmp_path}/raw/b.hea: has no lead V6\n" and len(np.load(tmp_path / "v6.npy")) == 1


def test_no_table_of_leads_is_dropped_silently(tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    others.csv(raw / "a.csv", noise(1))
    text = (raw / "a.csv").read_text()
    (raw / "b.csv").write_text(text, encoding="utf-16")
    (raw / "c.csv").write_text("# Device: X\n" + text)
    (raw / "d.csv").write_text(text.replace("\n", ",fine\n"))
    (raw / "e.csv").write_text(text.replace(".", ","))
    (raw / "f.csv").write_text(text.replace("(mV)", "(V)"))
    (raw / "notes.csv").write_text("who,what\nme,nothing\n")
    said = run(raw, "--model", model, "--out", tmp_path / "e.parquet", code=3).splitlines()
    few = "holds a row with another number of values: row 2 has 26, not 13 (decimal commas need another separator)"
    assert said == [
        f"skipped: {raw}/e.csv: {few}",
        f"skipped: {raw}/f.csv: no usable lead; it has values beyond +-32.767 mV, is it in uV?",
    ]
    found = rows(tmp_path / "e.parquet")
    assert sorted(found) == ["a.csv", "b.csv", "c.csv", "d.csv"]
    for row in found.values():
        assert_close(row["embedding"], found["a.csv"]["embedding"])


def test_an_interruption_after_the_end_changes_nothing(tmp_path: Path, model: Path) -> None:
    write(tmp_path, "a", noise(1))
    words = ["embed", str(tmp_path / "a.hea"), "--model", str(model), "--out", str(tmp_path / "e.parquet")]
    code = (
        f"import os, runpy, signal, sys; sys.argv = {words}\n"
        "try: runpy.run_module('engine.embed', run_name='__main__')\n"
        "except SystemExit as end: os.kill(os.getpid(), signal.SIGINT); sys.exit(end.code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert list(rows(tmp_path / "e.parquet")) == ["a.hea"]


def test_segments_without_a_usable_lead_are_left_out(tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    signal = noise(1, 7500)
    signal[2500:5000] = 7  # flat
    signal[5000, 3] = INVALID
    write(tmp_path / "raw", "a", signal)
    write(tmp_path / "raw", "flat", np.zeros_like(signal))
    write(tmp_path / "raw", "short", signal[:2499])
    said = run(tmp_path / "raw", "--model", model, "--out", tmp_path / "e.parquet", code=3)
    assert said.splitlines() == [
        f"skipped: {tmp_path}/raw/flat.hea: no usable lead",
        f"skipped: {tmp_path}/raw/short.hea: shorter than 5 s",
    ]
    row = rows(tmp_path / "e.parquet")["a.hea"]
    assert (row["start"], row["lead_mask"]) == ([0, 5000], [4095, 4095 & ~(1 << 3)])
    seen = np.concatenate([signal[:2500], signal[5000:]])
    seen[2500:, 3] = 0
    assert_close(row["embedding"], expected(model, seen))


@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
def test_tokens_of_each_segment(tmp_path: Path, model: Path, run: Callable[..., str], suffix: str) -> None:
    write(tmp_path / "raw", "a", noise(1, 7500))
    write(tmp_path / "raw", "b", noise(2, 2500))
    out = tmp_path / f"e{suffix}"
    run(tmp_path / "raw", "--model", model, "--out", out, "--pool", "tokens")
    wanted = torch.cat([contexts(model, noise(1, 7500)), contexts(model, noise(2, 2500))]).numpy()
    if suffix == ".npy":
        assert_close(np.load(out), wanted)
        with (tmp_path / "e.csv").open() as file:
            lines = [tuple(line.values()) for line in csv.DictReader(file)]
        a, b = (str(tmp_path / "raw" / f"{name}.hea") for name in "ab")
        assert lines == [
            ("0", a, "500", "0", "0", "4095"),
            ("1", a, "500", "1", "2500", "4095"),
            ("2", a, "500", "2", "5000", "4095"),
            ("3", b, "500", "0", "0", "4095"),
        ]
    else:
        table = pq.read_table(out)
        assert table["embedding"].type.list_size == 156
        assert_close(table["embedding"].to_pylist(), wanted)
        assert table["start"].to_pylist() == [[0], [2500], [5000], [0]]


def test_an_array_and_its_table(tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    for number in range(12):  # their count has more digits than when the file was begun
        write(tmp_path / "raw", f"a{number:02d}", noise(number))
    run(tmp_path / "raw", "--model", model, "--out", tmp_path / "e.npy")
    array = np.load(tmp_path / "e.npy")
    assert array.shape == (12, 32) and array.dtype == np.float32
    for number in range(12):
        assert_close(array[number], expected(model, noise(number)))
    with (tmp_path / "e.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [int(line["row"]) for line in lines] == [number for number in range(12) for _ in range(2)]
    assert [Path(line["recording"]).stem for line in lines[::2]] == [f"a{number:02d}" for number in range(12)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "e.npy", "raw"]


@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_batches_do_not_matter(
    tmp_path: Path, model: Path, run: Callable[..., str], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Recordings that share a batch, fill several, or end with one."""
    lengths = [5, 1, 2, 3, 1]
    for number, length in enumerate(lengths):
        write(tmp_path / "raw", f"a{number}", noise(number, 2500 * length))
    monkeypatch.setattr(whole, "_BATCH", size)
    run(tmp_path / "raw", "--model", model, "--out", tmp_path / "e.npy")
    wanted = [expected(model, noise(number, 2500 * length)) for number, length in enumerate(lengths)]
    assert_close(np.load(tmp_path / "e.npy"), wanted)


def test_as_shards_are_made(tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    """Wrong gains of old mirrors, parts of other recordings, signal files of another name, strays, tables."""
    raw = tmp_path / "raw"
    write(raw / "georgia" / "g1", "E00001", noise(1), gain="4880.0(0)/mV")
    write(raw / "ningbo" / "g13", "S23074", noise(2), file="JS23074.mat")
    write(raw / "own", "whole_1", noise(3))
    write(raw / "own", "whole_2", noise(4))
    (raw / "own" / "whole.hea").write_text("whole/2 12 500 10000\nwhole_1 5000\nwhole_2 5000\n")
    (raw / "own" / "lost.dat").write_bytes(b"0" * 1000)
    (raw / "own" / "patients.csv").write_text("name,age\nJane,61\n")
    said = run(raw, "--model", model, "--out", tmp_path / "e.parquet", code=3)
    assert said == f"skipped: {raw}/own/lost.dat: no header goes with this file\n"
    found = rows(tmp_path / "e.parquet")
    assert sorted(found) == ["E00001.hea", "S23074.hea", "whole.hea"]
    assert_close(found["E00001.hea"]["embedding"], expected(model, noise(1)))
    assert_close(found["S23074.hea"]["embedding"], expected(model, noise(2)))
    assert_close(found["whole.hea"]["embedding"], expected(model, np.concatenate([noise(3), noise(4)])))


def test_what_a_file_does_not_say(tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    np.save(tmp_path / "a.npy", noise(1)[:, :2])
    out = ("--model", model, "--out", tmp_path / "e.parquet")
    said = run(tmp_path / "a.npy", *out, code=1)
    assert said.splitlines() == [
        f"skipped: {tmp_path}/a.npy: its file does not say the leads, rate, unit; "
        "give --leads, --rate, --unit, or a recordings.json",
        "error: nothing to write: no recording could be embedded",
    ]
    run(tmp_path / "a.npy", *out, "--rate", 500, "--unit", "uV", "--leads", "I,II")
    seen = noise(1)
    seen[:, 2:] = 0
    assert_close(rows(tmp_path / "e.parquet")["a.npy"]["embedding"], expected(model, seen))


def test_a_flag_without_effect_is_said(tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    write(tmp_path, "a", noise(1))
    said = run(tmp_path / "a", "--model", model, "--out", tmp_path / "e.parquet", "--rate", 250, code=3)
    assert said == "warning: --rate had no effect: every recording that can be read says it itself\n"


def test_one_bad_file_costs_nothing_but_itself(tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    raw = tmp_path / "raw"
    write(raw, "a", noise(1))
    write(raw, "c", noise(3))
    (raw / "b.edf").write_bytes(b"nothing of the kind")
    others.csv(raw / "d.csv", noise(4))
    (raw / "d.csv").write_text("\n".join((raw / "d.csv").read_text().splitlines()[:1000]) + "\nnonsense")
    said = run(raw, "--model", model, "--out", tmp_path / "e.parquet", code=3).splitlines()
    assert [line.split(": ")[:2] for line in said] == [["skipped", f"{raw}/b.edf"], ["skipped", f"{raw}/d.csv"]]
    assert sorted(rows(tmp_path / "e.parquet")) == ["a.hea", "c.hea"]


def test_nan_is_no_vector(tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    others.hdf5(tmp_path / "a.h5", noise(1))
    import h5py

    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["ecg/signal"][...] = np.nan
    said = run(tmp_path / "a.h5", "--model", model, "--out", tmp_path / "e.npy", code=1)
    assert said.splitlines()[0] == f"skipped: {tmp_path}/a.h5: no usable lead"
    assert os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["raw", "--out", "e.parquet", "--model", "none"], "--model none is no run with a model/"),
        (["raw", "--out", "e.csv"], "--out e.csv should end in .parquet or .npy"),
        (["raw", "--out", "no/e.npy"], "--out no/e.npy: there is no folder no"),
        (["raw", "--out", "old.npy"], "old.npy exists already; remove it, or choose another --out"),
        (["raw", "--out", "tabled.npy"], "tabled.csv exists already"),
        (["empty", "--out", "e.npy"], "empty: no recordings there; right would be a WFDB header (.hea), or one of"),
        (["raw/b", "--out", "e.npy"], "raw/b: no such file or folder"),
        (["none/b.edf", "--out", "e.npy"], "none/b.edf: no such file or folder"),
        (["note.txt", "--out", "e.npy"], "note.txt: is no recording; right would be a WFDB header (.hea), or one of"),
        (["raw", "--out", "e.npy", "--workers", "0"], "--workers 0 is no number of processes"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    model: Path,
    run: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("raw"), "a", noise(1))
    Path("empty").mkdir()
    for name in ("old.npy", "tabled.csv", "note.txt"):
        Path(name).write_text("")
    before = sorted(os.listdir())
    chosen = [] if "--model" in arguments else ["--model", model]
    said = run(*arguments, *chosen, code=1)
    assert said.startswith(f"error: {message}") and len(said.splitlines()) == 1
    assert sorted(os.listdir()) == before


def test_the_same_bytes_again_with_any_number_of_workers(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        write(tmp_path / "raw", f"a{number}", noise(number, 2500 * (1 + number % 3)))
    (tmp_path / "raw" / "b.edf").write_bytes(b"nothing")
    monkeypatch.setattr(reading, "_WORTH_A_WORKER", 1)
    monkeypatch.setattr(reading, "_AHEAD", 2)
    arrays = []
    for workers in (1, 2, 2):
        monkeypatch.setattr(
            sys, "argv", ["embed", str(tmp_path / "raw"), "--model", str(model), "--workers", str(workers)]
        )
        out = tmp_path / f"{len(arrays)}.npy"
        sys.argv += ["--out", str(out)]
        assert main() == 3
        arrays.append((out.read_bytes(), out.with_suffix(".csv").read_bytes()))
    assert arrays[0] == arrays[1] == arrays[2]


def test_only_a_few_recordings_are_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        write(tmp_path, f"a{number:02d}", noise(1, 2500))
    count = 0
    of_one = reading.read

    def counted(*arguments: Any, **options: Any) -> reading.Read:
        nonlocal count
        count += 1
        return of_one(*arguments, **options)

    monkeypatch.setattr(reading, "read", counted)
    found = reading.reading(find([tmp_path], reading.records.NONE), 4095, 1)
    for taken, _ in enumerate(found, 1):
        assert count <= taken + 2 * 4
    assert taken == count == 100


def test_a_file_named_twice_is_one_recording(tmp_path: Path) -> None:
    write(tmp_path, "a", noise(1))
    names = [tmp_path, tmp_path / "a", tmp_path / "a.hea", tmp_path / "a.mat"]
    assert [source.path for source in find(names, reading.records.NONE)] == ["a.hea"]


def test_a_model_of_no_numbers_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "a", noise(1))
    reads = reading.reading(find([tmp_path], reading.records.NONE), 4095, 1)
    with pytest.raises(ValueError, match="the model gives values that are no numbers, near .*a.hea"):
        list(encoding.means(lambda signal: signal.mean(1) * np.nan, reads, 4, torch.device("cpu")))


@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
def test_names_need_not_be_text(tmp_path: Path, model: Path, run: Callable[..., str], suffix: str) -> None:
    odd = tmp_path / os.fsdecode(b"\xff,\n.csv")
    others.csv(odd, noise(1))
    run(odd, "--model", model, "--out", tmp_path / f"e{suffix}")
    if suffix == ".parquet":
        names = pq.read_table(tmp_path / "e.parquet")["recording"].to_pylist()
    else:
        with (tmp_path / "e.csv").open(newline="") as file:
            names = [line["recording"] for line in csv.DictReader(file)][:1]
    assert names == [f"{tmp_path}/\\xff,\n.csv"]


def test_the_rows_are_counted_without_assertions_too(tmp_path: Path) -> None:
    code = """
from pathlib import Path
import numpy as np
from engine.embedding.encoding import Row
from engine.embedding.writing import write
write([Row("a", 500, [0], [1], np.ones(4, np.float32))] * 3, Path("e.npy"), {})
"""
    subprocess.run([sys.executable, "-O", "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert np.load(tmp_path / "e.npy").shape == (3, 4)


@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_behind(
    tmp_path: Path, model: Path, run: Callable[..., str], monkeypatch: pytest.MonkeyPatch, suffix: str, number: int
) -> None:
    write(tmp_path / "raw", "a", noise(1))
    means = encoding.means

    def signalled(*given: Any) -> Iterator[encoding.Row]:
        yield from means(*given)
        assert any(".tmp" in name for name in os.listdir(tmp_path))
        os.kill(os.getpid(), number)

    monkeypatch.setattr(encoding, "means", signalled)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    of_keyboard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        said = run(tmp_path / "raw", "--model", model, "--out", tmp_path / f"e{suffix}", code=128 + number)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, of_keyboard)
    assert said == "error: interrupted; nothing was written\n" and os.listdir(tmp_path) == ["raw"]


def test_as_a_command(tmp_path: Path, model: Path) -> None:
    """And its workers, who import it too, import no torch."""
    write(tmp_path / "raw", "a", noise(1))
    (tmp_path / "raw" / "a.mat").unlink()
    command = [sys.executable, "-m", "engine.embed", "raw", "--model", str(model), "--out", "e.parquet"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "skipped: raw/a.hea: a file of the recording is missing" in done.stderr
    code = "import sys, engine.embed, engine.embedding.reading; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


# --- real recordings ---


@pytest.mark.realdata
def test_real_recordings_of_every_kind(realdata: Path, tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    folders = [realdata / "challenge-2021-mini/training/ptb", realdata / "ptb-xl-mini", realdata / "odd/reduced_leads"]
    assert run(*folders, "--model", model, "--out", tmp_path / "e.parquet") == ""
    table = pq.read_table(tmp_path / "e.parquet")
    vectors = np.array(table["embedding"].to_pylist())
    contents = [records.read_file(Path(name)).signal.tobytes() for name in table["recording"].to_pylist()]
    twins = np.array([[a == b for b in contents] for a in contents])  # PTB-XL 1.0.1 has some
    distances = np.abs(vectors[:, None] - vectors).max(2)
    assert twins.sum() > len(contents) and distances[twins].max() < 1e-5 and distances[~twins].min() > 1e-3
    assert set(table["rate"].to_pylist()) == {100, 500, 1000}
    seen = {int(mask).bit_count() for masks in table["lead_mask"].to_pylist() for mask in masks}
    assert seen >= {2, 3, 4, 6, 12}


@pytest.mark.realdata
def test_a_real_recording_in_every_format(realdata: Path, tmp_path: Path, model: Path, run: Callable[..., str]) -> None:
    header = realdata / "challenge-2021-mini/training/georgia/g8/E07501.hea"
    signal = records.read_file(header).signal
    for suffix, writer in others.WRITERS.items():
        (tmp_path / suffix[1:]).mkdir()
        writer(tmp_path / suffix[1:] / f"a{suffix}", signal)
    files = [tmp_path / suffix[1:] / f"a{suffix}" for suffix in others.WRITERS]
    run(header, *files, "--model", model, "--out", tmp_path / "e.npy")
    array = np.load(tmp_path / "e.npy")
    assert len(array) == 7 and np.abs(array - array[0]).max() < 2e-6
