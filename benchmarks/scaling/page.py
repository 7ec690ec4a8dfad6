"""What was measured and what is predicted, as Markdown."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from benchmarks.scaling import breaks
from benchmarks.scaling.fit import work_of
from benchmarks.scaling.model import (
    Given,
    Parameters,
    Prediction,
    Split,
    Work,
    gradient_traffic,
    pool_traffic,
    predict,
    scaled_batch,
    sent,
    split,
    update,
)

GPUS = (1, 8, 64, 512)
RECORDINGS = (10**5, 10**6, 10**7, 10**8)
_NAMES = {
    "allreduce_": "all-reduce",
    "_allgather_base_": "all-gather",
    "all_gather_into_tensor": "all-gather",
    "allgather_": "all-gather",
    "_reduce_scatter_base_": "reduce-scatter",
    "reduce_scatter_tensor": "reduce-scatter",
}


def measured(figures: dict[str, Any]) -> list[str]:
    lines = ["## Measured here", "", *_of_ranks(figures), "", *_of_checks(figures["checks"]), ""]
    return [*lines, *_of_sizes(figures["sizes"])]


def _of_ranks(figures: dict[str, Any]) -> list[str]:
    alone = {kind(cell): cell["seconds"] for cell in figures["fitted"]}
    alone |= {kind(check): check["measured"] for check in figures["checks"] if check["ranks"] == 1}
    lines = [
        f"Whole updates under DeepSpeed on a batch that stays, every rank a {figures['device']} of its own. Beside them"
        " the same updates of ranks that are alone, while as many others do the same: what is left is communication.",
        "",
        "| size | ranks x micro-batch x micro-steps | ZeRO | segments/s | of as many alone | MB sent a rank: counted"
        " | by the model |",
        "|---|---|---|---|---|---|---|",
    ]
    for check in figures["checks"]:
        if check["ranks"] == 1:
            continue
        segments = 2 * check["micro_batch"] * check["micro_steps"] * check["ranks"]
        by_itself = alone.get((check["size"], check["micro_batch"], check["micro_steps"], 1))
        share = f"{by_itself / check['measured']:.1%}" if by_itself and check["stage"] == 1 else "-"
        seen, of_model = (f"{size / 1e6:.2f}" if size else "-" for size in (counted(check), modelled(check)))
        shape = f"{check['ranks']} x {check['micro_batch']} x {check['micro_steps']}"
        cells = [check["size"], shape, str(check["stage"]), f"{segments / check['measured']:.2f}", share]
        lines.append(f"| {' | '.join([*cells, seen, of_model])} |")
    if figures["collectives"]:
        lines += ["", "| collective | MB in all | ms | MB/s sent by each rank |", "|---|---|---|---|"]
    ranks = max((check["ranks"] for check in figures["checks"]), default=1)
    for one in figures["collectives"]:
        seconds = statistics.median(one["seconds"])
        rate = sent(one["collective"], one["bytes"], ranks) / seconds / 1e6
        size, least, most = one["bytes"] / 1e6, min(one["seconds"]) * 1e3, max(one["seconds"]) * 1e3
        times = f"{seconds * 1e3:.2f} ({least:.2f} to {most:.2f})"
        lines.append(f"| {one['collective']} | {size:.3f} | {times} | {rate:,.0f} |")
    return lines


def kind(cell: dict[str, Any]) -> tuple[str, int, int, int]:
    return cell["size"], cell["micro_batch"], cell["micro_steps"], cell["stage"]


def counted(check: dict[str, Any]) -> float:
    """Bytes that a rank sends in an update, from the collectives that were seen."""
    return sum(sent(_NAMES[name], size, check["ranks"]) for name, (_, size) in check["sent"].items() if name in _NAMES)


def modelled(check: dict[str, Any]) -> float:
    ranks, micro_steps = check["ranks"], check["micro_steps"]
    pool = check["micro_batch"] * ranks
    work = work_of(check["size"], batch=pool * micro_steps, pool=pool, stage=check["stage"])
    of = Split(check["micro_batch"], micro_steps, ranks)
    traffic = gradient_traffic(work, micro_steps) + pool_traffic(work, of) * micro_steps
    return sum(sent(name, size, ranks) for name, size in traffic)


def _of_checks(checks: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "The model's parameters for this machine are fitted to updates of single ranks and to collectives by"
        " themselves, never to updates of several ranks. What it says of updates that it has not seen:",
        "",
        "| size | ranks x micro-batch x micro-steps | ZeRO | measured ms | predicted ms | error"
        " | of it gradients and pool |",
        "|---|---|---|---|---|---|---|",
    ]
    for check in checks:
        size = check["size"] + ("" if check["size_in_fit"] else " (not in the fit: by its FLOPs)")
        shape = f"{check['ranks']} x {check['micro_batch']} x {check['micro_steps']}"
        communication = check["parts"]["gradients"] + check["parts"]["pool"]
        milliseconds = [f"{1e3 * check[name]:,.0f}" for name in ("measured", "predicted")]
        cells = [
            size,
            shape,
            str(check["stage"]),
            *milliseconds,
            f"{check['error']:+.1%}",
            f"{communication * 1e3:,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    errors = [abs(check["error"]) for check in checks if check["size_in_fit"]]
    if errors:
        median = statistics.median(errors)
        lines += [
            "",
            f"Sizes of the fit: {len(errors)} predictions, error {median:.1%} in the median, {max(errors):.1%} most.",
        ]
    return lines


def _of_sizes(sizes: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "Random walks repeated under new names, none with another's content: bytes are moved, no hearts are seen.",
        "",
        "| recordings | sharding, us each | its largest process MB | opening ms | first order ms | loader, us a pair"
        " | its own MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in sizes:
        cells = [
            f"{one['recordings']:,}",
            f"{one['shard_seconds'] / one['recordings'] * 1e6:,.0f}",
            f"{one['shard_mb']:,.0f}",
            f"{one['open_seconds'] * 1e3:,.1f}",
            f"{one['order_seconds'] * 1e3:,.1f}",
            f"{1e6 / one['pairs_per_second']:,.1f}",
            f"{one['peak_mb']:,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    more = []
    for less, one in pairwise(sizes):
        added = one["recordings"] - less["recordings"]
        each = (one["shard_seconds"] - less["shard_seconds"]) / added * 1e6
        more.append(f"{each:,.0f} us each from {less['recordings']:,} to {one['recordings']:,}")
    return [*lines, "", f"Sharding without its start-up: {', '.join(more)}."]


def predicted(p: Parameters, work: Work) -> list[str]:
    return [
        f"The full size ({work.parameters / 1e6:.1f} M parameters), ZeRO-{work.stage}, {work.epochs} epochs. Nothing of"
        " this was run: it is a model (`benchmarks/scaling/model.py`), checked below against what could be run here.",
        "",
        "![segments/s over GPUs](scaling.png)",
        "",
        f"## The paper's update: {work.batch} pairs, one pool",
        "",
        *_table([(work, predict(p, work, gpus, recordings)) for recordings in RECORDINGS for gpus in GPUS], p),
        "",
        "## As many pools in an update as give every GPU 64 pairs",
        "",
        "A node of 8 fills a pool, so the pool's gather stays inside it. The optimizer sees another batch: its learning"
        " rate and number of epochs are to be found anew, and the paper's figures are no promise for it.",
        "",
        *_table(
            [
                (larger, predict(p, larger, gpus, recordings))
                for recordings in RECORDINGS
                for gpus in GPUS[1:]
                for larger in [scaled_batch(work, gpus)]
            ],
            p,
        ),
        "",
        "## Traffic of the paper's update, of each GPU",
        "",
        *_traffic(p, work),
        "",
        "## Where it breaks, and what to change then",
        "",
        *(f"- {said}" for said in breaks.said(p, work)),
        "",
        "## Parameters",
        "",
        "| | value | from |",
        "|---|---|---|",
        *(f"| {name} | {_plain(name, given)} | {given.source} |" for name, given in vars(p).items()),
        "",
    ]


def _table(rows: Sequence[tuple[Work, Prediction]], p: Parameters) -> list[str]:
    lines = [
        "| recordings | dataset TB | GPUs | pairs each | segments/s | of linear | ms: compute | pool | gradients | rest"
        " | reading, later | first epoch h | a run h | fetched TB | reads from | limit |",
        "|" + "---|" * 16,
    ]
    for work, one in rows:
        later = one.later
        milliseconds = (
            later.segments,
            later.pool,
            later.gradients,
            later.launches + later.optimizer,
            later.reading,
        )
        alone = 2 * work.pool / update(p, replace(work, batch=work.pool), 1).busy
        cells = [
            f"10^{len(str(one.recordings)) - 1}",
            f"{one.dataset_bytes / 1e12:.3g}",
            str(one.gpus),
            str(work.batch // one.gpus),
            f"{one.segments_per_second:,.0f}",
            f"{one.segments_per_second / one.gpus / alone:.0%}",
            *(f"{1e3 * value:.1f}" for value in milliseconds),
            _hours(one.first_hours),
            _hours(one.run_hours),
            f"{one.fetched_bytes / 1e12:,.3g}",
            one.later_from,
            later.limit,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _traffic(p: Parameters, work: Work) -> list[str]:
    lines = [
        "| GPUs | | " + " | ".join(f"ZeRO-{stage}" for stage in range(4)) + " | pool |",
        "|---|---|---|---|---|---|---|",
    ]
    for gpus in GPUS[1:]:
        of = split(work, gpus, int(p.most_pairs.value))
        sizes, times = [], []
        for stage in range(4):
            staged = replace(work, stage=stage)
            traffic = gradient_traffic(staged, of.micro_steps)
            sizes.append(sum(sent(name, size, gpus) for name, size in traffic))
            times.append(update(p, staged, gpus).gradients)
        sizes.append(of.micro_steps * sum(sent(name, size, of.pool_ranks) for name, size in pool_traffic(work, of)))
        times.append(update(p, work, gpus).pool)
        lines.append(f"| {gpus} | MB sent | " + " | ".join(f"{size / 1e6:,.1f}" for size in sizes) + " |")
        lines.append("| | ms | " + " | ".join(f"{seconds * 1e3:,.2f}" for seconds in times) + " |")
    return [*lines, "", "ZeRO-0 stands in float32, as Leadwise runs it; the others reduce bfloat16."]


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"


def _plain(name: str, given: Given) -> str:
    unit = {"seconds": "s", "bandwidth": "B/s", "latency": "s", "bytes": "B", "total": "B/s"}.get(
        name.rpartition("_")[2], ""
    )
    return f"{given.value:.4g} {unit}".strip()
