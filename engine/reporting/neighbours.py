"""The gallery entries nearest to a few probes, drawn: what a model takes for the same heart."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from engine.data.chance import LEADS
from engine.data.dataset import Dataset
from engine.folders.runs import Run, of_leads, of_task
from engine.reporting import embeddings
from engine.reporting.datasets import millivolts, open_view
from engine.reporting.markup import Part, paragraph, tag
from engine.reporting.sheets import Trace, sheet

_NEAREST = 3
_EACH = 2  # probes that were found, and that were not
_SHOWN = ("I", "II", "V2", "V5", "aVF")  # the first three of these that the model sees


class Side(NamedTuple):
    """Gallery or probe."""

    dataset: Dataset
    samples: NDArray[np.int64]
    people: NDArray  # names


def section(runs: Sequence[Run]) -> list[Element]:
    run = chosen(runs)
    assert run.model is not None
    gallery, probe, where = _sides(runs, embeddings.affordable(run.model))
    vectors = [embeddings.embed(run.model, side.dataset, side.samples) for side in (gallery, probe)]
    found = embeddings.neighbours(vectors[0], gallery.people, vectors[1], probe.people, _NEAREST)
    right = found.own_rank == 1
    picked = [*np.flatnonzero(right)[:_EACH], *np.flatnonzero(~right)[:_EACH]]
    leads = [lead for lead in dict.fromkeys((*_SHOWN, *LEADS)) if lead in run.leads][:3]
    trained = f"fine-tuned for {run.task}" if run.task else "only pre-trained"
    return [
        paragraph(
            f"Probes, and beside each the {_NEAREST} gallery entries with the largest cosine to it, by {run.name},"
            f" {trained}, {of_leads(run.leads)}. Of {len(right):,} probes of {where} the nearest entry is the"
            f" right person's for {right.sum():,}; by chance for one."
        ),
        paragraph(f"Shown are leads {', '.join(leads)} of the first probes that were found, and that were not."),
        *(_row(one, found, gallery, probe, leads) for one in map(int, picked)),
    ]


def chosen(runs: Sequence[Run]) -> Run:
    """The best of those that were fine-tuned for identification, else the first that has a model."""
    finished = [run for run in runs if run.model]
    if not finished:
        raise ValueError("no run has finished: there is no model yet")
    return next(iter(of_task(runs, "identification")), finished[0])


def _sides(runs: Sequence[Run], people: int) -> tuple[Side, Side, str]:
    """Of the first `people` of the probe view."""
    gallery, where = open_view(runs, "identification-gallery")
    probe, _ = open_view([run for run in runs if where in run.data], "identification-probe")
    (_, of_gallery), (_, of_probe) = gallery.origins(), probe.origins()
    probes = np.arange(min(people, len(probe)))
    entries = np.flatnonzero(np.isin(of_gallery, of_probe[probes]))
    return Side(gallery, entries, of_gallery[entries]), Side(probe, probes, of_probe[probes]), where


def _row(one: int, found: embeddings.Neighbours, gallery: Side, probe: Side, leads: Sequence[str]) -> Element:
    rank = int(found.own_rank[one])
    said = "found" if rank == 1 else f"not found: the right person is number {rank:,}, cosine {found.own[one]:.3f}"
    cards = [_card(probe, one, leads, "Probe", tag("small", said))]
    for place, (entry, cosine) in enumerate(zip(found.nearest[one], found.cosine[one], strict=True), 1):
        same = gallery.people[entry] == probe.people[one]
        kind = tag("span", "same person" if same else "another person", class_="same" if same else "differs")
        cards.append(_card(gallery, int(entry), leads, f"Number {place}", tag("small", f"cosine {cosine:.3f}, ", kind)))
    return tag("div", *cards, class_="probe")


def _card(side: Side, at: int, leads: Sequence[str], name: str, about: Part) -> Element:
    signals, present = millivolts(side.dataset, side.samples[at : at + 1])
    traces = list(_traces(signals[0], present[0], leads))
    described = f"{name}: five seconds of leads {', '.join(trace.name for trace in traces)}"
    return tag("figure", tag("figcaption", name, about), sheet([traces], described))


def _traces(signal: NDArray[np.float32], present: NDArray[np.bool_], leads: Sequence[str]) -> Iterator[Trace]:
    for lead in leads:
        there = bool(present[LEADS.index(lead)])
        yield Trace(lead if there else f"{lead} not recorded", signal[:, LEADS.index(lead)], absent=not there)
