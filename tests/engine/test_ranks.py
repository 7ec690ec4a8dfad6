"""Two ranks that share a batch have the gradients of one process that holds it."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from engine.learner import Draws, Learner
from engine.methods import SYSTEMS
from engine.model.sizes import NO_DROPOUT, Sizes
from tests.engine import draws

RANKS, PAIRS = 2, 6
NAMES = ("w2v_cmsc", "cmsc", "simclr_rlm", "3kg")
# One person's pairs are on both ranks, another's on one.
IDENTITY = torch.tensor([0, 1, 1, 0, 2, 0])
SIZES = Sizes(conv_dim=16, dim=32, layers=1, heads=2, feedforward=32, codes=12, contrast_dim=8, position_taps=16)


def gradients(name: str, rank: int, ranks: dist.ProcessGroup | None, compiled: bool) -> dict[str, Tensor]:
    """float64, of the pairs of `rank`; of all where `ranks` is None."""
    system = SYSTEMS[name]
    torch.manual_seed(0)
    learner = Learner(system, SIZES, drop=NO_DROPOUT, ranks=ranks).double()
    noise = -torch.empty(2 * PAIRS, 100, 2, 12, dtype=torch.float64).exponential_().log()
    pairs = slice(0, PAIRS) if ranks is None else slice(rank * PAIRS // RANKS, (rank + 1) * PAIRS // RANKS)
    segments = slice(2 * pairs.start, 2 * pairs.stop)
    starts = draws.starts_for(system, 2 * PAIRS)
    forward = torch.compile(learner, fullgraph=True, backend="aot_eager") if compiled else learner
    losses = forward(
        draws.batch(PAIRS)[pairs],
        IDENTITY[pairs],
        None if starts is None else starts[segments],
        torch.tensor(1.5, dtype=torch.float64),
        Draws(gumbel=noise[segments]),
    )
    losses.total.backward()
    found = {name: p.grad for name, p in learner.named_parameters() if p.grad is not None}
    return found | {"loss": losses.total.detach()}


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    found = {}
    for compiled in (False, True):
        for name in NAMES:
            mean = gradients(name, rank, dist.group.WORLD, compiled)
            for tensor in mean.values():
                dist.all_reduce(tensor)
                tensor /= RANKS
            found[name, compiled] = mean
    if rank == 0:
        torch.save(found, f"{folder}/gradients.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def of_two_ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], dict[str, Tensor]]:
    folder: Path = tmp_path_factory.mktemp("ranks")
    mp.spawn(work, (str(folder),), nprocs=RANKS)
    found: dict[tuple[str, bool], dict[str, Tensor]] = torch.load(folder / "gradients.pt", weights_only=True)
    return found


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_mean_over_ranks(name: str, compiled: bool, of_two_ranks: dict[tuple[str, bool], dict[str, Tensor]]) -> None:
    alone, together = gradients(name, 0, None, compiled=False), of_two_ranks[name, compiled]
    assert alone.keys() == together.keys()
    for parameter, gradient in alone.items():
        torch.testing.assert_close(together[parameter], gradient, rtol=0, atol=1e-10, msg=parameter)
