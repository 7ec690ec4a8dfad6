"""What is handed on: the same weights, a card that says what is known and no more, ONNX that computes the same."""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from torch import Tensor

import leadwise
from engine import released
from engine.export import main
from engine.exporting import card, facts, to_onnx
from engine.model.encoder import Encoder, mean_over_time
from engine.model.sizes import NO_DROPOUT, Recipe, Sizes
from tests.conftest import PARITY
from tests.engine.model.test_reference_weights import SMALL, reference_state

LEADS = list(leadwise.LEADS)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def export(*arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["export", *map(str, arguments)])
        found = main()
        said = capsys.readouterr()
        assert found == code, said.out + said.err
        assert bool(said.err) == bool(code)
        return said.err if code else said.out

    return export


def model(folder: Path, recipe: Recipe = "paper", **about: Any) -> Path:
    torch.manual_seed(5)
    weights = {f"encoder.{name}": value for name, value in Encoder(SMALL, recipe).state_dict().items()}
    known = {"system": "w2v_cmsc_rlm", "contrast_pool": 64, "trained_leads": LEADS, "update": 30}
    released.save(folder, weights, recipe, SMALL, known | about)
    return folder


def trained(run: Path, dataset: Path) -> Path:
    """A run's folder as training leaves it."""
    fingerprint = hashlib.sha256((dataset / "dataset.json").read_bytes()).hexdigest()
    run.mkdir()
    model(run / "model", data=[fingerprint])
    config = {
        "data": {"path": [str(dataset)], "leads": LEADS},
        "train": {"system": "w2v_cmsc_rlm", "batch": 512, "lr": 5e-5},
        "model": {"size": "tiny", "recipe": "paper", "from": "../jane/secret"},
        "augmentation": {"mask_leads": 0.5},
        "run": {"dir": str(run), "seed": 7},
    }
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    lines = [
        {"kind": "train", "update": 20, "loss": 9.0},
        {"kind": "train", "update": 30, "loss": 5.25, "local": 3.5, "local_chance": 4.25, "segments_per_second": 12.0},
        {"kind": "valid", "update": 30, "loss": 5.5, "pair_retrieval": 0.75},
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def scores(path: Path, of: Mapping[str, Any], leads: list[str], value: float) -> Path:
    """As engine.evaluate --json writes them."""
    known = {name: entry for name, entry in of.items() if name not in ("leads", "classes")}
    figure = {"value": value, "low": value - 0.1, "high": value + 0.1}
    names = ("score", "score_tuned", "auroc", "auprc", "f1", "f1_tuned")
    part = {"count": 1076, "figures": dict.fromkeys(names, figure)}
    path.write_text(
        json.dumps({"task": "diagnosis", "model": known, "leads": leads, "segments": part, "records": part})
    )
    return path


def test_the_weights_are_those_of_the_run(tmp_path: Path, dataset: Path, run: Callable[..., str]) -> None:
    source = trained(tmp_path / "run", dataset)
    assert run("--model", source, "--out", tmp_path / "out") == (
        f"{tmp_path}/out: README.md, config.json, model.safetensors\n"
    )
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "out" / name).read_bytes() == (source / "model" / name).read_bytes()
    signal = torch.randn(2, 2500, 12)
    with torch.no_grad():
        wanted = mean_over_time(released.load_encoder(source / "model")[0](signal).contexts)
        assert torch.equal(leadwise.load_encoder(tmp_path / "out")(signal), wanted)
    assert sorted(os.listdir(tmp_path)) == ["out", "run"]


def test_the_card_says_what_the_run_holds(tmp_path: Path, dataset: Path, run: Callable[..., str]) -> None:
    source = trained(tmp_path / "run", dataset)
    run("--model", source, "--out", tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    head, settings = text.split("---\n")[1], text.split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(head)["library_name"] == "leadwise"
    assert yaml.safe_load(settings) == {
        "train": {"system": "w2v_cmsc_rlm", "batch": 512, "lr": 5e-5},
        "model": {"size": "tiny", "recipe": "paper"},
        "augmentation": {"mask_leads": 0.5},
        "seed": 7,
    }
    described = json.loads((dataset / "dataset.json").read_text())
    assert f"{described['recordings']:,} recordings, {described['crops']['kept']:,} crops" in text
    assert "(chapman_shaoxing 10, cpsc_2018 24, georgia 12, ningbo 10, ptb-xl 26)" in text
    assert "| local | 3.5 | 4.25 |" in text and "| pair retrieval | 0.75 | - |" in text
    assert "last report of training (update 30)" in text and "segments per second" not in text and "| 9 |" not in text
    assert f"| parameters of the encoder | {sum(p.numel() for p in Encoder(SMALL).parameters()):,} |" in text
    assert "None: no result of `engine.evaluate --json` was there." in text
    for private in (str(tmp_path), str(dataset), "jane"):
        assert private not in text


def test_a_line_that_a_killed_run_left_costs_nothing(tmp_path: Path, dataset: Path, run: Callable[..., str]) -> None:
    source = trained(tmp_path / "run", dataset)
    with (source / "metrics.jsonl").open("a") as lines:
        lines.write('{"kind": "train", "upd\n')
    run("--model", source, "--out", tmp_path / "out")
    assert "last report of training (update 30)" in (tmp_path / "out" / "README.md").read_text()


def test_the_card_of_weights_alone_says_so(tmp_path: Path, run: Callable[..., str]) -> None:
    model(tmp_path / "m", data=["0" * 64])
    run("--model", tmp_path / "m", "--out", tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    assert "Neither settings nor metrics are at hand" in text and "## Metrics" not in text
    assert f"the dataset of fingerprint `{'0' * 64}`, which was not at hand" in text


def test_scores_by_lead_set(tmp_path: Path, dataset: Path, run: Callable[..., str]) -> None:
    """Of the model itself, of models tuned from it, with other leads; none of another's."""
    source = trained(tmp_path / "run", dataset)
    own = released.describe(source / "model")
    tuned = {"task": "diagnosis", "trained_leads": ["I"], "pretrained": released.origin(own)}
    one = scores(tmp_path / "one.json", tuned, ["I"], 0.25)
    other = scores(tmp_path / "other.json", tuned | {"trained_leads": LEADS}, ["I", "II"], 0.5)
    scores(source / "evaluation.json", own, LEADS, 0.75)  # found there
    run("--model", source, "--out", tmp_path / "out", "--scores", one, other)
    table = [line for line in (tmp_path / "out" / "README.md").read_text().splitlines() if "1,076" in line]
    of = "{0:.3f} ({1:.3f} to {2:.3f})"
    cells = [" | ".join([of.format(value, value - 0.1, value + 0.1)] * 4) for value in (0.75, 0.5, 0.25)]
    assert table == [
        f"| 12 | this model, its own leads | {cells[0]} | 1,076 |",
        f"| 2 | fine-tuned from it, trained with 12 leads | {cells[1]} | 1,076 |",
        f"| 1 | fine-tuned from it, its own leads | {cells[2]} | 1,076 |",
    ]
    stranger = scores(tmp_path / "stranger.json", own | {"update": 31}, LEADS, 0.9)
    said = run("--model", source, "--out", tmp_path / "again", "--scores", stranger, code=1)
    assert said.startswith(f"error: --scores {stranger} holds no scores of this model, nor of one that was fine-tuned")
    assert not (tmp_path / "again").exists()


def test_the_card_of_a_fine_tuned_model_knows_its_past() -> None:
    past = {"system": "w2v", "update": 1000, "trained_leads": LEADS}
    config = {
        "recipe": "paper",
        "sizes": {"dim": 24, "heads": 2, "position_groups": 4},
        "task": "identification",
        "trained_leads": ["I", "II"],
        "pretrained": past | {"pretrained": {"imported": {}, "update": 7, "trained_leads": ["V1"]}},
    }
    text = card.of_run(config, 5, facts.Facts({}, [], {}, {}, []))
    assert "# ECG encoder, w2v, fine-tuned for identification" in text
    places = [text.index(f"Trained before: {what}") for what in ("w2v, 1000 updates", "imported weights, 7 updates")]
    assert places == sorted(places)
    assert "does not say which datasets" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "none", "--out", "out"], "--model none is no run with a model/"),
        (["--model", "run", "--out", "out"], "--model run is a run that has not finished"),
        (["--model", "m", "--out", "full"], "--out full exists already; remove it, or choose another"),
        (["--model", "m", "--out", "note.txt"], "--out note.txt exists already"),
        (["--model", "m", "--out", "no/out"], "--out no/out: there is no folder"),
        (["--model", "m", "--out", "out", "--scores", "note.txt"], "--scores note.txt holds no scores of this model"),
        (["--import-reference", "no.pt", "--out", "out"], "no.pt: there is no such file"),
        (["--import-reference", "note.txt", "--out", "out"], "note.txt is no checkpoint of torch, or damaged"),
        (["--import-reference", "m.pt", "--out", "out"], "m.pt is no checkpoint of fairseq-signals"),
        (["--import-reference", "m.pt", "--out", "out", "--scores", "x"], "--scores has no effect"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, run: Callable[..., str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    model(Path("m"))
    Path("run/checkpoints").mkdir(parents=True)
    Path("full").mkdir()
    Path("full/x").write_text("")
    Path("note.txt").write_text("nothing")
    torch.save({"weights": torch.zeros(2)}, "m.pt")
    before = sorted(os.listdir())
    said = run(*arguments, code=1)
    assert said.startswith(f"error: {message}") and len(said.splitlines()) == 1
    assert sorted(os.listdir()) == before and os.listdir("full") == ["x"]


def test_a_damaged_model_is_not_handed_on(tmp_path: Path, run: Callable[..., str]) -> None:
    model(tmp_path / "m")
    weights = load_file(tmp_path / "m" / "model.safetensors")
    weights["encoder.norm.weight"][3] = np.nan
    save_file(weights, tmp_path / "m" / "model.safetensors")
    said = run("--model", tmp_path / "m", "--out", tmp_path / "out", code=1)
    assert "not all of its weights are finite" in said and os.listdir(tmp_path) == ["m"]


# --- ONNX ---


@pytest.mark.parametrize("recipe", ["paper", "reference"])
def test_onnx_computes_the_same_at_any_length(tmp_path: Path, run: Callable[..., str], recipe: Recipe) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model(tmp_path / "m", recipe)
    said = run("--model", tmp_path / "m", "--out", tmp_path / "out", "--onnx")
    assert said.startswith("model.onnx: at most ") and "model.onnx, model.safetensors" in said
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx", providers=["CPUExecutionProvider"])
    encoder = leadwise.load_encoder(tmp_path / "out")
    for shape in ((1, 2500), (5, 2500), (2, 5000), (3, 1007), (1, 16)):
        signal = torch.randn(*shape, 12)
        embedding, tokens = session.run(["embedding", "tokens"], {"signal": signal.numpy()})
        with torch.no_grad():
            assert np.abs(embedding - encoder(signal).numpy()).max() < 1e-5
            assert np.abs(tokens - encoder.tokens(signal).numpy()).max() < 1e-5


def test_onnx_that_computes_something_else_is_not_handed_on(
    tmp_path: Path, run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    model(tmp_path / "m")

    def of_another(encoder: Encoder) -> Any:
        torch.manual_seed(6)
        return plain(Encoder(SMALL, "paper", NO_DROPOUT))

    plain = to_onnx.PlainEncoder
    monkeypatch.setattr(to_onnx, "PlainEncoder", of_another)
    said = run("--model", tmp_path / "m", "--out", tmp_path / "out", "--onnx", code=1)
    assert "onnxruntime differs from torch by" in said and os.listdir(tmp_path) == ["m"]


def test_onnx_without_its_packages(tmp_path: Path, run: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    model(tmp_path / "m")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    said = run("--model", tmp_path / "m", "--out", tmp_path / "out", "--onnx", code=1)
    assert said == "error: --onnx needs onnxscript: pip install 'leadwise[onnx]'\n"
    assert os.listdir(tmp_path) == ["m"]


# --- checkpoints of the reference ---


def checkpoint(path: Path, state: Mapping[str, Tensor], cfg: Any = None, **more: Any) -> Path:
    settings = {"model": {"_name": "wav2vec2_cmsc", "encoder_attention_heads": SMALL.heads}} if cfg is None else cfg
    torch.save({"args": None, "cfg": settings, "model": state, **more}, path)
    return path


def imported(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    return released.read(folder)


def test_a_checkpoint_as_the_reference_writes_it(tmp_path: Path, run: Callable[..., str]) -> None:
    state = reference_state(SMALL)
    more = {
        "optimizer_history": [{"num_updates": 3}, {"num_updates": 37_000, "lr_scheduler_state": {"best": None}}],
        "extra_state": {"metrics": [(0, "loss", np.float64(2.5))], "val_loss": np.float32(1)},
        "last_optimizer_state": {"state": {0: {"exp_avg": torch.zeros(3)}}},
    }
    path = checkpoint(tmp_path / "c.pt", state, **more)
    run("--import-reference", path, "--out", tmp_path / "out")
    config, weights = imported(tmp_path / "out")
    assert Sizes(**config["sizes"]) == SMALL and config["recipe"] == "reference" and config["update"] == 37_000
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert config["imported"] == {"file": "c.pt", "sha256": digest, "normalize": None}
    assert sum(weight.numel() for weight in weights.values()) == sum(weight.numel() for weight in state.values())
    assert torch.equal(weights["encoder.mask_embedding"], state["mask_emb"])
    text = (tmp_path / "out" / "README.md").read_text()
    assert digest in text and "ECG-FM was trained on recordings of which each lead was brought to mean 0" in text


@pytest.mark.parametrize("cfg", ["namespace", "nested"])
def test_settings_wherever_they_are(tmp_path: Path, run: Callable[..., str], cfg: str) -> None:
    """Old checkpoints keep them in a Namespace, fine-tuned ones those of the pre-training inside their own."""
    state = {f"encoder.{name}": tensor for name, tensor in reference_state(SMALL).items() if "quantizer" not in name}
    state = {name: tensor for name, tensor in state.items() if "project_q" not in name and "final_proj" not in name}
    state |= {"proj.weight": torch.randn(26, SMALL.dim), "proj.bias": torch.randn(26)}
    path = tmp_path / "c.pt"
    if cfg == "namespace":
        settings = argparse.Namespace(encoder_attention_heads=2, leads_to_load="['II', 'avf']", normalize=True)
        torch.save({"args": settings, "cfg": None, "model": state}, path)
    else:
        inner = {"model": {"encoder_attention_heads": 2, "extractor_mode": "default"}}
        settings = {"model": {"args": inner}, "task": {"leads_to_load": "[1, 5]", "normalize": True}}
        torch.save({"args": None, "cfg": settings, "model": state}, path)
    said = run("--import-reference", path, "--out", tmp_path / "out")
    assert "left out: the head it was fine-tuned with" in said
    config, weights = imported(tmp_path / "out")
    assert config["trained_leads"] == ["II", "aVF"] and "task" not in config and config["sizes"]["heads"] == 2
    assert all(name.startswith("encoder.") for name in weights)
    assert "normalize: true" in (tmp_path / "out" / "README.md").read_text()


class Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch /tmp/leadwise-was-here",)


def test_no_code_of_a_checkpoint_is_run(tmp_path: Path, run: Callable[..., str]) -> None:
    path = checkpoint(tmp_path / "c.pt", reference_state(SMALL), extra_state=Evil())
    said = run("--import-reference", path, "--out", tmp_path / "out", code=1)
    assert said.startswith(f"error: {path} is refused: to load it would run posix.system.")
    assert len(said.splitlines()) == 1 and os.listdir(tmp_path) == ["c.pt"]
    assert not Path("/tmp/leadwise-was-here").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cfg": {}}, "its settings do not say the number of attention heads"),
        ({"cfg": {"model": {"encoder_attention_heads": 2, "layer_norm_first": True}}}, "layer_norm_first = True: only"),
        ({"cfg": {"model": {"encoder_attention_heads": 5}}}, "dim = 16 cannot be divided by heads = 5"),
        ({"cfg": {"model": {"encoder_attention_heads": 2}, "task": {"leads_to_load": "II"}}}, "leads_to_load = 'II'"),
        ({"missing": "encoder.layers.1.fc1.bias"}, "missing: encoder.layers.1.fc1.bias [24]"),
        ({"missing": "mask_emb"}, "these are not the weights of a reference model: 'mask_emb'"),
    ],
)
def test_what_is_not_the_reference_is_refused(
    tmp_path: Path, run: Callable[..., str], change: dict[str, Any], message: str
) -> None:
    state = reference_state(SMALL)
    state.pop(change.pop("missing", ""), None)
    path = checkpoint(tmp_path / "c.pt", state, **change)
    said = run("--import-reference", path, "--out", tmp_path / "out", code=1)
    assert said.startswith(f"error: {path}: ") and message in said and len(said.splitlines()) == 1
    assert os.listdir(tmp_path) == ["c.pt"]


def test_a_cut_off_checkpoint_is_refused(tmp_path: Path, run: Callable[..., str]) -> None:
    path = checkpoint(tmp_path / "c.pt", reference_state(SMALL))
    path.write_bytes(path.read_bytes()[:-1000])
    said = run("--import-reference", path, "--out", tmp_path / "out", code=1)
    assert said == f"error: {path} is no checkpoint of torch, or damaged\n"


@pytest.mark.parity
def test_imported_weights_give_the_references_outputs(tmp_path: Path, run: Callable[..., str]) -> None:
    with np.load(PARITY, allow_pickle=False) as file:
        arrays = dict(file)
    state = {name[2:]: torch.from_numpy(array) for name, array in arrays.items() if name.startswith("w/")}
    path = checkpoint(tmp_path / "c.pt", state, {"model": json.loads(str(arrays["config_json"]))})
    run("--import-reference", path, "--out", tmp_path / "out")
    encoder = leadwise.load_encoder(tmp_path / "out")
    signal = torch.from_numpy(arrays["in/source"]).transpose(1, 2)
    with torch.no_grad():
        assert np.abs(encoder.tokens(signal).numpy() - arrays["eval_nomask/transformer_out"]).max() < 1e-5
        assert np.abs(encoder(signal).numpy() - arrays["eval_nomask/pooled"]).max() < 1e-5
