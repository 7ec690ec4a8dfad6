"""The training forward of every system and recipe is one static graph."""

from typing import Literal

import pytest
import torch

from engine.learner import Draws, Learner
from engine.methods import SYSTEMS
from engine.model.sizes import NO_DROPOUT, SIZES, Recipe
from engine.tuner import Tuner
from tests.engine import draws

RECIPES: tuple[Recipe, ...] = ("paper", "reference")
TRAINED = [name for name, system in SYSTEMS.items() if system.sample != "none"]
IDENTITY = torch.tensor([0, 1, 2, 0])


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", TRAINED)
def test_one_graph_that_gives_the_eager_loss_and_gradients(name: str, recipe: Recipe) -> None:
    system = SYSTEMS[name]
    learner = Learner(system, SIZES["tiny"], recipe)
    compiled = torch.compile(learner, fullgraph=True, backend="aot_eager")
    losses, gradients = [], []
    for forward in (learner, compiled):
        torch.manual_seed(0)
        learner.zero_grad()
        result = forward(draws.batch(4), IDENTITY, draws.starts_for(system, 8), torch.tensor(2.0))
        result.total.backward()
        losses.append(result.total.detach())
        gradients.append([p.grad for p in learner.parameters() if p.grad is not None])
    torch.testing.assert_close(losses[1], losses[0])
    assert len(gradients[0]) > 20
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_step_compiles_anew(recipe: Recipe) -> None:
    """Masks, temperatures and identities change from step to step."""
    system = SYSTEMS["w2v_cmsc_rlm"]
    learner = Learner(system, SIZES["tiny"], recipe)
    graphs = 0

    def count(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        nonlocal graphs
        graphs += 1
        return graph

    compiled = torch.compile(learner, fullgraph=True, backend=count)
    for step in range(20):
        identity = torch.randint(0, 3, (4,))
        temperature = torch.tensor(2.0 - step / 20)
        loss = compiled(draws.batch(4, step), identity, draws.starts(8, seed=step), temperature).total
        assert loss.isfinite()
    assert graphs == 1


def tuning(task: Literal["diagnosis", "identification"]) -> tuple[Tuner, torch.Tensor, torch.Tensor]:
    """A tuner, segments, and their targets."""
    targets = (draws.batch(2)[:, 0, 0, :6] > 0).float() if task == "diagnosis" else torch.tensor([5, 0])
    return Tuner(task, 6, SIZES["tiny"], drop=NO_DROPOUT), draws.batch(2)[:, 0], targets


@pytest.mark.parametrize("task", ["diagnosis", "identification"])
def test_fine_tuning_is_one_graph_too(task: Literal["diagnosis", "identification"]) -> None:
    tuner, signal, targets = tuning(task)
    compiled = torch.compile(tuner, fullgraph=True, backend="aot_eager")
    gradients = []
    for forward in (tuner, compiled):
        tuner.zero_grad()
        forward(signal, targets).total.backward()
        gradients.append([p.grad for p in tuner.parameters() if p.grad is not None])
    assert len(gradients[0]) > 20
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)
    with torch.no_grad():  # as it validates
        torch.testing.assert_close(compiled(signal).outputs, tuner(signal).outputs)


@pytest.mark.slow
def test_inductor() -> None:
    """As it trains; without dropout, and with given noise, equal to eager."""
    arguments = draws.batch(4), IDENTITY, draws.starts(8), torch.tensor(2.0)
    noise = Draws(gumbel=-torch.empty(8, 100, 2, 320).exponential_().log())
    still = Learner(SYSTEMS["w2v_cmsc_rlm"], SIZES["tiny"], drop=NO_DROPOUT)
    eager = still(*arguments, noise).total
    compiled = torch.compile(still, fullgraph=True)(*arguments, noise).total
    torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-4)
    learner = Learner(SYSTEMS["w2v_cmsc_rlm"], SIZES["tiny"])
    losses = torch.compile(learner, fullgraph=True)(*arguments)
    losses.total.backward()
    assert losses.total.isfinite() and abs(float(losses.total - eager)) < 3
    assert all(p.grad is not None and p.grad.isfinite().all() for p in learner.parameters())


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", TRAINED)
def test_the_host_never_waits_for_the_gpu(name: str, compiled: bool) -> None:
    """Through forward, losses and backward; and they give there what they give on the CPU."""
    system = SYSTEMS[name]
    torch.manual_seed(0)
    learner = Learner(system, SIZES["tiny"], drop=NO_DROPOUT)
    noise = Draws(gumbel=-torch.empty(8, 100, 2, 320).exponential_().log())
    starts = draws.starts_for(system, 8)
    on_cpu = learner(draws.batch(4), IDENTITY, starts, torch.tensor(2.0), noise).total
    learner.cuda()
    forward = torch.compile(learner, fullgraph=True) if compiled else learner
    arguments = draws.batch(4).cuda(), IDENTITY.cuda(), None if starts is None else starts.cuda()
    more = torch.tensor(2.0, device="cuda"), Draws(gumbel=noise.gumbel.cuda() if noise.gumbel is not None else None)
    forward(*arguments, *more).total.backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        total = forward(*arguments, *more).total
        total.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(total.cpu(), on_cpu, rtol=1e-2, atol=1e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("task", ["diagnosis", "identification"])
def test_the_host_never_waits_in_fine_tuning(task: Literal["diagnosis", "identification"]) -> None:
    tuner, signal, targets = tuning(task)
    on_cpu = tuner(signal, targets).total
    compiled = torch.compile(tuner.cuda(), fullgraph=True)
    inputs = signal.cuda(), targets.cuda()
    compiled(*inputs).total.backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        total = compiled(*inputs).total
        total.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(total.cpu(), on_cpu, rtol=1e-2, atol=1e-2)
