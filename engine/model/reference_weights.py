"""Weights of fairseq-signals and ECG-FM, which comes from the same code, in the names of recipe `reference`."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from engine.model.sizes import Sizes

_SPELLINGS = {"weight_g": "parametrizations.weight.original0", "weight_v": "parametrizations.weight.original1"}


class _Source(NamedTuple):
    names: tuple[str, ...]  # in the reference
    shape: tuple[int, ...]  # of each of them
    convert: Callable[..., Tensor] = lambda tensor: tensor


def from_reference(state: Mapping[str, Tensor], sizes: Sizes) -> dict[str, Tensor]:
    """The `model` of a reference checkpoint -> the state of a `Learner` with the local objective.

    A fine-tuned model's own part becomes `head.*`, the state of a `DiagnosisHead` or an `IdentificationHead`; the
    parts that only pre-training uses may be missing from it, all or none. ValueError lists every missing, extra or
    misshapen key.
    """
    found = _plain_names(state)
    wanted = _encoder(sizes)
    pretraining = _pretraining(sizes)
    head = _head(found, sizes)
    wanted |= head
    if not head or any(name in found for source in pretraining.values() for name in source.names):
        wanted |= pretraining
    _check(found, wanted)
    return {name: source.convert(*(found[other] for other in source.names)) for name, source in wanted.items()}


def sizes_in(state: Mapping[str, Tensor], heads: int) -> Sizes:
    """As the shapes say; of the number of heads they say nothing. What only pre-training uses may be missing."""
    found = _plain_names(state)
    if any(name.endswith("self_attn.W_Q.weight") for name in found):
        raise ValueError("these weights are of fairseq-signals before 2023, whose attention is another; not taken")
    shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
    try:
        conv_dim, leads, _ = shapes["feature_extractor.conv_layers.0.0.weight"]
        (dim,) = shapes["mask_emb"]
        _, width, taps = shapes["conv_pos.pos_conv.0.parametrizations.weight.original1"]
        feedforward, _ = shapes["encoder.layers.0.fc1.weight"]
        of_codes = {}
        if "quantizer.vars" in shapes:
            contrast_dim, _ = shapes["project_q.weight"]
            _, codes, code_dim = shapes["quantizer.vars"]
            groups = contrast_dim // code_dim
            of_codes = {"code_groups": groups, "codes": codes // groups, "contrast_dim": contrast_dim}
    except (KeyError, ValueError, ZeroDivisionError) as failure:
        raise ValueError(f"these are not the weights of a reference model: {failure}") from None
    return Sizes(
        leads=leads,
        conv_dim=conv_dim,
        conv_blocks=_count(found, "feature_extractor.conv_layers."),
        dim=dim,
        layers=_count(found, "encoder.layers."),
        heads=heads,
        feedforward=feedforward,
        position_taps=taps,
        position_groups=dim // width,
        **of_codes,
    )


def _count(names: Iterable[str], stem: str) -> int:
    return len({name.removeprefix(stem).split(".")[0] for name in names if name.startswith(stem)})


def _plain_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without the prefix of fine-tuned models, weight norm as it is spelt since 2025."""
    finetuned = any(name.startswith("encoder.feature_extractor.") for name in state)
    plain = {}
    for name, tensor in state.items():
        if finetuned:
            name = name.removeprefix("encoder.")
        stem, _, last = name.rpartition(".")
        if stem == "conv_pos.pos_conv.0" and last in _SPELLINGS:
            name = f"{stem}.{_SPELLINGS[last]}"
        if name in plain:
            raise ValueError(f"these weights have {name} twice, under two names")
        plain[name] = tensor
    return plain


def _head(found: Mapping[str, Tensor], sizes: Sizes) -> dict[str, _Source]:
    """Of a fine-tuned model, with as many classes as it has."""
    if "kernel" in found:
        return {"head.kernel": _Source(("kernel",), (len(found["kernel"]), sizes.dim))}
    if "proj.weight" in found:
        return _linear("head", "proj", sizes.dim, len(found["proj.weight"]))
    return {}


def _check(found: Mapping[str, Tensor], wanted: Mapping[str, _Source]) -> None:
    shapes = {name: source.shape for source in wanted.values() for name in source.names}
    faults = [f"missing: {name} {list(shapes[name])}" for name in sorted(shapes.keys() - found.keys())]
    faults += [f"extra: {name} {list(found[name].shape)}" for name in sorted(found.keys() - shapes.keys())]
    for name in sorted(shapes.keys() & found.keys()):
        if tuple(found[name].shape) != shapes[name]:
            faults.append(f"misshapen: {name} {list(found[name].shape)}, should be {list(shapes[name])}")
    if faults:
        raise ValueError("these are not the weights of a reference model of these sizes:\n" + "\n".join(faults))


def _encoder(sizes: Sizes) -> dict[str, _Source]:
    dim, conv = sizes.dim, sizes.conv_dim
    taps, width = sizes.position_taps, sizes.dim // sizes.position_groups
    positional = "conv_pos.pos_conv.0"
    sources = {
        "encoder.mask_embedding": _Source(("mask_emb",), (dim,)),
        **_norm("encoder.convolutions.norms.0", "feature_extractor.conv_layers.0.2", conv),
        **_norm("encoder.feature_norm", "layer_norm", conv),
        **_linear("encoder.projection", "post_extract_proj", conv, dim),
        "encoder.positional.bias": _Source((f"{positional}.bias",), (dim,)),
        "encoder.positional.gain": _Source(
            (f"{positional}.parametrizations.weight.original0",), (1, 1, taps), torch.flatten
        ),
        "encoder.positional.direction": _Source(
            (f"{positional}.parametrizations.weight.original1",), (dim, width, taps)
        ),
        **_norm("encoder.norm", "encoder.layer_norm", dim),
    }
    for block in range(sizes.conv_blocks):
        shape = (conv, conv if block else sizes.leads, 2)
        names = (f"feature_extractor.conv_layers.{block}.0.weight",)
        sources[f"encoder.convolutions.projections.{block}.weight"] = _Source(names, shape, _as_linear)
    for number in range(sizes.layers):
        sources |= _layer(f"encoder.layers.{number}", sizes)
    return sources


def _layer(name: str, sizes: Sizes) -> dict[str, _Source]:
    """Its name is the same on both sides."""
    dim, inner = sizes.dim, sizes.feedforward
    weights, biases = (tuple(f"{name}.self_attn.{part}_proj.{end}" for part in "qkv") for end in ("weight", "bias"))
    return {
        f"{name}.attention.qkv.weight": _Source(weights, (dim, dim), _stacked),
        f"{name}.attention.qkv.bias": _Source(biases, (dim,), _stacked),
        **_linear(f"{name}.attention.out", f"{name}.self_attn.out_proj", dim, dim),
        **_norm(f"{name}.attention_norm", f"{name}.self_attn_layer_norm", dim),
        **_linear(f"{name}.expand", f"{name}.fc1", dim, inner),
        **_linear(f"{name}.contract", f"{name}.fc2", inner, dim),
        **_norm(f"{name}.norm", f"{name}.final_layer_norm", dim),
    }


def _pretraining(sizes: Sizes) -> dict[str, _Source]:
    groups, codes, dim = sizes.code_groups, sizes.codes, sizes.contrast_dim

    def grouped(codebook: Tensor) -> Tensor:
        return codebook.reshape(groups, codes, -1)

    return {
        "quantizer.codebook": _Source(("quantizer.vars",), (1, groups * codes, dim // groups), grouped),
        **_linear("quantizer.logits", "quantizer.weight_proj", sizes.conv_dim, groups * codes),
        **_linear("target_projection", "project_q", dim, dim),
        **_linear("context_projection", "final_proj", sizes.dim, dim),
    }


def _linear(ours: str, theirs: str, inputs: int, outputs: int) -> dict[str, _Source]:
    return {
        f"{ours}.weight": _Source((f"{theirs}.weight",), (outputs, inputs)),
        f"{ours}.bias": _Source((f"{theirs}.bias",), (outputs,)),
    }


def _norm(ours: str, theirs: str, dim: int) -> dict[str, _Source]:
    return {f"{ours}.{end}": _Source((f"{theirs}.{end}",), (dim,)) for end in ("weight", "bias")}


def _as_linear(kernel: Tensor) -> Tensor:
    """[out, in, taps] -> [out, taps * in]: the samples of a patch lie one behind the other."""
    return kernel.transpose(1, 2).flatten(1)


def _stacked(*parts: Tensor) -> Tensor:
    return torch.cat(parts)
