"""How fast the machine multiplies matrices: what a share of its rate is a share of."""

import time

import torch

from engine.model.sizes import Sizes

_WARM = 3.0  # seconds; a cold rate reads up to three times too low
_REPEATS = 5
_TOGETHER = 50
_SQUARES = (1024, 2048, 4096)

Product = tuple[int, int, int]  # [rows, inner] @ [inner, columns]


def products(sizes: Sizes, rows: int) -> list[Product]:
    """Those of DESIGN 4: three cubes, and the four of a Transformer layer at so many `rows`."""
    layer = [(3 * sizes.dim, sizes.dim), (sizes.dim, sizes.dim), (sizes.feedforward, sizes.dim)]
    of_model = [(rows, inner, columns) for columns, inner in [*layer, (sizes.dim, sizes.feedforward)]]
    return [(n, n, n) for n in _SQUARES] + of_model


def matrix_rate(of: list[Product], dtype: torch.dtype, device: torch.device) -> float:
    """The best of all products, FLOP/s."""
    best = 0.0
    begin = time.perf_counter()
    warm = torch.randn(2048, 2048, device=device, dtype=dtype)
    while time.perf_counter() - begin < _WARM:
        warm @ warm
        wait(device)
    for rows, inner, columns in of:
        left = torch.randn(rows, inner, device=device, dtype=dtype)
        right = torch.randn(inner, columns, device=device, dtype=dtype)
        together = _TOGETHER if device.type == "cuda" else 1  # so that the host is not what is measured
        for _ in range(_REPEATS):
            begin = time.perf_counter()
            for _ in range(together):
                left @ right
            wait(device)
            best = max(best, together * 2 * rows * inner * columns / (time.perf_counter() - begin))
    return best


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
