"""The table of the paper's systems, row by row."""

import pytest
import torch

from engine.learner import Learner
from engine.methods import SYSTEMS
from engine.model.sizes import SIZES, Recipe
from tests.engine import draws

LOCAL = {
    "local",
    "local_chance",
    "local_accuracy",
    "local_counted",
    "diversity",
    "feature_penalty",
    "probability_perplexity",
    "code_perplexity",
}
GLOBAL = {"global", "global_chance", "pair_retrieval"}
TINY = SIZES["tiny"]


@pytest.mark.parametrize(
    ("name", "sample", "augmentation", "time_mask", "losses"),
    [
        ("w2v", "crop", "none", True, LOCAL),
        ("cmsc", "crop", "none", False, GLOBAL),
        ("w2v_cmsc", "crop", "none", True, LOCAL | GLOBAL),
        ("w2v_cmsc_rlm", "crop", "rlm", True, LOCAL | GLOBAL),
        ("3kg", "segment", "3kg", False, GLOBAL),
        ("simclr_rlm", "segment", "rlm", False, GLOBAL),
    ],
)
def test_what_each_system_wants_and_minimises(
    name: str, sample: str, augmentation: str, time_mask: bool, losses: set[str]
) -> None:
    system = SYSTEMS[name]
    assert (system.sample, system.augmentation, system.time_mask) == (sample, augmentation, time_mask)
    learner = Learner(system, TINY)
    result = learner(draws.batch(3), torch.arange(3), draws.starts_for(system, 6), torch.tensor(2.0))
    metrics = result.metrics
    assert metrics.keys() == {"loss"} | losses
    assert all(value.shape == () and not value.requires_grad for value in metrics.values())
    weighted = {"local": 1.0, "diversity": 0.1, "feature_penalty": 10.0, "global": 1.0}
    total = sum(weight * metrics[part] for part, weight in weighted.items() if part in metrics)
    torch.testing.assert_close(result.total.detach(), total)
    result.total.backward()
    assert all(p.grad is not None for p in learner.parameters() if p.requires_grad)


def test_the_baseline_has_nothing_to_learn() -> None:
    with pytest.raises(ValueError, match="nothing to pre-train"):
        Learner(SYSTEMS["random_init"], TINY)


def test_parameters_of_the_whole_learner() -> None:
    """The reference's count; the paper's recipe has conv biases and four layer norms where it has one instance norm."""
    counts = [
        sum(p.numel() for p in Learner(SYSTEMS["w2v_cmsc"], SIZES["base"], recipe).parameters())
        for recipe in ("reference", "paper")
    ]
    assert counts == [90_883_072, 90_885_632]


def test_simclr_knows_no_records() -> None:
    """Its positive is the other view, even where two segments are of one record; CMSC's is the record."""
    batch, identities = draws.batch(3), (torch.tensor([0, 1, 2]), torch.tensor([0, 0, 2]))
    losses = {}
    for name in ("simclr_rlm", "cmsc"):
        torch.manual_seed(0)
        learner = Learner(SYSTEMS[name], TINY).eval()
        losses[name] = [float(learner(batch, who, None, torch.tensor(2.0)).metrics["loss"]) for who in identities]
    assert losses["simclr_rlm"][0] == losses["simclr_rlm"][1]
    assert losses["cmsc"][0] != losses["cmsc"][1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("recipe", ["paper", "reference"])
@pytest.mark.parametrize("kind", ["zero", "constant", "rail"])
def test_losses_and_gradients_are_finite(kind: str, recipe: Recipe, dtype: torch.dtype) -> None:
    made = {
        "zero": torch.zeros(2, 2, 2500, 12),
        "constant": torch.full((2, 2, 2500, 12), 0.7),
        "rail": 32.767 * draws.batch(2).sign(),
    }
    torch.manual_seed(0)
    learner = Learner(SYSTEMS["w2v_cmsc_rlm"], TINY, recipe).to(dtype)
    result = learner(made[kind], torch.arange(2), draws.starts(4), torch.tensor(0.5))
    result.total.backward()
    assert all(value.isfinite() and value.dtype == torch.float32 for value in result.metrics.values())
    assert all(p.grad is not None and p.grad.isfinite().all() for p in learner.parameters())
