"""Each system learns eight pairs by heart, and cannot where there is nothing to learn."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.learner import Learner
from engine.methods import SYSTEMS
from engine.model.quantizer import Quantized
from engine.model.sizes import NO_DROPOUT, SIZES
from tests.engine import draws

PAIRS = 8
STEPS = {True: 120, False: 40}  # with the local objective, and without
LOCAL = [name for name, system in SYSTEMS.items() if system.local]
GLOBAL = [name for name, system in SYSTEMS.items() if system.contrast != "none"]
slow = pytest.mark.slow


def pairs(lead_masks: bool) -> Tensor:
    """Two recordings of eight rhythms: the frequencies are a pair's own, the phases each segment's."""
    random = torch.Generator().manual_seed(0)
    time = torch.linspace(0, 5, 2500)
    frequencies = torch.rand(PAIRS, 1, 8, 1, generator=random) * 20  # Hz
    phases = torch.rand(PAIRS, 2, 8, 1, generator=random) * 2 * math.pi
    leads = torch.randn(PAIRS, 2, 8, 12, generator=random)
    waves = torch.einsum("pvkt,pvkl->pvtl", torch.sin(2 * math.pi * frequencies * time + phases), leads)
    signal = 0.3 * waves + 0.1 * torch.randn(PAIRS, 2, 2500, 12, generator=random)  # mV
    kept = torch.rand(PAIRS, 2, 1, 12, generator=random) > 0.5 if lead_masks else 1
    return signal * kept


def shuffle_targets(module: Any, inputs: Any, quantized: Quantized) -> Quantized:
    """Each masked token is told another's code, at every step another one."""
    order = torch.randperm(quantized.codes.shape[1])
    return quantized._replace(vectors=quantized.vectors[:, order], codes=quantized.codes[:, order])


def after_training(name: str, shuffled: bool = False) -> dict[str, float]:
    """-> the metrics of the training batch, in evaluation mode."""
    system = SYSTEMS[name]
    torch.manual_seed(0)
    learner = Learner(system, SIZES["tiny"], drop=NO_DROPOUT)
    if shuffled and system.local:
        learner.quantizer.register_forward_hook(shuffle_targets)
    batch, starts, temperature = pairs(system.augmentation == "rlm"), draws.starts_for(system, 2 * PAIRS), 2.0
    parameters = [p for p in learner.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=3e-3 if system.local else 1e-3, betas=(0.9, 0.98), eps=1e-6)
    identity = torch.arange(PAIRS)

    def step() -> dict[str, Tensor]:
        seen = batch
        if shuffled:  # the second of each pair comes from anybody
            seen = torch.stack([batch[:, 0], batch[torch.randperm(PAIRS), 1]], 1)
        losses = learner(seen, identity, starts, torch.tensor(temperature))
        optimizer.zero_grad()
        losses.total.backward()
        return dict(losses.metrics)

    for _ in range(STEPS[system.local]):
        step()
        optimizer.step()
    learner.eval()
    metrics = [step() for _ in range(10 if shuffled else 1)]
    return {name: sum(float(m[name]) for m in metrics) / len(metrics) for name in metrics[0]}


@pytest.mark.parametrize("name", [*LOCAL, "cmsc", "3kg", "simclr_rlm"])
def test_learns_by_heart(name: str) -> None:
    found = after_training(name)
    if name in LOCAL:
        assert found["local_accuracy"] > 0.9
        assert found["local_counted"] > 0.9
        assert found["code_perplexity"] > 20
        assert found["local"] < found["local_chance"] / 4
    if name in GLOBAL:
        assert found["pair_retrieval"] == 1
        assert found["global"] < found["global_chance"] / 4


@pytest.mark.parametrize(
    "name", ["w2v_cmsc", "cmsc", *(pytest.param(n, marks=slow) for n in ("w2v", "w2v_cmsc_rlm", "3kg", "simclr_rlm"))]
)
def test_cannot_learn_what_is_not_there(name: str) -> None:
    found = after_training(name, shuffled=True)
    if name in LOCAL:
        assert found["local_accuracy"] < 0.05
        assert found["local"] > 0.95 * found["local_chance"]
    if name in GLOBAL:
        assert found["pair_retrieval"] < 0.35  # of 15 others one is right; a collapse to identities would be 1
        assert found["global"] > 0.9 * found["global_chance"]
