"""The arithmetic of the paper's sizes, whatever form of an operation runs: what MFU is a share of."""

from engine.methods import SPAN, SPANS
from engine.model.sizes import Sizes


def forward_flops(sizes: Sizes, samples: int = 2500) -> dict[str, float]:
    """Of one segment, by part; a multiplication and an addition are two."""
    tokens = sizes.tokens(samples)
    widths = [sizes.leads] + [sizes.conv_dim] * sizes.conv_blocks
    convolutions = sum(
        (samples >> block) * 2 * widths[block - 1] * widths[block] for block in range(1, sizes.conv_blocks + 1)
    )
    per_token = 4 * sizes.dim**2 + 2 * sizes.dim * sizes.feedforward
    products = {
        "convolutions": convolutions,
        "projection": tokens * sizes.conv_dim * sizes.dim,
        "positional": tokens * sizes.dim * (sizes.dim // sizes.position_groups) * sizes.position_taps,
        "linears": sizes.layers * tokens * per_token,
        "attention": sizes.layers * 2 * tokens**2 * sizes.dim,
        "local": expected_masked(tokens)
        * (
            sizes.conv_dim * sizes.code_groups * sizes.codes
            + (sizes.dim + sizes.contrast_dim) * sizes.contrast_dim
            + expected_masked(tokens) * sizes.contrast_dim
        ),
    }
    return {part: 2.0 * count for part, count in products.items()}


def training_flops(sizes: Sizes, samples: int = 2500, local: bool = True) -> float:
    """Forward and backward of one segment, every product with two gradients of its own size; without the `local`
    objective where a system has none."""
    parts = forward_flops(sizes, samples)
    return 3 * (sum(parts.values()) - (0 if local else parts["local"]))


def expected_masked(tokens: int) -> float:
    """The mean size of the union of SPANS spans of SPAN tokens, their starts drawn without replacement."""
    places = tokens - SPAN + 1
    if places <= SPANS:
        return float(tokens)

    def missed(token: int) -> float:
        """The probability that no span covers it."""
        covering = min(token, places - 1) - max(0, token - SPAN + 1) + 1
        probability = 1.0
        for drawn in range(SPANS):
            probability *= (places - covering - drawn) / (places - drawn)
        return probability

    return sum(1 - missed(token) for token in range(tokens))
