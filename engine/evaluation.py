"""What a model is worth: the scores of diagnosis, or of identification, on a dataset's test views."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from engine import released
from engine.data.chance import Augmentation
from engine.data.dataset import Dataset, open_dataset
from engine.data.order import evaluation
from engine.data.pipeline import Batches
from engine.model.encoder import mean_over_time
from engine.model.sizes import NO_DROPOUT, Sizes
from engine.scoring import cinc, classification, identification, intervals
from engine.scoring.leads import name_of
from engine.tuner import Tuner

Task = Literal["diagnosis", "identification"]
Figures = dict[str, dict[str, float | None]]  # value, and low and high of its interval

_RESAMPLES = 1000
_PARTS = 10  # of the resamples: a part is in memory at a time
_BATCH = 128


def evaluate(
    model: Path, data: Sequence[str], task: Task, *, leads: Sequence[str] | None = None, device: torch.device
) -> dict[str, Any]:
    """`model`: a run, or a folder of released weights; `leads` that it may see, none: those it was trained with.

    Raises ValueError where they do not go together. In float32, nothing masked, nothing random."""
    folder = released.find(model, "--model ")
    described = released.describe(folder)
    if task == "diagnosis" and described.get("task") != task:
        raise ValueError(f"--model {model} was not fine-tuned for diagnosis: it has no head for it")
    seen = tuple(described["trained_leads"] if leads is None else leads)
    name_of(seen)  # raises ValueError for what are no leads
    about: dict[str, Any] = {
        "task": task,
        "model": {name: value for name, value in described.items() if name not in ("leads", "classes")},
        "leads": list(seen),
        "own_task": described.get("task") == task,
        "own_leads": set(seen) == set(described["trained_leads"]),
    }
    of_task = _diagnosis if task == "diagnosis" else _identification
    result = about | of_task(folder, data, seen, device)
    return result | {"other_data": list(_other_data(described, result["data"]))}


def _other_data(described: Mapping[str, Any], data: Sequence[str]) -> Iterator[str]:
    """The stages of its training that may have seen what is tested here: their splits were those of another dataset."""
    for stage in released.stages(described):
        if not set(data) <= set(stage.get("data", [])):
            yield released.named(stage) + ("" if stage.get("data") else ", not known which")


def outputs(
    module: nn.Module,
    forward: Callable[[Tensor], Tensor],
    dataset: Dataset,
    leads: Sequence[str],
    device: torch.device,
    samples: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """[samples, ...], of every segment in the order of the dataset, or of the `samples` alone."""
    module.to(device).eval()
    plans = evaluation(len(dataset) if samples is None else len(samples), _BATCH)
    if samples is not None:
        plans = (replace(plan, sample=samples[plan.sample]) for plan in plans)
    found = []
    with (
        torch.inference_mode(),
        Batches(dataset, plans, Augmentation(), seed=0, leads=tuple(leads), device=device) as batches,
    ):
        for batch in batches:
            result = forward(batch.signal.flatten(0, 1)).float().cpu()
            found.append(result[torch.from_numpy(batch.plan.valid)].numpy())
    return np.concatenate(found)


def _diagnosis(folder: Path, data: Sequence[str], leads: Sequence[str], device: torch.device) -> dict[str, Any]:
    described, weights = released.read(folder)
    classes: list[str] = described["classes"]
    tuner = Tuner("diagnosis", len(classes), Sizes(**described["sizes"]), described["recipe"], NO_DROPOUT)
    released.load_whole(tuner, weights, folder)

    def segments(view: str) -> tuple[Dataset, NDArray[np.bool_], NDArray[np.float64]]:
        dataset = open_dataset(data, view)
        if dataset.classes != classes:
            raise ValueError(f"--data {list(data)} has other classes than the model")
        labels = dataset.labels()
        logits = outputs(tuner, lambda signal: tuner(signal).outputs, dataset, leads, device)
        if not np.isfinite(logits).all():
            raise ValueError(f"the model gives no numbers for {(~np.isfinite(logits)).any(1).sum()} segments of {view}")
        return dataset, labels, 1 / (1 + np.exp(-logits.astype(np.float64)))

    test, labels, probabilities = segments("diagnosis-test")
    tuning, tuning_labels, tuning_probabilities = segments("diagnosis-valid")
    records, people = test.origins()
    tuning_records, _ = tuning.origins()
    threshold = classification.tune(tuning_labels, tuning_probabilities, classes)
    result = {
        "data": test.fingerprints,
        "segments": _figures_of_diagnosis(labels, probabilities, people, threshold, classes),
    }
    # A recording: the mean over its segments.
    first, _ = _grouped(records)
    threshold = classification.tune(*_means(tuning_labels, tuning_probabilities, tuning_records), classes)
    labels, probabilities = _means(labels, probabilities, records)
    result["records"] = _figures_of_diagnosis(labels, probabilities, people[first], threshold, classes)
    return result


def _means(
    labels: NDArray[np.bool_], probabilities: NDArray[np.float64], records: NDArray
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    first, of_record = _grouped(records)
    sums = np.zeros((len(first), probabilities.shape[1]))
    np.add.at(sums, of_record, probabilities)
    return labels[first], sums / np.bincount(of_record)[:, None]


def _grouped(records: NDArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """-> the first segment of each recording, and the recording of each segment."""
    _, first, of_record = np.unique(records, return_index=True, return_inverse=True)
    return first, of_record


def _figures_of_diagnosis(
    labels: NDArray[np.bool_],
    probabilities: NDArray[np.float64],
    people: NDArray,
    tuned: float,
    classes: Sequence[str],
) -> dict[str, Any]:
    said = classification.decide(probabilities)
    said_tuned = classification.decide(probabilities, tuned)
    parts, parts_tuned = cinc.parts(labels, said, classes), cinc.parts(labels, said_tuned, classes)

    def of_classes(resamples: NDArray[np.float64] | None) -> dict[str, NDArray[np.float64]]:
        areas = classification.curves(labels, probabilities, resamples)
        return {
            "auroc": areas.auroc,
            "auprc": areas.auprc,
            "f1": classification.f1(labels, said, resamples),
            "f1_tuned": classification.f1(labels, said_tuned, resamples),
        }

    def all_figures(resamples: NDArray[np.float64] | None) -> dict[str, NDArray[np.float64]]:
        scores = {"score": cinc.ratio(parts, resamples), "score_tuned": cinc.ratio(parts_tuned, resamples)}
        return scores | {name: classification.macro(each).mean for name, each in of_classes(resamples).items()}

    each = of_classes(None)
    defined = {name: int(classification.macro(values).classes) for name, values in each.items()}
    return {
        "count": len(labels),
        "people": len(np.unique(people)),
        "tuned_threshold": tuned,
        "figures": _with_intervals(all_figures, people),
        "defined_in_classes": defined,
        "classes": {
            name: {"positives": int(labels[:, column].sum())}
            | {figure: _number(values[column]) for figure, values in each.items()}
            for column, name in enumerate(classes)
        },
    }


def _identification(folder: Path, data: Sequence[str], leads: Sequence[str], device: torch.device) -> dict[str, Any]:
    encoder, _ = released.load_encoder(folder)
    views = [open_dataset(data, f"identification-{place}") for place in ("gallery", "probe")]

    def embed(signal: Tensor) -> Tensor:
        return mean_over_time(encoder(signal).contexts)

    gallery, probe = (outputs(encoder, embed, view, leads, device) for view in views)
    (_, of_gallery), (_, of_probe) = (view.origins() for view in views)
    found = identification.identify(gallery, of_gallery, probe, of_probe)

    def all_figures(resamples: NDArray[np.float64] | None) -> dict[str, NDArray[np.float64]]:
        weights = np.ones((1, len(of_probe))) if resamples is None else resamples
        means = {
            name: weights @ credit / weights.sum(1)
            for name, credit in {"rank1": found.credit1, "rank5": found.credit5}.items()
        }
        return {name: values[0] if resamples is None else values for name, values in means.items()}

    return {
        "data": views[0].fingerprints,
        "gallery": len(gallery),
        "probe": len(probe),
        "figures": _with_intervals(all_figures, of_probe)
        | {"equal_error_rate": {"value": found.equal_error_rate, "low": None, "high": None}},
    }


def _with_intervals(of: Callable[[NDArray[np.float64] | None], dict[str, NDArray]], people: NDArray) -> Figures:
    """Each figure with the interval of a bootstrap by patient."""
    parts = [of(intervals.resampled(people, _RESAMPLES // _PARTS, seed)) for seed in range(_PARTS)]
    figures: Figures = {}
    for name, value in of(None).items():
        low, high = intervals.percentile_interval(np.concatenate([part[name] for part in parts]))
        figures[name] = {"value": _number(value), "low": _number(low), "high": _number(high)}
    return figures


def _number(value: Any) -> float | None:
    """JSON has no NaN: what is not defined is null."""
    return None if np.isnan(value) else float(value)
