"""What a device is sold as, and what a CPU's memory costs."""

import ctypes

import torch

# Dense bfloat16 by datasheet, FLOP/s, by full name. A device that is not here has no peak: it is never guessed.
_PEAKS = {
    "NVIDIA H200": 989e12,
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA A100-SXM4-40GB": 312e12,
    "NVIDIA A100 80GB PCIe": 312e12,
    "NVIDIA A100-PCIE-40GB": 312e12,
    "NVIDIA RTX A6000": 155e12,
    "NVIDIA L40S": 362e12,
}


def datasheet_peak(of: torch.device) -> float | None:
    return _PEAKS.get(torch.cuda.get_device_name(of)) if of.type == "cuda" else None


def device() -> torch.device:
    """The GPU, where there is one."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    keep_freed_memory()
    return torch.device("cpu")


def keep_freed_memory() -> None:
    """What glibc would give back to the system, the next update would get again page by page, each fault paid anew."""
    glibc, trim_threshold, most_mapped = ctypes.CDLL(None), -1, -4  # as malloc.h numbers them
    glibc.mallopt(trim_threshold, -1)
    glibc.mallopt(most_mapped, 0)
