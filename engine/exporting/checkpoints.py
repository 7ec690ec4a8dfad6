"""Checkpoints of fairseq-signals, and of ECG-FM, which comes from the same code: their weights and nothing else."""

import argparse
import ast
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy._core.multiarray import scalar
from torch import Tensor

from engine.data.chance import LEADS
from engine.data.storage import digest
from engine.model.reference_weights import from_reference, sizes_in
from engine.model.sizes import Sizes

# What such checkpoints hold beside tensors and runs nothing: old settings, and numbers among their metrics.
_HARMLESS: list[Any] = [
    argparse.Namespace,
    np.dtype,
    *(type(np.dtype(name)) for name in ("f4", "f8", "i4", "i8", "?")),
    (scalar, "numpy.core.multiarray.scalar"),  # as numpy 1 spelt it
    (scalar, "numpy._core.multiarray.scalar"),
]
# Settings of the reference that mean another arithmetic than the recipe's, unless they have these values.
_ARITHMETIC = {"extractor_mode": "default", "conv_bias": False, "layer_norm_first": False, "activation_fn": "gelu"}
_FAULTS_SHOWN = 3


class Imported(NamedTuple):
    weights: dict[str, Tensor]  # in our names; the head of a fine-tuned model stays behind
    sizes: Sizes
    about: dict[str, Any]  # for config.json
    without_head: bool


def read(path: Path) -> Imported:
    """ValueError where it is refused, or is not what recipe `reference` computes."""
    found = _load(path)
    try:
        return _imported(found, path)
    except ValueError as failure:
        lines = str(failure).splitlines()
        faults = lines[1:]
        more = f"; and {len(faults) - _FAULTS_SHOWN:,} more" if len(faults) > _FAULTS_SHOWN else ""
        shown = f" {'; '.join(faults[:_FAULTS_SHOWN])}{more}" if faults else ""
        raise ValueError(f"{path}: {lines[0]}{shown}") from None


def _load(path: Path) -> Mapping[str, Any]:
    """Weights, settings and numbers: a file that would run code of its own is refused."""
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    path.open("rb").close()  # what cannot be opened at all says so itself
    zipped = zipfile.is_zipfile(path)
    with torch.serialization.safe_globals(_HARMLESS):
        try:
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
        except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as failure:
            strangers = torch.serialization.get_unsafe_globals_in_checkpoint(path) if zipped else []
            if not strangers:
                raise ValueError(f"{path} is no checkpoint of torch, or damaged") from failure
            raise ValueError(
                f"{path} is refused: to load it would run {', '.join(sorted(strangers))}. Where it can be trusted, "
                "save its weights alone: torch.save({'model': c['model'], "
                "'cfg': {'model': {'encoder_attention_heads': 12}}}, ...)"
            ) from None
    if not isinstance(found, dict) or not isinstance(found.get("model"), dict):
        raise ValueError(f"{path} is no checkpoint of fairseq-signals: it holds no 'model'")
    return found


def _imported(found: Mapping[str, Any], path: Path) -> Imported:
    settings = [found.get("cfg"), found.get("args")]
    for name, expected in _ARITHMETIC.items():
        others = [value for value in _values(settings, name) if value != expected]
        if others:
            raise ValueError(f"{name} = {others[0]}: only {name} = {expected} is what recipe reference computes")
    heads = set(_values(settings, "encoder_attention_heads"))
    if len(heads) != 1:
        raise ValueError(
            "its settings do not say the number of attention heads, and the weights cannot: "
            "put {'model': {'encoder_attention_heads': 12}}, with the right number, into it as 'cfg'"
        )
    state = {name: value.float() for name, value in found["model"].items() if isinstance(value, Tensor)}
    sizes = sizes_in(state, heads.pop())
    if sizes.leads != len(LEADS):
        raise ValueError(f"its encoder takes {sizes.leads} leads; Leadwise's take twelve, absent ones as zeros")
    ours = from_reference(state, sizes)
    updates = [of.get("num_updates") for of in found.get("optimizer_history") or [] if isinstance(of, dict)]
    about = {
        "trained_leads": _leads(settings),
        "imported": {
            "file": path.name,
            "sha256": digest(path),
            "normalize": next(_values(settings, "normalize"), None),
        },
        **({"update": updates[-1]} if updates and isinstance(updates[-1], int) else {}),
    }
    kept = {name: value for name, value in ours.items() if not name.startswith("head.")}
    return Imported(kept, sizes, about, without_head=len(kept) < len(ours))


def _values(settings: Any, name: str) -> Iterator[Any]:
    """All that are set, wherever: a fine-tuned model keeps the settings it was pre-trained with inside its own."""
    if isinstance(settings, argparse.Namespace):
        settings = vars(settings)
    if isinstance(settings, dict):
        if settings.get(name) is not None:
            yield settings[name]
        settings = list(settings.values())
    if isinstance(settings, list):
        for inner in settings:
            yield from _values(inner, name)


def _leads(settings: Any) -> list[str]:
    """Those it was trained with; the reference names them, or numbers them, in a text."""
    for text in _values(settings, "leads_to_load"):
        try:
            listed = ast.literal_eval(text) if isinstance(text, str) else text
            numbers = [int(lead) if str(lead).isdecimal() else _upper().index(str(lead).upper()) for lead in listed]
            return [LEADS[number] for number in sorted(set(numbers))]
        except (ValueError, SyntaxError, TypeError, IndexError):
            raise ValueError(f"leads_to_load = {text!r}: which leads it was trained with cannot be told") from None
    return list(LEADS)


def _upper() -> list[str]:
    return [lead.upper() for lead in LEADS]
