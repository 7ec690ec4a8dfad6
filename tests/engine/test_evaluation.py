"""Evaluation as a user calls it, against scores worked out here from the crops themselves."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from engine import released
from engine.data.chance import LEADS
from engine.data.dataset import open_dataset
from engine.evaluate import main
from engine.evaluation import evaluate
from engine.model.encoder import Encoder, mean_over_time
from engine.model.sizes import NO_DROPOUT, Sizes
from engine.scoring import cinc, classification, identification, intervals
from engine.tuner import Tuner

SMALL = Sizes(conv_dim=16, dim=32, layers=1, heads=2, feedforward=32, position_taps=16, position_groups=4)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def diagnostician(hearts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As if fine-tuned with three leads; its head is drawn wide, so that all classes are said somewhere."""
    folder = tmp_path_factory.mktemp("model") / "dx"
    torch.manual_seed(1)
    tuner = Tuner("diagnosis", 26, SMALL, drop=NO_DROPOUT)
    torch.nn.init.normal_(tuner.head.weight, std=3.0)
    classes = open_dataset([str(hearts)], "diagnosis-test").classes
    about = {"task": "diagnosis", "trained_leads": ["I", "II", "V2"], "classes": classes}
    released.save(folder, tuner.state_dict(), "paper", SMALL, about)
    return folder


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "encoder"
    torch.manual_seed(2)
    weights = {f"encoder.{name}": value for name, value in Encoder(SMALL).state_dict().items()}
    released.save(folder, weights, "paper", SMALL, {"system": "w2v", "trained_leads": list(LEADS)})
    return folder


def segments(data: Path, view: str, leads: tuple[str, ...]) -> tuple[torch.Tensor, dict[str, NDArray]]:
    """Straight from the folder: the view's columns and the files they point into."""
    files = [entry["name"] for entry in json.loads((data / "dataset.json").read_text())["files"]]
    columns = {path.stem: np.load(path) for path in (data / "views" / view).glob("*.npy")}
    signals = np.zeros((len(columns["file"]), 2500, 12), np.float32)
    for row, (file, offset, mask) in enumerate(
        zip(columns["file"], columns["offset"], columns["lead_mask"][:, 0], strict=True)
    ):
        signal = np.fromfile(data / files[file], "<i2", 30_000, offset=int(offset)).reshape(2500, 12)
        seen = [lead in leads and bool(mask >> index & 1) for index, lead in enumerate(LEADS)]
        signals[row] = signal * np.array(seen) / 1000
    return torch.from_numpy(signals), columns


def test_diagnosis_is_that_of_the_crops_themselves(hearts: Path, diagnostician: Path) -> None:
    leads = ("I", "II", "V2")
    found = evaluate(diagnostician, [str(hearts)], "diagnosis", device=CPU)
    signal, columns = segments(hearts, "diagnosis-test", leads)
    tuner = Tuner("diagnosis", 26, SMALL, drop=NO_DROPOUT).eval()
    tuner.load_state_dict(released.read(diagnostician)[1])
    with torch.no_grad():
        probabilities = torch.sigmoid(tuner(signal).outputs.double()).numpy()
    labels = columns["classes"][:, None] >> np.arange(26) & 1
    classes = list(cinc.SEVERITY)
    expected = cinc.score(labels, probabilities > 0.5, released.describe(diagnostician)["classes"])
    of_segments = found["segments"]
    assert of_segments["figures"]["score"]["value"] == pytest.approx(expected, abs=1e-9)
    assert of_segments["count"] == len(signal) and list(of_segments["classes"]) == classes
    assert [of["positives"] for of in of_segments["classes"].values()] == labels.sum(0).tolist()
    # The tuned threshold is that of the validation, and the patients are those of the intervals.
    of_valid, valid = segments(hearts, "diagnosis-valid", leads)
    with torch.no_grad():
        said = torch.sigmoid(tuner(of_valid).outputs.double()).numpy()
    truth = valid["classes"][:, None] >> np.arange(26) & 1
    tuned = classification.tune(truth, said, classes)
    assert of_segments["tuned_threshold"] == tuned
    assert of_segments["figures"]["score_tuned"]["value"] == pytest.approx(
        cinc.score(labels, probabilities > tuned, classes), abs=1e-9
    )
    table = pq.read_table(hearts / "crops.parquet")
    people = pc.coalesce(table["patient"], table["record"]).to_numpy()[columns["crop"]]
    assert of_segments["people"] == len(set(people)) < len(signal)
    parts = cinc.parts(labels, probabilities > 0.5, classes)
    drawn = np.concatenate([cinc.ratio(parts, intervals.resampled(people, 100, seed)) for seed in range(10)])
    low, high = intervals.percentile_interval(drawn)
    score = of_segments["figures"]["score"]
    assert (score["low"], score["high"]) == (pytest.approx(float(low), abs=0.02), pytest.approx(float(high), abs=0.02))
    # Recordings: the mean of their segments.
    records = pq.read_table(hearts / "crops.parquet")["record"].to_numpy()[columns["crop"]]
    names = sorted(set(records))
    means = np.stack([probabilities[records == name].mean(0) for name in names])
    of_record = np.stack([labels[records == name][0] for name in names])
    expected = cinc.score(of_record, means > 0.5, classes)
    assert found["records"]["figures"]["score"]["value"] == pytest.approx(expected, abs=1e-9)
    assert found["records"]["count"] == len(names) < len(signal)


def test_identification_is_that_of_the_crops_themselves(hearts: Path, pretrained: Path) -> None:
    found = evaluate(pretrained, [str(hearts)], "identification", leads=["II", "V5"], device=CPU)
    encoder = Encoder(SMALL, drop=NO_DROPOUT).eval()
    encoder.load_state_dict({n.removeprefix("encoder."): v for n, v in released.read(pretrained)[1].items()})
    with torch.no_grad():
        vectors = [
            mean_over_time(encoder(segments(hearts, f"identification-{place}", ("II", "V5"))[0]).contexts).numpy()
            for place in ("gallery", "probe")
        ]
    people = np.arange(len(vectors[0]))  # both views are in the order of the patients
    expected = identification.identify(vectors[0], people, vectors[1], people)
    figures = {name: figure["value"] for name, figure in found["figures"].items()}
    names = ("rank1", "rank5", "equal_error_rate")
    assert figures == pytest.approx({name: getattr(expected, name) for name in names}, abs=1e-6)
    assert found["gallery"] == found["probe"] == len(people) > 2


def test_a_figure_lies_in_its_interval_and_the_same_again(hearts: Path, diagnostician: Path) -> None:
    first, again = (evaluate(diagnostician, [str(hearts)], "diagnosis", device=CPU) for _ in range(2))
    assert first == again
    for level in ("segments", "records"):
        for name in ("score", "auroc", "f1"):
            of = first[level]["figures"][name]
            assert of["low"] <= of["value"] <= of["high"] and of["low"] < of["high"]


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """-> exit code, and what was said on both streams."""

    def run(model: Path, data: Path, task: str, *given: str) -> tuple[int, str, str]:
        words = ["evaluate", "--model", str(model), "--data", str(data), "--task", task, *given]
        monkeypatch.setattr(sys, "argv", words)
        return (main(), *capsys.readouterr())

    return run


class TestWhatItSays:
    def test_of_a_model_with_its_own_leads(
        self, command: Command, hearts: Path, diagnostician: Path, tmp_path: Path
    ) -> None:
        code, out, _ = command(diagnostician, hearts, "diagnosis", "--json", str(tmp_path / "out.json"))
        assert code == 0 and out.startswith("# Diagnosis, leads 3\n") and "Not fine-tuned" not in out
        assert "| CRBBB or RBBB |" in out and "CinC score, tuned" in out
        result = json.loads((tmp_path / "out.json").read_text())
        assert (result["leads"], result["own_leads"]) == (["I", "II", "V2"], True)

    def test_of_other_leads(self, command: Command, hearts: Path, diagnostician: Path) -> None:
        code, out, _ = command(diagnostician, hearts, "diagnosis", "--leads", "I,II")
        assert code == 0
        assert (
            "**Not fine-tuned for these leads**: it was trained with I, II, V2. No figure for the paper's tables."
            in out
        )

    def test_of_what_was_only_pre_trained(self, command: Command, hearts: Path, pretrained: Path) -> None:
        code, out, _ = command(pretrained, hearts, "identification")
        assert code == 0
        assert "**Not fine-tuned for identification**: the encoder was only pre-trained." in out and "| rank-1 |" in out

    def test_of_what_was_trained_on_other_data_at_any_stage(
        self, command: Command, hearts: Path, pretrained: Path, tmp_path: Path
    ) -> None:
        """One that does not say on what it was trained may have seen anything."""
        own, (_, weights) = open_dataset([str(hearts)], "identification-probe").fingerprints, released.read(pretrained)
        imported = {"imported": {"file": "m.pt"}, "trained_leads": list(LEADS)}
        first = {"system": "cmsc", "data": [*own, "0" * 64], "trained_leads": list(LEADS)}
        second = {"system": "w2v", "data": ["0" * 64], "trained_leads": list(LEADS)}
        for before, stages in (
            (None, None),
            (first, None),
            (second | {"pretrained": first}, "w2v"),
            (first | {"pretrained": second}, "w2v"),
            (first | {"pretrained": second | {"pretrained": imported}}, "w2v; imported weights, not known which"),
        ):
            about = {"task": "identification", "trained_leads": list(LEADS), "data": own, "pretrained": before}
            released.save(tmp_path / "m", weights, "paper", SMALL, about)
            code, out, _ = command(tmp_path / "m", hearts, "identification")
            found = re.findall(r"Trained on other data \((.*)\): whether it has seen some of these recordings,", out)
            assert (code, found) == (0, [stages] if stages else [])


class TestRefusals:
    def test_a_model_without_a_head(self, command: Command, hearts: Path, pretrained: Path) -> None:
        said = f"error: --model {pretrained} was not fine-tuned for diagnosis: it has no head for it\n"
        assert command(pretrained, hearts, "diagnosis") == (1, "", said)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (["--leads", "I,V7"], "error: leads are some of I, II"),
            (["--leads", "I,I"], "error: leads are some of I, II"),
            (["--leads", ""], "error: leads are some of I, II"),
            (["--json", "none/x.json"], "error: --json none/x.json should be a file, in a folder that is there"),
            (["--data", "nowhere"], "error: nowhere"),
            (["--model", "nowhere"], "error: --model nowhere is no run with a model/, and no folder with a model.saf"),
        ],
    )
    def test_arguments(self, command: Command, hearts: Path, pretrained: Path, given: list[str], said: str) -> None:
        code, out, errors = command(pretrained, hearts, "identification", *given)
        assert (code, out) == (1, "") and errors.startswith(said) and errors.count("\n") == 1

    @pytest.mark.parametrize("damage", ["config", "weights", "missing", "shape"])
    def test_a_damaged_model(self, pretrained: Path, tmp_path: Path, damage: str) -> None:
        config, weights = released.read(pretrained)
        about = {"trained_leads": config["trained_leads"]}
        if damage == "missing":
            weights.pop("encoder.norm.weight")
        elif damage == "shape":
            weights["encoder.norm.weight"] = weights["encoder.norm.weight"][:-1]
        released.save(tmp_path / "m", weights, "paper", SMALL, about)
        if damage == "config":
            (tmp_path / "m" / "config.json").write_text("{}")
        elif damage == "weights":
            (tmp_path / "m" / "model.safetensors").write_bytes(b"\0" * 100)
        said = {
            "config": "config.json describes no model",
            "weights": "holds a damaged model",
            "missing": "its weights are not those that its config.json describes: norm.weight",
            "shape": "its weights are not those that its config.json describes: norm.weight",
        }
        with pytest.raises(ValueError, match=said[damage]):
            released.load_encoder(tmp_path / "m")

    def test_a_model_that_gives_no_numbers(self, hearts: Path, pretrained: Path, tmp_path: Path) -> None:
        config, weights = released.read(pretrained)
        weights["encoder.norm.weight"] = torch.full_like(weights["encoder.norm.weight"], 3e38)
        released.save(tmp_path / "m", weights, "paper", SMALL, {"trained_leads": config["trained_leads"]})
        with pytest.raises(ValueError, match="gallery vectors are not finite"):
            evaluate(tmp_path / "m", [str(hearts)], "identification", device=CPU)

    def test_weights_that_are_no_numbers(self, pretrained: Path, tmp_path: Path) -> None:
        """Neither released nor read."""
        config, weights = released.read(pretrained)
        weights["encoder.norm.weight"] = torch.full_like(weights["encoder.norm.weight"], float("nan"))
        about = {"trained_leads": config["trained_leads"]}
        with pytest.raises(ValueError, match="the weights are not all finite, and are not released"):
            released.save(tmp_path / "m", weights, "paper", SMALL, about)
        shutil.copytree(pretrained, tmp_path / "n")
        save_file(weights, tmp_path / "n" / "model.safetensors")
        with pytest.raises(ValueError, match="n holds a damaged model: not all of its weights are finite"):
            released.read(tmp_path / "n")
