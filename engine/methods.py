"""The seven systems of the paper as one table."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class System:
    # What the two [2500, 12] of a pair are: the two segments of a crop, or two views of one segment.
    sample: Literal["crop", "segment", "none"]
    augmentation: Literal["none", "rlm", "3kg"]
    local: bool  # the time mask, and the loss over what it hides, with diversity and feature penalty
    contrast: Literal["none", "cmsc", "simclr", "3kg"]

    @property
    def time_mask(self) -> bool:
        return self.local

    @property
    def mask_leads(self) -> float:
        """The chance of each lead; a run may set another."""
        return 0.5 if self.augmentation == "rlm" else 0.0


SYSTEMS = {
    "random_init": System("none", "none", local=False, contrast="none"),
    "w2v": System("crop", "none", local=True, contrast="none"),
    "cmsc": System("crop", "none", local=False, contrast="cmsc"),
    "w2v_cmsc": System("crop", "none", local=True, contrast="cmsc"),
    "w2v_cmsc_rlm": System("crop", "rlm", local=True, contrast="cmsc"),
    "3kg": System("segment", "3kg", local=False, contrast="3kg"),
    "simclr_rlm": System("segment", "rlm", local=False, contrast="simclr"),
}
SPANS, SPAN = 10, 10  # of the time mask in each segment, which may overlap; and tokens of one
POOL = 512  # pairs that contrast with each other in an update: part of the method, whatever fits in memory

# Weights of the loss, beside 1 for the local and the global one.
DIVERSITY = 0.1
FEATURE_PENALTY = 10.0
FEATURE_GRADIENT = 0.1  # the share of the gradient that reaches the convolutions in pre-training
