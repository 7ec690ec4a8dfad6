"""What others load encoders with, and with how little."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import leadwise
from data_tools.crops import INVALID, cut
from data_tools.resample import to_rate
from engine import released
from engine.model.encoder import Encoder, mean_over_time
from engine.model.sizes import NO_DROPOUT, Recipe, Sizes
from tests.recordings import noise

SMALL = Sizes(conv_dim=16, dim=32, layers=1, heads=2, feedforward=32, position_taps=16, position_groups=4)
ROOT = Path(__file__).parents[2]


def save(folder: Path, recipe: Recipe = "paper") -> Encoder:
    """Of a fine-tuned model: there is more in it than an encoder."""
    torch.manual_seed(4)
    encoder = Encoder(SMALL, recipe, NO_DROPOUT).eval()
    weights = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    weights["head.weight"], weights["head.bias"] = torch.randn(2, 32), torch.randn(2)
    about = {"task": "diagnosis", "classes": ["AF", "NSR"], "trained_leads": ["I", "II"], "validation": {"score": 0.1}}
    released.save(folder, weights, recipe, SMALL, about)
    return encoder


@pytest.mark.parametrize("recipe", ["paper", "reference"])
def test_vectors_and_tokens(tmp_path: Path, recipe: Recipe) -> None:
    plain = save(tmp_path / "m", recipe)
    encoder = leadwise.load_encoder(tmp_path / "m")
    signal = torch.randn(3, 1000, 12)
    with torch.no_grad():
        contexts = plain(signal).contexts
        assert torch.equal(encoder(signal), mean_over_time(contexts))
        assert torch.equal(encoder.tokens(signal), contexts)
    assert encoder.dim == 32 and encoder.trained_leads == ("I", "II") and not encoder.training
    assert encoder(signal).shape == (3, 32) and encoder.tokens(signal).shape == (3, 62, 32)
    assert not any(parameter.is_meta for parameter in encoder.parameters())
    assert encoder.to(torch.bfloat16)(signal).dtype == torch.float32


def test_recordings_of_several_lengths_in_one_batch(tmp_path: Path) -> None:
    save(tmp_path / "m")
    encoder = leadwise.load_encoder(tmp_path / "m")
    recordings = [torch.randn(length, 12) for length in (2500, 16, 1007)]
    padded = torch.nn.utils.rnn.pad_sequence(recordings, batch_first=True)
    lengths = torch.tensor([len(one) for one in recordings])
    with torch.no_grad():
        vectors, tokens = encoder(padded, lengths), encoder.tokens(padded, lengths)
        for row, one in enumerate(recordings):
            torch.testing.assert_close(vectors[row], encoder(one[None])[0], rtol=0, atol=2e-6)
            alone = encoder.tokens(one[None])[0]
            torch.testing.assert_close(tokens[row, : len(alone)], alone, rtol=0, atol=5e-6)
        assert (encoder(padded)[1:] - vectors[1:]).abs().max() > 0.01  # padding that is taken for signal
    for wrong in ([2500, 16], [2500, 15, 1007], [2501, 16, 1007]):
        with pytest.raises(ValueError, match=r"lengths should be \[3\], each from 16 to 2500 samples"):
            encoder(padded, torch.tensor(wrong))


@pytest.mark.parametrize(
    ("signal", "message"),
    [
        (torch.zeros(12, 2500), r"found \[12, 2500\]"),
        (torch.zeros(1, 12, 2500), r"found \[1, 12, 2500\]"),
        (torch.zeros(1, 15, 12), r"of 16 samples or more; found \[1, 15, 12\]"),
        (torch.zeros(1, 2500, 12, dtype=torch.int16), r"floating point, in mV; found torch.int16"),
    ],
)
def test_a_wrong_input_says_what_is_right(tmp_path: Path, signal: torch.Tensor, message: str) -> None:
    save(tmp_path / "m")
    with pytest.raises(ValueError, match=message):
        leadwise.load_encoder(tmp_path / "m")(signal)


def test_a_folder_that_holds_no_encoder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run with a model/"):
        leadwise.load_encoder(tmp_path)
    save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    config["sizes"]["layers"] = 2
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="its weights are not those that its config.json describes"):
        leadwise.load_encoder(str(tmp_path / "m"))


def test_leads_in_their_places() -> None:
    signal = torch.randn(2, 100, 2)
    placed = leadwise.place(signal, ["v1", "I"])
    assert torch.equal(placed[..., 6], signal[..., 0]) and torch.equal(placed[..., 0], signal[..., 1])
    assert not placed[..., [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]].any()
    for leads in (["I"], ["I", "X"], ["I", "i"], []):
        with pytest.raises(ValueError):
            leadwise.place(signal, leads)


def test_segments_are_those_of_a_dataset() -> None:
    """A recording in mV at 400 Hz, with a gap, and a lead that is flat at first."""
    microvolts = noise(1, 6100)[:, [1, 6, 7]]
    microvolts[:2500, 1] = 3
    millivolts = microvolts / 1000
    millivolts[5000, 2] = np.nan
    found = leadwise.segments(millivolts, ["II", "V1", "V2"], rate=400)
    placed = np.zeros((6100, 12), np.int16)
    placed[:, [1, 6, 7]] = microvolts
    placed[5000, 7] = INVALID
    resampled = to_rate(placed, 400, 500)
    masks = [mask for crop in cut(resampled, 1 << 1 | 1 << 6 | 1 << 7) for mask in crop.lead_mask]
    assert masks == [1 << 1 | 1 << 7, 1 << 1 | 1 << 6 | 1 << 7, 1 << 1 | 1 << 6]
    wanted = resampled[:7500].reshape(3, 2500, 12) / 1000
    for segment, mask in enumerate(masks):
        wanted[segment][:, [not mask >> lead & 1 for lead in range(12)]] = 0
    assert found.dtype == torch.float32 and np.abs(found.numpy() - wanted).max() < 1e-6


@pytest.mark.parametrize(
    ("signal", "rate", "message"),
    [
        (np.zeros((5000, 2)), 500, "no segment has a usable lead: flat, or values that are no numbers"),
        (noise(1)[:, :2], 500, r"no segment has a usable lead: values go beyond \+-32.767 mV; is it in uV\?"),
        (noise(1, 1000)[:, :2], 250, "4 s at 250 Hz are shorter than a segment of 5 s"),
        (noise(1)[:, :3], 500, "a column for each of the leads I, II"),
        (noise(1)[:, :2], 3, "not sampled at 500 Hz: 3 Hz"),
    ],
)
def test_what_gives_no_segments(signal: np.ndarray, rate: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        leadwise.segments(signal, ["I", "II"], rate)


_BLOCKED = """
import sys
sys.modules.update(dict.fromkeys({blocked}))  # to import one is an ImportError
import torch, leadwise
encoder = leadwise.load_encoder({folder!r})
print(encoder(leadwise.segments(torch.arange(10000).sin().reshape(-1, 2), ["I", "V6"], rate=500)).sum().item())
print(hasattr(encoder, "push_to_hub"))
"""


def test_the_core_dependencies_are_enough(tmp_path: Path) -> None:
    """Neither the training's packages nor those that the readers of files need."""
    save(tmp_path / "m")
    with torch.no_grad():
        ramp = torch.arange(10000).sin().reshape(-1, 2)
        wanted = leadwise.load_encoder(tmp_path / "m")(leadwise.segments(ramp, ["I", "V6"], rate=500)).sum().item()
    extras = {"nvidia", "deepspeed", "webdataset", "zarr", "pandas", "tensorboard", "matplotlib", "huggingface_hub"}
    extras |= {"wfdb", "pyarrow", "h5py", "pydicom", "pyedflib", "onnx", "onnxruntime", "transformers", "tqdm"}
    code = _BLOCKED.format(blocked=extras, folder=str(tmp_path / "m"))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    total, has_hub = done.stdout.split()
    assert float(total) == pytest.approx(wanted, abs=1e-4) and has_hub == "False"


# --- the hub's library ---


def test_there_and_back_through_the_hubs_library(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    save(tmp_path / "m")
    (tmp_path / "m" / "README.md").write_text("---\ntags:\n- ecg\n---\n\n# The card\n")
    encoder = leadwise.Encoder.from_pretrained(tmp_path / "m")
    assert isinstance(encoder, hub.PyTorchModelHubMixin)
    encoder.save_pretrained(tmp_path / "saved")  # what push_to_hub uploads
    assert "# The card" in (tmp_path / "saved" / "README.md").read_text()
    again = leadwise.load_encoder(tmp_path / "saved")
    signal = torch.randn(2, 2500, 12)
    with torch.no_grad():
        assert torch.equal(again(signal), encoder(signal))
    assert again.trained_leads == ("I", "II")
    assert "task" not in released.describe(tmp_path / "saved")  # its head is not there


def test_the_hubs_library_loads_no_fresh_weights(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    save(tmp_path / "m")
    config, weights = released.read(tmp_path / "m")
    del weights["encoder.norm.weight"]
    from safetensors.torch import save_file

    save_file(weights, tmp_path / "m" / "model.safetensors")
    with pytest.raises(ValueError, match=r"not those that its config.json describes: norm.weight"):
        leadwise.Encoder.from_pretrained(tmp_path / "m")
    assert config["recipe"] == "paper"
