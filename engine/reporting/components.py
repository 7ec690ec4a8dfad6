"""Embeddings of the diagnosis test view in two dimensions, by class."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from engine.folders.runs import Run, of_task
from engine.reporting import embeddings
from engine.reporting.datasets import open_view
from engine.reporting.markup import paragraph, tag
from engine.reporting.plots import Group, legend, scatter

_CLASSES = 6


def section(runs: Sequence[Run]) -> list[Element]:
    dataset, where = open_view(runs, "diagnosis-test", "diagnosis-valid")
    models = [(run, run.model) for run in chosen(runs) if run.model]
    count = min(len(dataset), *(embeddings.affordable(model) for _, model in models))
    samples = np.linspace(0, len(dataset) - 1, count).astype(np.int64)  # evenly over the view
    names, groups = embeddings.one_of_the_commonest(dataset.labels()[samples], dataset.classes, _CLASSES)
    if not names:
        raise ValueError(f"no segment of {where} has a class")
    if len(samples) < 3:
        raise ValueError(f"{where} has {len(samples)} segments to test on, too few to tell anything")
    plots = []
    for run, model in models:
        found = embeddings.principal_components(embeddings.embed(model, dataset, samples))
        plots.append(_plot(run, found, names, groups))
    entries: list[tuple[str, int | None]] = [(name, number) for number, name in enumerate(names)]
    return [
        paragraph(
            f"{len(samples):,} segments of {where}, held out from training, each a mark: its embedding's first two"
            f" principal components. Coloured: segments with exactly one of the {len(names)} commonest classes."
        ),
        legend([*entries, ("several of these, or none", None)], shapes=True),
        tag("div", *plots, class_="plots scatters"),
    ]


def chosen(runs: Sequence[Run]) -> list[Run]:
    """The first that has a model; and what it came from, or what fine-tuning for diagnosis has made of it."""
    finished = [run for run in runs if run.model]
    if not finished:
        raise ValueError("no run has finished: there is no model yet")
    first = finished[0]
    before = [run for run in finished if run.folder.resolve() == first.origin]
    return [first, *[run for run in (*before, *of_task(runs, "diagnosis")) if run is not first][:1]]


def _plot(run: Run, found: embeddings.Components, names: Sequence[str], groups: NDArray[np.int64]) -> Element:
    colours = [None, *range(len(names))]
    parts = [found.places[groups == (-1 if colour is None else colour)] for colour in colours]
    marks = [Group(part[:, 0], part[:, 1], colour) for part, colour in zip(parts, colours, strict=True) if len(part)]
    first, second = found.explained
    counts = ", ".join(f"{(groups == number).sum():,} {name}" for number, name in enumerate(names))
    return scatter(
        f"{run.name} ({run.kind})",
        marks,
        described=f"Embeddings in two dimensions: {counts}, {(groups < 0).sum():,} others",
        x_label=f"first component, {first:.0%} of the variance".replace("%", " %"),
        y_label=f"second, {second:.0%}".replace("%", " %"),
    )
