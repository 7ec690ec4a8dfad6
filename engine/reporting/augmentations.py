"""A segment under each augmentation, made by the graph that training uses: appendix B of the paper."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from engine.data.chance import LEADS, Augmentation
from engine.data.dataset import Dataset
from engine.data.order import Plan
from engine.data.pipeline import Batches
from engine.folders.runs import Run, augmentations
from engine.reporting.datasets import open_view, ordinary
from engine.reporting.markup import paragraph, tag
from engine.reporting.sheets import Trace, sheet

_PAPER = 0.5  # the chance of a lead to be masked, and the largest amplitude of each noise in mV
_POSITION = 13  # of those where chance masks about half of the leads, and leaves no noise too small to see
_KINDS = {
    "mask_leads": ("RLM", "each lead is masked with probability {:g}"),
    "powerline": ("Powerline noise", "50 Hz of up to {:g} mV, the same in all leads"),
    "emg": ("EMG noise", "white, of up to {:g} mV, another in each lead"),
    "shift": ("Baseline shift", "up to {:g} mV either way for about a second, another in each lead"),
    "wander": ("Baseline wander", "three slow waves of up to {:g} mV, scaled for each lead"),
}


class Variant(NamedTuple):
    title: str
    about: str
    signal: NDArray[np.float32]  # mV [SEGMENT, 12]
    masked: NDArray[np.bool_]  # [12]


def section(runs: Sequence[Run]) -> list[Element]:
    """Of the first pre-training among the runs; without one, as the paper has them."""
    dataset, where = open_view(runs, "pretrain-valid", "pretrain", "diagnosis-valid", "identification-valid")
    run = next((run for run in runs if run.task is None), None)
    sample = ordinary(dataset)
    (key,) = dataset.keys(np.array([sample]))
    present = dataset.rows(np.array([sample])).present[0, 0]
    sheets = [_sheet(variant, present) for variant in variants(dataset, sample, run)]
    return [
        paragraph(
            f"One segment of five seconds ({key} of {where}), each augmentation on its own, by the graph that training"
            " uses. 25 mm/s and 10 mm/mV: a square is 0.2 s wide and 0.5 mV high."
            + (f" Each says whether {run.name} uses it." if run else "")
        ),
        tag("div", *sheets, class_="sheets"),
    ]


def variants(dataset: Dataset, sample: int, run: Run | None) -> Iterator[Variant]:
    """At the amplitudes of the run, or where it has none, at the paper's."""
    nothing = np.zeros(len(LEADS), bool)
    original = augmented(dataset, sample, Augmentation())
    yield Variant("Original", "as the model sees it without augmentation", original, nothing)
    used = augmentations(run.config) if run else {}
    recipe = run.config["model"].get("recipe", "paper") if run else "paper"
    for setting, (title, what) in _KINDS.items():
        most = used.get(setting) or _PAPER
        alone: dict[str, Any] = {setting: most, "recipe": recipe}
        signal = augmented(dataset, sample, Augmentation(**alone))
        said = f"; {'used' if used.get(setting) else 'not used'}" if run else ""
        masked = np.array(~signal.any(0)) if setting == "mask_leads" else nothing
        yield Variant(title, what.format(most) + said, signal, masked)
    if run and run.config["train"]["system"] == "3kg":
        signal = augmented(dataset, sample, Augmentation(vectorcardiogram=True))
        about = "the vectorcardiogram turned and scaled, half of each lead hidden; used"
        yield Variant("3KG", about, signal, nothing)


def augmented(dataset: Dataset, sample: int, augmentation: Augmentation) -> NDArray[np.float32]:
    """mV [SEGMENT, 12], as at _POSITION of a run of seed 0."""
    plan = Plan(np.array([_POSITION]), np.array([sample]), np.ones(1, bool))
    with Batches(dataset, iter([plan]), augmentation, seed=0) as batches:
        signal: NDArray[np.float32] = next(batches).signal[0, 0].numpy().copy()
    return signal


def _sheet(variant: Variant, present: NDArray[np.bool_]) -> Element:
    traces = []
    for at, lead in enumerate(LEADS):
        note = "" if present[at] and not variant.masked[at] else " masked" if present[at] else " not recorded"
        traces.append(Trace(lead + note, variant.signal[:, at], absent=bool(note)))
    hidden = ", ".join(trace.name for trace in traces if trace.absent)
    described = f"Twelve leads of five seconds. {variant.title}: {variant.about}. {hidden}".strip()
    return tag(
        "figure",
        tag("figcaption", variant.title, tag("small", variant.about)),
        sheet([traces[:6], traces[6:]], described),
    )
