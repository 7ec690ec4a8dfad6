"""What is put on a fine-tuned encoder: diagnosis, and identification."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.precision import at_least_float32


class DiagnosisHead(nn.Linear):
    """[segments, dim] -> [segments, classes], logits."""

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__(dim, classes)
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, pooled: Tensor) -> Tensor:
        """In float32: eight bits are too few for a probability."""
        return F.linear(at_least_float32(pooled), at_least_float32(self.weight), at_least_float32(self.bias))


class IdentificationHead(nn.Module):
    """[segments, dim] -> the cosines to each person of the training data, which ArcFace is made of."""

    def __init__(self, dim: int, people: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(people, dim))
        nn.init.xavier_uniform_(self.kernel)

    def forward(self, pooled: Tensor) -> Tensor:
        directions = F.normalize(at_least_float32(self.kernel), dim=-1)
        return (F.normalize(at_least_float32(pooled), dim=-1) @ directions.T).clamp(-1, 1)
