"""One task in fine-tuning: an encoder, the mean over time, and a linear head."""

from typing import Literal, NamedTuple

from torch import Tensor, nn

from engine.model.encoder import Encoder, mean_over_time
from engine.model.heads import DiagnosisHead, IdentificationHead
from engine.model.sizes import FINETUNING, Dropout, Recipe, Sizes
from engine.objectives.margin import arcface, multi_label

Freeze = Literal["nothing", "convolutions", "encoder"]


class Tuned(NamedTuple):
    outputs: Tensor  # diagnosis: logits [segments, classes]; identification: vectors [segments, dim]
    total: Tensor  # the loss; 0 where no targets were given
    metrics: dict[str, Tensor]  # scalars, on the device


class Tuner(nn.Module):
    """`outputs`: classes of diagnosis, or people of the training data."""

    def __init__(
        self,
        task: Literal["diagnosis", "identification"],
        outputs: int,
        sizes: Sizes,
        recipe: Recipe = "paper",
        drop: Dropout = FINETUNING,
        freeze: Freeze = "nothing",
    ) -> None:
        super().__init__()
        self.task, self.freeze = task, freeze
        self.encoder = Encoder(sizes, recipe, drop)
        of_task = {"diagnosis": DiagnosisHead, "identification": IdentificationHead}
        self.head: nn.Module = of_task[task](sizes.dim, outputs)
        self.encoder.mask_embedding.requires_grad_(False)  # nothing is masked in time
        if freeze == "convolutions":
            self.encoder.convolutions.requires_grad_(False)
        elif freeze == "encoder":
            self.encoder.requires_grad_(False)

    def train(self, mode: bool = True) -> "Tuner":
        super().train(mode)
        if self.freeze == "encoder":  # a linear probe sees it as it will be used
            self.encoder.eval()
        return self

    def forward(self, signal: Tensor, targets: Tensor | None = None) -> Tuned:
        """`signal` [segments, samples, leads] in mV; `targets`: labels [segments, classes], or person [segments]."""
        pooled = mean_over_time(self.encoder(signal).contexts)  # [segments, dim]
        if self.task == "diagnosis":
            logits = self.head(pooled)
            total = pooled.new_zeros(()) if targets is None else multi_label(logits, targets)
            return Tuned(logits, total, {"loss": total.detach()})
        if targets is None:
            return Tuned(pooled, pooled.new_zeros(()), {})
        cosines = self.head(pooled)  # [segments, people]
        total = arcface(cosines, targets)
        right = (cosines.argmax(-1) == targets).float().mean()
        return Tuned(pooled, total, {"loss": total.detach(), "accuracy": right})
