"""What the contrastive objectives share: rows of all ranks, and a logit for who is no candidate."""

import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives

# No cosine over a temperature comes near it and its exponential is 0; unlike -inf it leaves gradients finite where a
# row has no candidate at all.
IMPOSSIBLE = -1e4

# Their names since torch 2.13, and before.
_gather = getattr(collectives, "all_gather_single", None) or collectives.all_gather_tensor
_gather_autograd = getattr(collectives, "all_gather_single_autograd", None) or collectives.all_gather_tensor_autograd


def gathered(rows: Tensor, ranks: dist.ProcessGroup) -> Tensor:
    """[n, ...] of every rank -> [ranks * n, ...], rank after rank.

    Backward, each rank gets the gradients of all ranks for its rows, added up. So where every rank takes its own share
    of a loss of all rows, and gradients are then averaged over ranks, each share must be a mean over the rank's rows.
    """
    everything: Tensor = (_gather_autograd if rows.requires_grad else _gather)(rows, 0, ranks)
    return everything
