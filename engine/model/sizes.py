"""How large an encoder is: every number settable, three choices by name."""

from dataclasses import dataclass
from typing import Literal

Recipe = Literal["paper", "reference"]  # the paper's words, or the arithmetic of its public code, fairseq-signals


@dataclass(frozen=True)
class Sizes:
    """BERT-base behind four convolutions, as in the paper, if nothing else is said."""

    leads: int = 12  # of which absent ones are zero
    conv_dim: int = 256  # channels of the convolutions
    conv_blocks: int = 4  # each halves the rate: a token is 2**4 = 16 samples
    dim: int = 768  # of the Transformer's tokens, and of an embedding
    layers: int = 12  # of the Transformer
    heads: int = 12  # of its attention
    feedforward: int = 3072  # of the block behind attention
    position_taps: int = 128  # of the positional convolution
    position_groups: int = 16  # of the positional convolution
    code_groups: int = 2  # of the codebook
    codes: int = 320  # in each group
    contrast_dim: int = 256  # of the codebook's vectors and of both sides of the local loss

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"{name} = {value} should be 1 or more")
        for parts, whole in (
            ("heads", "dim"),
            ("position_groups", "dim"),
            ("code_groups", "contrast_dim"),
        ):
            if getattr(self, whole) % getattr(self, parts):
                raise ValueError(
                    f"{whole} = {getattr(self, whole)} cannot be divided by {parts} = {getattr(self, parts)}"
                )
        if self.position_taps % 2:
            raise ValueError(f"position_taps = {self.position_taps} is odd")

    @property
    def patch(self) -> int:
        """Samples of a token."""
        return int(2**self.conv_blocks)

    def tokens(self, samples: int) -> int:
        """A rest of less than a patch is dropped."""
        return samples // self.patch


SIZES = {
    "tiny": Sizes(conv_dim=64, dim=128, layers=2, heads=4, feedforward=256, contrast_dim=64),
    "small": Sizes(conv_dim=128, dim=384, layers=6, heads=6, feedforward=1536, contrast_dim=128),
    "base": Sizes(),
}


@dataclass(frozen=True)
class Dropout:
    """The probability of a zero, by place."""

    residual: float = 0.1  # behind attention, behind the feed-forward block, and in front of the first layer
    attention: float = 0.1  # of the shares that attention gives out
    activation: float = 0.0  # inside the feed-forward block
    input: float = 0.1  # of the projected features
    features: float = 0.1  # of the features that become targets

    def __post_init__(self) -> None:
        for place, probability in vars(self).items():
            if not 0 <= probability < 1:
                raise ValueError(f"dropout.{place} = {probability} should be from 0 to below 1")


PRETRAINING = Dropout()
FINETUNING = Dropout(residual=0.0, attention=0.0, activation=0.1, input=0.0, features=0.0)
NO_DROPOUT = Dropout(0.0, 0.0, 0.0, 0.0, 0.0)
