"""Forms of the positional convolution, forward and backward: time, and error against float64."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.machine import wait
from engine.model.positional import grouped_convolution
from engine.model.sizes import Sizes

_REPEATS = 5
Form = Callable[[Tensor, Tensor, int], Tensor]


def direct(x: Tensor, weight: Tensor, groups: int) -> Tensor:
    taps = weight.shape[-1]
    return F.conv1d(x.transpose(1, 2), weight, groups=groups, padding=taps // 2)[..., :-1].transpose(1, 2)


def fast_fourier(x: Tensor, weight: Tensor, groups: int) -> Tensor:
    """torch.fft in float32, of the length that was fastest, and complex products per group."""
    tokens, taps, length = x.shape[1], weight.shape[-1], 288
    spectrum = torch.fft.rfft(x.float(), length, dim=1).unflatten(-1, (groups, -1)).permute(1, 2, 0, 3)
    shifted = F.pad(weight.float(), (0, length - taps)).roll(-(taps // 2), -1)
    kernel = torch.fft.rfft(shifted, length).conj().unflatten(0, (groups, -1)).permute(3, 0, 2, 1)
    product = (spectrum @ kernel).permute(2, 0, 1, 3).flatten(2)
    y: Tensor = torch.fft.irfft(product, length, dim=1)
    return y[:, :tokens].to(x.dtype)


FORMS: dict[str, Form] = {
    "direct (conv1d)": direct,
    "fast Fourier transform": fast_fourier,
    "Fourier as matrix products": grouped_convolution,
}


def measure(sizes: Sizes, segments: int, device: torch.device) -> list[dict[str, Any]]:
    x = torch.randn(segments, sizes.tokens(2500), sizes.dim, device=device)
    weight = torch.randn(sizes.dim, sizes.dim // sizes.position_groups, sizes.position_taps, device=device) * 0.02
    groups, few = sizes.position_groups, min(segments, 2)
    rows = []
    for dtype in (torch.float32, torch.bfloat16):
        inputs = [tensor.to(dtype) for tensor in (x, weight, torch.randn_like(x))]
        a_few = [inputs[0][:few], inputs[1], inputs[2][:few]]
        exact = _forward_and_backward(direct, groups, *(tensor.double() for tensor in a_few))
        for name, form in FORMS.items():
            found = _forward_and_backward(form, groups, *a_few)
            errors = [float((a.double() - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)]
            seconds = []
            for _ in range(_REPEATS):
                wait(device)
                begin = time.perf_counter()
                _forward_and_backward(form, groups, *inputs)
                wait(device)
                seconds.append(time.perf_counter() - begin)
            precision = str(dtype).removeprefix("torch.")
            median = statistics.median(seconds)
            rows.append({"form": name, "precision": precision, "seconds": median, "error": max(errors)})
    return rows


def _forward_and_backward(form: Form, groups: int, x: Tensor, weight: Tensor, gradient: Tensor) -> list[Tensor]:
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    y = form(x, weight, groups)
    return [y.detach(), *torch.autograd.grad(y, (x, weight), gradient)]
