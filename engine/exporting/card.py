"""The model card: what is known of a model, as Markdown. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from engine import released
from engine.exporting.facts import Facts
from engine.model.sizes import Sizes
from engine.scoring.leads import name_of
from engine.scoring.names import FIGURES, with_interval

_HEAD = """---
library_name: leadwise
tags:
- ecg
- electrocardiogram
- self-supervised-learning
---
"""
_USE = """
## Use

```python
import leadwise
import torch

encoder = leadwise.load_encoder("FOLDER")  # this folder
signal = leadwise.segments(ecg, leads=["I", "II"], rate=250)  # ecg: [samples, 2] in mV; any leads, any rate
with torch.inference_mode():
    vectors = encoder(signal)  # [segments, {dim}]
```

Of files, `python -m engine.embed RECORDINGS --model FOLDER --out embeddings.parquet` makes vectors.

| | |
|---|---|
| input | [segments, samples, 12], floating point, millivolts, 500 Hz, unfiltered; trained on 2,500 samples (5 s) |
| leads | I II III aVR aVL aVF V1 V2 V3 V4 V5 V6, in this order; one that is absent is all zeros |
| output | [segments, {dim}], the mean over time; `encoder.tokens`: [segments, samples // {patch}, {dim}] |
"""
_LIMITS = """
## Limits

For research: Leadwise tests that models compute what they should, not that they are fit for the care of patients.
"""
_WHERE_TRAINING = "Neither settings nor metrics are at hand: the model was exported from its weights alone."
_OF_TASK = {
    "diagnosis": ("score", "auroc", "auprc", "f1"),
    "identification": ("rank1", "rank5", "equal_error_rate"),
}


def of_run(config: Mapping[str, Any], parameters: int, facts: Facts) -> str:
    name = config.get("system") or (config.get("pretrained") or {}).get("system") or "random weights"
    lines = [f"# ECG encoder, {name}{', fine-tuned for ' + config['task'] if 'task' in config else ''}", "", _METHOD]
    return _page(
        config, [*lines, _use(config), *_model(config, parameters), *_training(config, facts), *_results(facts)]
    )


_METHOD = """An encoder of electrocardiograms with any subset of the twelve leads, trained with Leadwise, by the methods
of "Lead-agnostic Self-supervised Learning for Local and Global Representations of Electrocardiogram" (Oh et al., CHIL
2022)."""


def of_import(config: Mapping[str, Any], parameters: int) -> str:
    imported = config["imported"]
    lines = [
        "# ECG encoder, imported",
        "",
        f"The weights of `{imported['file']}` (sha256 `{imported['sha256']}`), a checkpoint of fairseq-signals or of "
        "ECG-FM, in Leadwise's names; recipe `reference` computes with them what fairseq-signals computes. Its licence "
        "is that of the checkpoint, and what it was trained on its authors say.",
        "",
        "**Its input has to be prepared as its authors did.** fairseq-signals' own configs take millivolts as they "
        "are, and ECG-FM was trained on recordings of which each lead was brought to mean 0 and variance 1. Leadwise "
        "does not do that for you.",
    ]
    if imported["normalize"] is not None:
        lines.append(f"This checkpoint's settings say `normalize: {str(imported['normalize']).lower()}`.")
    return _page(config, [*lines, _use(config), *_model(config, parameters)])


def _page(config: Mapping[str, Any], lines: Sequence[str]) -> str:
    return "\n".join([_HEAD, *lines, _LIMITS])


def _use(config: Mapping[str, Any]) -> str:
    sizes = Sizes(**config["sizes"])
    return _USE.format(dim=sizes.dim, patch=sizes.patch)


def _model(config: Mapping[str, Any], parameters: int) -> Iterator[str]:
    sizes = Sizes(**config["sizes"])
    yield "## Model\n\n| | |\n|---|---|"
    yield f"| recipe | {config['recipe']} |"
    yield f"| parameters of the encoder | {parameters:,} |"
    yield f"| convolutions | {sizes.conv_blocks} of {sizes.conv_dim} channels |"
    yield f"| transformer | {sizes.layers} layers of {sizes.dim} ({sizes.feedforward} inside), {sizes.heads} heads |"
    yield f"| trained with the leads | {' '.join(config['trained_leads'])} |"
    if "update" in config:
        yield f"| updates | {config['update']:,} |"


def _training(config: Mapping[str, Any], facts: Facts) -> Iterator[str]:
    yield "\n## Training\n"
    _, *before = released.stages(config)
    for stage in before:
        leads, updates = " ".join(stage.get("trained_leads", [])), stage.get("update", "an unknown number of")
        yield f"Trained before: {released.named(stage)}, {updates} updates, leads {leads}.\n"
    if not facts.settings and not facts.train:
        yield _WHERE_TRAINING
    if facts.settings:
        yield f"```yaml\n{yaml.safe_dump(facts.settings, sort_keys=False, default_flow_style=None).strip()}\n```"
    yield "\n## Data\n"
    if not facts.datasets:
        yield "The model does not say which datasets it was trained on."
    for dataset in facts.datasets:
        if "crops" not in dataset:
            yield f"- the dataset of fingerprint `{dataset['fingerprint']}`, which was not at hand"
            continue
        cohorts = ", ".join(f"{name} {count:,}" for name, count in sorted(dataset["cohorts"].items()))
        yield (
            f"- {dataset['recordings']:,} recordings, {dataset['crops']:,} crops of all splits ({cohorts}), "
            f"{dataset['rejected']:,} rejected; fingerprint `{dataset['fingerprint']}`"
        )


def _results(facts: Facts) -> Iterator[str]:
    for title, values in (("last report of training", facts.train), ("last validation", facts.valid)):
        figures = {name: value for name, value in values.items() if name in _METRICS and value is not None}
        if figures:
            yield f"\n## Metrics, {title} (update {values['update']:,})\n\n| | | by chance |\n|---|---|---|"
            for name, value in figures.items():
                chance = values.get(f"{name}_chance")
                yield f"| {name.replace('_', ' ')} | {value:.4g} | {f'{chance:.4g}' if chance is not None else '-'} |"
    yield "\n## Scores by lead set\n"
    if not facts.scores:
        yield "None: no result of `engine.evaluate --json` was there."
    for task, names in _OF_TASK.items():
        results = [result for result in facts.scores if result["task"] == task]
        if results:
            yield f"{task.capitalize()}, with 95 % intervals by patient:\n"
            count = "segments" if task == "diagnosis" else "pairs"
            yield f"| leads | which | {' | '.join(FIGURES[name] for name in names)} | {count} |"
            yield "|---" * (len(names) + 3) + "|"
            for result in sorted(results, key=lambda result: -len(result["leads"])):
                part = result["segments"] if task == "diagnosis" else result
                cells = [with_interval(part["figures"][name]) for name in names]
                count = part["count"] if task == "diagnosis" else part["probe"]
                yield f"| {name_of(result['leads'])} | {result['how']} | {' | '.join(cells)} | {count:,} |"
            yield ""


_METRICS = (
    *("loss", "local", "global", "local_accuracy", "pair_retrieval", "code_perplexity", "probability_perplexity"),
    *("score", "rank1", "rank5", "equal_error_rate", "accuracy"),
)
