"""Recipe `reference` beside what fairseq-signals computed with the same weights, inputs and draws."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.learner import Draws, Learner
from engine.methods import DIVERSITY, FEATURE_GRADIENT, FEATURE_PENALTY, SYSTEMS
from engine.model.encoder import Encoded, mean_over_time, valid_tokens
from engine.model.masking import TimeMask, in_slots
from engine.model.reference_weights import from_reference
from engine.model.sizes import NO_DROPOUT, Sizes
from engine.objectives import contrast, local
from tests.conftest import PARITY

pytestmark = pytest.mark.parity
SIZES = Sizes(conv_dim=32, dim=64, layers=2, heads=4, feedforward=128, codes=20, contrast_dim=32)
MASKED = 65
MODES = ("eval_mask", "train_mask")
Arrays = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    with np.load(PARITY, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture
def learner(arrays: Arrays) -> Learner:
    weights = {name[2:]: torch.from_numpy(array) for name, array in arrays.items() if name.startswith("w/")}
    learner = Learner(SYSTEMS["w2v_cmsc"], SIZES, "reference", NO_DROPOUT)
    learner.load_state_dict(from_reference(weights, SIZES))
    return learner.eval()


def signal(arrays: Arrays, folder: str = "in") -> Tensor:
    return torch.from_numpy(arrays[f"{folder}/source"]).transpose(1, 2)


def assert_agrees(found: Tensor, array: NDArray[Any], tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found.detach(), torch.from_numpy(array), rtol=tolerance, atol=tolerance)


def intermediates(learner: Learner) -> dict[str, Tensor]:
    """What each module gives from now on, by name."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            outputs[name] = output

        return hook

    for name, module in learner.encoder.named_modules():
        module.register_forward_hook(keep(name))
    return outputs


def test_every_intermediate_without_a_mask(arrays: Arrays, learner: Learner) -> None:
    outputs = intermediates(learner)
    encoded = learner.encoder(signal(arrays))
    want = {name.removeprefix("eval_nomask/"): array for name, array in arrays.items() if "eval_nomask" in name}
    gelu = torch.nn.functional.gelu
    for block in range(4):
        assert_agrees(gelu(outputs[f"convolutions.norms.{block}"]).transpose(1, 2), want[f"conv_block{block}"])
    assert_agrees(encoded.convolved.transpose(1, 2), want["conv_features"])
    assert_agrees(encoded.features, want["features_ln"])
    assert_agrees(outputs["projection"], want["features_proj"])
    assert_agrees(learner.encoder.positional.weight(), want["effective_pos_conv_weight"])
    assert_agrees(gelu(outputs["positional"]), want["pos_conv"])
    assert_agrees(outputs["norm"], want["encoder_in_ln"])
    for layer in range(2):
        assert_agrees(outputs[f"layers.{layer}"].transpose(0, 1), want[f"layer{layer}_out_TBC"])
    assert_agrees(encoded.contexts, want["transformer_out"])
    assert_agrees(mean_over_time(encoded.contexts), want["pooled"])


def test_padded_segments(arrays: Arrays, learner: Learner) -> None:
    lengths = torch.from_numpy((~arrays["pad/padding_mask"]).sum(1))
    encoded = learner.encoder(signal(arrays, "pad"), lengths=lengths)
    valid = valid_tokens(lengths, 156, SIZES)
    assert np.array_equal(~valid.numpy(), arrays["pad/token_padding_mask"])
    assert_agrees(encoded.contexts * valid.unsqueeze(-1), arrays["pad/transformer_out"] * valid.unsqueeze(-1).numpy())
    assert_agrees(mean_over_time(encoded.contexts, valid), arrays["pad/pooled"])


class Forward:
    """The masked forward in one mode, step by step, with the reference's draws."""

    def __init__(self, learner: Learner, arrays: Arrays, mode: str) -> None:
        learner.train(mode == "train_mask")
        self.want = {name.removeprefix(mode + "/"): array for name, array in arrays.items() if name.startswith(mode)}
        self.mask: TimeMask = in_slots(torch.from_numpy(arrays["in/mask_indices"]), MASKED)
        self.encoded: Encoded = learner.encoder(signal(arrays), self.mask.masked, feature_gradient=FEATURE_GRADIENT)
        at = self.mask.slots.unsqueeze(-1)
        self.noise, self.temperature = None, torch.tensor(2.0)
        if mode == "train_mask":
            self.noise = torch.from_numpy(self.want["gumbel_noise"]).view(8, MASKED, 2, 20)
            self.temperature = torch.tensor(float(self.want["gumbel_temp"]))
        features = self.encoded.features.gather(1, at.expand(-1, -1, 32))
        self.quantized = learner.quantizer(features, self.temperature, self.noise)
        self.targets = learner.target_projection(self.quantized.vectors)
        self.contexts = learner.context_projection(self.encoded.contexts.gather(1, at.expand(-1, -1, 64)))
        every = local.logits(self.contexts, self.targets, self.quantized.codes, self.mask.weights)
        flat = torch.from_numpy(self.want["neg_idxs"]) - torch.arange(8).unsqueeze(1) * MASKED
        self.negatives = flat.view(8, MASKED, 10)
        self.logits = local.Logits(every.positive, every.negatives.gather(2, self.negatives))

        weights = self.mask.weights
        self.local = local.mean_of_tokens(local.info_nce(self.logits), weights)
        shares = local.probable_codes(self.quantized.logits, weights)
        self.perplexity = local.perplexity(shares)
        self.best = local.perplexity(local.best_codes(self.quantized.logits, weights))
        self.diversity = DIVERSITY * local.diversity(self.perplexity, shares.numel())
        self.penalty = local.feature_penalty(self.encoded.convolved)
        self.pooled = mean_over_time(self.encoded.contexts)
        people = torch.from_numpy(arrays["in/patient_id"])[::2]
        self.contrast = contrast.first_against_second(self.pooled.view(4, 2, -1), people)
        self.total = self.local + self.diversity + FEATURE_PENALTY * self.penalty + self.contrast.loss


@pytest.fixture(params=MODES)
def forward(request: pytest.FixtureRequest, learner: Learner, arrays: Arrays) -> Iterator[Forward]:
    yield Forward(learner, arrays, request.param)


def test_every_intermediate_with_a_mask(forward: Forward) -> None:
    want = forward.want
    assert_agrees(forward.encoded.contexts, want["transformer_out_masked"])
    assert_agrees(forward.pooled, want["pooled_masked"])
    assert_agrees(forward.quantized.vectors, want["quantized"])
    assert_agrees(forward.targets, want["targets_projected_y"])
    assert_agrees(forward.contexts, want["final_proj_x"])
    rows = torch.arange(8).view(8, 1, 1)
    assert_agrees(forward.targets[rows, forward.negatives].permute(2, 0, 1, 3), want["negatives"])
    logits = torch.cat([forward.logits.positive.unsqueeze(0), forward.logits.negatives.permute(2, 0, 1)])
    possible = np.isfinite(want["local_logits_NBM"])
    assert np.array_equal((logits > -1000).numpy(), possible)
    assert_agrees(logits[torch.from_numpy(possible)], want["local_logits_NBM"][possible])


def test_losses(forward: Forward) -> None:
    want, tokens = forward.want, float(forward.want["sample_size"])
    assert_agrees(forward.local.double(), want["local_loss_mean"])
    assert_agrees(forward.local.double() * tokens, want["local_loss_sum"])
    assert_agrees(forward.diversity.double() * tokens, want["diversity_loss_x_ss"])
    assert_agrees(forward.perplexity, want["prob_perplexity"])
    assert_agrees(forward.best, want["code_perplexity"])
    assert_agrees(forward.penalty, want["features_pen"])
    assert_agrees(forward.contrast.loss.double(), want["global_loss"])
    assert_agrees(forward.total, want["total_loss_per_token"])
    found = (forward.logits.positive > forward.logits.negatives.amax(-1)).sum()
    assert [float(found), tokens] == want["accuracy"].tolist()


def check_gradients(learner: Learner, want: Arrays) -> None:
    prefix = "grad_over_ss/"
    theirs = {name.removeprefix(prefix): torch.from_numpy(a) for name, a in want.items() if prefix in name}
    wanted = from_reference(theirs, SIZES)
    assert wanted.keys() == {name for name, _ in learner.named_parameters()}
    for name, parameter in learner.named_parameters():
        assert parameter.grad is not None
        worst = (parameter.grad - wanted[name]).abs().max() / wanted[name].abs().max()
        assert worst < 2e-3, (name, worst)


def test_gradients(forward: Forward, learner: Learner) -> None:
    forward.total.backward()
    check_gradients(learner, forward.want)


@pytest.mark.parametrize("mode", MODES)
def test_the_learner_itself(mode: str, learner: Learner, arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    """From batch to total and gradients; only the recorded mask, which was thinned already, is put in its place."""
    steps = Forward(learner, arrays, mode)
    monkeypatch.setattr(learner, "_time_mask", lambda *_: steps.mask)
    others = steps.negatives - (steps.negatives > torch.arange(MASKED).view(1, -1, 1)).long()
    uniform = (others + 0.5) / (MASKED - 1)  # what draws them
    people = torch.from_numpy(arrays["in/patient_id"])[::2]
    batch = signal(arrays).reshape(4, 2, 2500, 12)
    draws = Draws(gumbel=steps.noise, negatives=uniform)
    losses = learner(batch, people, torch.zeros(8, 10, dtype=torch.int64), steps.temperature, draws)
    want = {
        "loss": "total_loss_per_token",
        "local": "local_loss_mean",
        "global": "global_loss",
        "feature_penalty": "features_pen",
        "code_perplexity": "code_perplexity",
        "probability_perplexity": "prob_perplexity",
    }
    for ours, theirs in want.items():
        assert_agrees(losses.metrics[ours].double(), steps.want[theirs].astype(np.float64))
    losses.total.backward()
    check_gradients(learner, steps.want)
