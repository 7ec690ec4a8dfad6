"""How fast the machine multiplies matrices: what a share of its rate is a share of."""

import time

import torch

from engine.model.sizes import Sizes

_WARM = 3.0  # seconds; a cold rate reads up to three times too low
_REPEATS = 5
_SQUARES = (1024, 2048, 4096)
# Dense bfloat16 by datasheet, FLOP/s. A name that is not here has no peak: it is never guessed.
_DATASHEET = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "RTX A6000": 155e12, "L40S": 362e12}

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
        for _ in range(_REPEATS):
            begin = time.perf_counter()
            left @ right
            wait(device)
            best = max(best, 2 * rows * inner * columns / (time.perf_counter() - begin))
    return best


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def datasheet_peak(device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for known, peak in _DATASHEET.items() if known in name), None)
