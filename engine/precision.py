"""Where bfloat16 is not enough: Gumbel noise, losses and the statistics of norms are computed in float32."""

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """`x` in float32; float64 stays, so that gradients can be checked."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
