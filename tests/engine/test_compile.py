"""The training forward of every system and recipe is one static graph."""

import pytest
import torch

from engine.learner import Learner
from engine.methods import SYSTEMS
from engine.model.sizes import SIZES, Recipe
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


@pytest.mark.slow
def test_inductor() -> None:
    learner = Learner(SYSTEMS["w2v_cmsc_rlm"], SIZES["tiny"]).eval()
    arguments = draws.batch(4), IDENTITY, draws.starts(8), torch.tensor(2.0)
    eager = learner(*arguments).total
    compiled = torch.compile(learner, fullgraph=True)(*arguments).total
    compiled.backward()
    torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-4)
    assert all(p.grad.isfinite().all() for p in learner.parameters() if p.grad is not None)
