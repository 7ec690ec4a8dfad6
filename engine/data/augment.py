"""The augmentations on the device: the coefficients of a batch, and the DALI graph that applies them.

A segment is its signal plus a few products of a course over time and a level per lead, so the graph takes small
coefficients instead of noise. In order: to mV; noise; III, aVR, aVL, aVF again from I and II where both are there;
then what is absent, not asked for or masked becomes zero.
"""

from collections.abc import Mapping
from functools import reduce
from operator import add

import numpy as np
import torch
from numpy.typing import NDArray
from nvidia.dali import fn, math, types
from nvidia.dali.data_node import DataNode

from engine.data.chance import LEADS, LIMB_LEADS, RATE, SEGMENT, Augmentation, Chance

_MV = np.float32(1e-3)  # of one unit of int16
_LINES = (50.0, 60.0)  # Hz

Coefficients = dict[str, NDArray[np.float32]]


def coefficients(chance: Chance, augmentation: Augmentation, present: NDArray[np.bool_]) -> Coefficients:
    """What the graph needs of a batch, by name. present: [n, views, 12]; all are [n, views, 1, 1 or 12]."""
    if augmentation.vectorcardiogram:
        return {}
    kept = present & chance.kept_leads(augmentation.mask_leads) if augmentation.mask_leads else present
    if not augmentation.noisy():
        return {"gain": _of_leads(kept * _MV)}
    values = _recomputation(present, kept)
    recipe = augmentation.recipe
    if augmentation.powerline:
        amplitude, frequency, phase = chance.powerline(augmentation.powerline, recipe)
        for line in _LINES if recipe == "reference" else _LINES[:1]:
            # a cos(wt + phase) = (a cos phase) cos wt - (a sin phase) sin wt
            at = amplitude * (frequency == line)
            values |= {f"cos{line:.0f}": _of_time(at * np.cos(phase)), f"sin{line:.0f}": _of_time(-at * np.sin(phase))}
    if augmentation.emg:
        values["emg"] = _of_leads(chance.emg(augmentation.emg)[0])
    if augmentation.wander:
        amplitude, frequency, phase, factor = chance.wander(augmentation.wander, recipe)
        values["factor"] = _of_leads(factor)
        for wave in range(3):
            values[f"amplitude{wave}"] = _of_time(amplitude[..., wave])
            values[f"omega{wave}"] = _of_time(2 * np.pi * frequency[..., wave] / RATE)  # radians a sample
            values[f"phase{wave}"] = _of_time(phase[..., wave])
    if augmentation.shift:
        level, start, stop = chance.shift(augmentation.shift, recipe)
        values |= {"level": _of_leads(level), "start": _of_time(start), "stop": _of_time(stop)}
    return values


def _of_leads(values: NDArray) -> NDArray[np.float32]:
    return np.ascontiguousarray(values[:, :, None, :], np.float32)


def _of_time(values: NDArray) -> NDArray[np.float32]:
    return np.ascontiguousarray(values[:, :, None, None], np.float32)


def _recomputation(present: NDArray[np.bool_], kept: NDArray[np.bool_]) -> Coefficients:
    """How much of itself, of I and of II each lead is afterwards: nothing of anything where it is not kept."""
    both = (present[..., 0] & present[..., 1])[..., None]  # [n, views, 1]
    of_i, of_ii = np.zeros(len(LEADS)), np.zeros(len(LEADS))
    of_i[2:6], of_ii[2:6] = LIMB_LEADS.T
    mixed = (of_i != 0) & both
    return {
        "itself": _of_leads(kept & ~mixed),
        "of_i": _of_leads(kept * both * of_i),
        "of_ii": _of_leads(kept * both * of_ii),
    }


def graph(signal: DataNode, given: Mapping[str, DataNode], white: DataNode | None, device: str) -> DataNode:
    """signal: int16 [1 or views, SEGMENT, 12] on the device; given: `coefficients`; white: noise of the bank, as wide
    as the result. -> float32 mV [views, SEGMENT, 12]; without coefficients [1 or views, SEGMENT, 12]"""
    if not given:
        return signal * _MV
    if "itself" not in given:
        return signal * given["gain"]
    noisy = signal * _MV
    if "cos50" in given:
        noisy = noisy + _powerline(given, device)
    if white is not None:
        noisy = noisy + white * given["emg"]
    if "factor" in given:
        noisy = noisy + _wander(given, device) * given["factor"]
    if "level" in given:
        sample = _constant(np.arange(SEGMENT), device)
        inside = (sample >= given["start"]) & (sample < given["stop"])
        noisy = noisy + inside * given["level"]
    lead_i = fn.slice(noisy, start=0, shape=1, axes=[2])
    lead_ii = fn.slice(noisy, start=1, shape=1, axes=[2])
    return noisy * given["itself"] + lead_i * given["of_i"] + lead_ii * given["of_ii"]


def _powerline(given: Mapping[str, DataNode], device: str) -> DataNode:
    waves = []
    for line in _LINES:
        if f"cos{line:.0f}" in given:
            # Tables, because the cosine of a float32 angle of 1,600 radians is off by 1e-4.
            angle = 2 * np.pi * line / RATE * np.arange(SEGMENT)
            waves.append(_constant(np.cos(angle), device) * given[f"cos{line:.0f}"])
            waves.append(_constant(np.sin(angle), device) * given[f"sin{line:.0f}"])
    return reduce(add, waves)


def _wander(given: Mapping[str, DataNode], device: str) -> DataNode:
    sample = _constant(np.arange(SEGMENT), device)
    waves = [
        math.cos(sample * given[f"omega{wave}"] + given[f"phase{wave}"]) * given[f"amplitude{wave}"]
        for wave in range(3)
    ]
    return reduce(add, waves)


def _constant(course: NDArray, device: str) -> DataNode:
    """Over time: [1, SEGMENT, 1]."""
    return types.Constant(course.astype(np.float32)[None, :, None], device=device)


def vectorcardiogram_views(signal: torch.Tensor, chance: Chance, present: NDArray[np.bool_]) -> torch.Tensor:
    """3KG: turned, scaled and with half of each lead zero. signal: mV [n, 1, SEGMENT, 12] -> [n, views, SEGMENT, 12]"""
    matrix, start = chance.vectorcardiogram()
    turned = signal @ _to(signal, matrix.astype(np.float32)).mT.to(signal.dtype)
    begin = _to(signal, start.astype(np.int16))[:, :, None, :]  # [n, views, 1, 12]
    place = torch.arange(SEGMENT, dtype=torch.int16, device=signal.device)[:, None] - begin  # behind the first zero
    half = SEGMENT // 2
    hidden = ((place >= 0) & (place < half)) | (place < half - SEGMENT)  # the span goes on at the segment's beginning
    return turned.masked_fill_(hidden | ~_to(signal, present)[:, :, None, :], 0)


def _to(like: torch.Tensor, values: NDArray) -> torch.Tensor:
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(like.device, non_blocking=True) if like.is_cuda else tensor
