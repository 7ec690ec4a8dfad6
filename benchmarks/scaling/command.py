"""Measures, fits, predicts what was not used to fit, and writes the page."""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import report
from benchmarks.result import Limit, Measure
from benchmarks.scaling import fit, page, plot, ranks, sizes
from benchmarks.scaling.machines import H200_NODES
from benchmarks.scaling.model import Given, Parameters
from benchmarks.scaling.ranks import Cell

_BYTES = tuple(4**n * 1024 for n in (1, 3, 5, 7, 8))  # 4 KB to 64 MB
_MB = 2**20


class Plan(NamedTuple):
    """What is measured. `fitted` by ranks that are alone; all others are predicted."""

    fitted: tuple[Cell, ...]
    alone: tuple[Cell, ...]
    together: tuple[Cell, ...]
    counts: tuple[int, ...]  # recordings
    bytes: tuple[int, ...]  # of collectives
    reading_seconds: float


_QUICK = Plan(
    fitted=(Cell("tiny", 4, 1, 5), Cell("tiny", 16, 1, 5), Cell("tiny", 4, 4, 5)),
    alone=(Cell("tiny", 8, 2, 5),),
    together=(Cell("tiny", 8, 2, 5), Cell("tiny", 4, 1, 5)),
    counts=(500, 2_000),
    bytes=_BYTES[:4],
    reading_seconds=1.0,
)
_ON_CORES = Plan(
    fitted=tuple(Cell(size, m, k, 5) for size in ("tiny", "small") for m, k in ((4, 1), (16, 1), (4, 4))),
    alone=(Cell("tiny", 8, 2, 5), Cell("small", 8, 2, 5), Cell("base", 2, 1, 3)),
    together=(
        Cell("tiny", 4, 1, 9),
        Cell("tiny", 8, 2, 9),
        Cell("small", 4, 1, 7),
        Cell("small", 8, 2, 5),
        Cell("small", 8, 2, 5, stage=2),
        Cell("small", 8, 2, 5, stage=3),
        Cell("base", 2, 1, 3),
    ),
    counts=(1_000, 10_000, 100_000),
    bytes=_BYTES,
    reading_seconds=5.0,
)
_ON_GPUS = Plan(
    fitted=tuple(Cell("base", m, k, 9) for m, k in ((16, 1), (64, 1), (16, 4))),
    alone=(Cell("base", 32, 2, 9), Cell("base", 4, 1, 9)),
    together=(Cell("base", 32, 2, 9), Cell("base", 64, 1, 9), Cell("base", 64, 1, 9, stage=2)),
    counts=_ON_CORES.counts,
    bytes=(*_BYTES, 256 * _MB),
    reading_seconds=5.0,
)


def run(chosen: argparse.Namespace, folder: Path) -> Path:
    gpu = torch.cuda.is_available()
    plan = _QUICK if chosen.quick else _ON_GPUS if gpu else _ON_CORES
    devices = ranks.devices()
    neighbours = ranks.measure((*plan.fitted, *plan.alone), devices, together=False)
    worlds = list(takewhile(lambda world: world <= devices, (2**n for n in range(1, 10))))
    of_worlds = {world: ranks.measure(plan.together, world, together=True, sizes=plan.bytes) for world in worlds}
    of_sizes = sizes.measure(plan.counts, ranks.devices() if not gpu else 8, plan.reading_seconds, chosen.scratch)

    alone = list(zip((*plan.fitted, *plan.alone), _seconds(neighbours), strict=True))
    device = fit.device(alone[: len(plan.fitted)])
    collectives = of_worlds[worlds[-1]][0]["collectives"] if worlds else []
    link = fit.link(collectives, worlds[-1]) if worlds else None
    cores = replace(H200_NODES, node_size=Given(devices, f"{devices} cores"), launch_seconds=Given(0.0, "a CPU"))
    here = H200_NODES if gpu else cores
    checks = [_check(here, device, None, cell, 1, seconds) for cell, seconds in alone[len(plan.fitted) :]]
    for world, found in of_worlds.items():
        for cell, each, sent in zip(plan.together, _repeats(found), _sent(found[0]), strict=True):
            check = _check(here, device, link, cell, world, statistics.median(each))
            checks.append(check | {"sent": sent, "seconds": each})
    elsewhere = _elsewhere(chosen, gpu, device, of_sizes)
    figures: dict[str, Any] = {
        "devices": devices,
        "device": torch.cuda.get_device_name() if gpu else "core",
        "fitted": [{**cell._asdict(), "seconds": seconds} for cell, seconds in alone[: len(plan.fitted)]],
        "fit": {"device": vars(device), "link": vars(link) if link else None},
        "updates": {"alone": neighbours, "together": of_worlds},
        "checks": checks,
        "collectives": collectives,
        "sizes": of_sizes,
        "parameters": {name: list(given) for name, given in vars(elsewhere).items()},
    }
    work = fit.work_of("base", stage=chosen.stage)
    name = "scaling-quick" if chosen.quick else "scaling"
    # The page of SCALING.md stands on what was measured; what is predicted can be worked out again from the JSON.
    report.write(chosen.out, name, _command(chosen), figures, page.measured(figures), *_measures(figures))
    folder.mkdir(parents=True, exist_ok=True)
    plot.draw(elsewhere, work, folder / "scaling.png")
    whole = folder / "SCALING.md"
    head = ["# Scaling", "", f"`{_command(chosen)}`, {report.hardware()}, commit {report.commit()}", ""]
    whole.write_text("\n".join([*head, *page.predicted(elsewhere, work), *page.measured(figures), ""]))
    return whole


def _measures(figures: dict[str, Any]) -> tuple[list[Measure], dict[str, Limit]]:
    """Updates of several ranks, as shares of what as many do that send nothing."""
    measures, limits = [], {}
    alone = {page.kind(cell): cell["seconds"] for cell in figures["fitted"]}
    alone |= {page.kind(check): check["measured"] for check in figures["checks"] if check["ranks"] == 1}
    together = [check for check in figures["checks"] if check["ranks"] > 1]
    for check in together:
        each = 2 * check["micro_batch"] * check["micro_steps"] * check["ranks"]
        name = f"{check['size']}, {check['ranks']} ranks x {check['micro_batch']} x {check['micro_steps']}"
        costs = {}
        if page.kind(check) in alone:
            limit = f"{check['ranks']} alone, {check['size']}, {check['micro_batch']} x {check['micro_steps']}"
            limits[limit] = Limit("segments/s", [each / alone[page.kind(check)]])
            costs = {limit: 1.0}
        name += f", ZeRO-{check['stage']}"
        measures.append(Measure(name, "segments/s", [each / seconds for seconds in check["seconds"]], costs))
    return sorted(measures, key=lambda measure: not measure.costs), limits


def _command(chosen: argparse.Namespace) -> str:
    options = " --quick" if chosen.quick else ""
    options += f" --rate {chosen.rate:g}" if chosen.rate else ""
    return f"python -m benchmarks scaling{options}" + (f" --stage {chosen.stage}" if chosen.stage != 1 else "")


def _repeats(processes: Sequence[dict[str, Any]]) -> list[list[float]]:
    """Of each cell the seconds of its updates, means over processes, which are as busy as each other."""
    cells = zip(*([cell["seconds"] for cell in process["updates"]] for process in processes), strict=True)
    return [[statistics.mean(each) for each in zip(*cell, strict=True)] for cell in cells]


def _seconds(processes: Sequence[dict[str, Any]]) -> list[float]:
    return [statistics.median(each) for each in _repeats(processes)]


def _sent(process: dict[str, Any]) -> list[dict[str, list[int]]]:
    return [cell["sent"] for cell in process["updates"]]


def _check(
    here: Parameters, device: fit.Device, link: fit.Link | None, cell: Cell, world: int, seconds: float
) -> dict[str, Any]:
    """What the model says beside what was measured."""
    said = fit.of_cell(fit.fitted(here, cell.size, device, link), cell, world)
    error = said.seconds / seconds - 1
    known = cell.size in device.segment_seconds
    return {
        **cell._asdict(),
        "ranks": world,
        "measured": seconds,
        "predicted": said.seconds,
        "error": error,
        "parts": said._asdict(),
        "size_in_fit": known,
    }


def _elsewhere(
    chosen: argparse.Namespace, gpu: bool, device: fit.Device, of_sizes: Sequence[dict[str, Any]]
) -> Parameters:
    """The cluster of the predictions, with what this machine can say of it."""
    p = H200_NODES
    if gpu and "base" in device.segment_seconds:
        p = fit.fitted(p, "base", device, None)
    if chosen.rate:
        p = replace(p, segment_seconds=Given(1 / chosen.rate, f"--rate {chosen.rate:g}"))
    largest = of_sizes[-1]
    each = largest["bytes"] / largest["crops"]
    rate, shard = largest["pairs_per_second"], largest["shard_seconds"] / largest["recordings"]
    crops = f"{largest['crops']:,} crops"
    return replace(
        p,
        crop_bytes=Given(each, f"{fit.HERE}, {crops} and their tables"),
        pair_seconds=Given(1 / rate, f"{fit.HERE}: loader, lead masks, {crops}"),
        shard_seconds=Given(shard, f"{fit.HERE}: all workers of this machine, start-up included"),
    )
