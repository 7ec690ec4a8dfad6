"""Where the model says that it stops paying, in words, from its own numbers."""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from benchmarks.scaling.model import (
    Given,
    Parameters,
    Work,
    checkpoint_seconds,
    efficiency,
    predict,
    reading_seconds,
    scaled_batch,
    update,
)

_HALF = 0.5
_SLOW = 12.5e9 / 8  # bytes/s of a GPU where a node has one link of 100 Gb/s
_SMALL = 4e12  # bytes of a cache
_MOST = 512


def said(p: Parameters, work: Work) -> Iterator[str]:
    yield from _of_the_batch(p, work)
    yield _of_assumptions(p, work)
    yield _of_more_pools(p, work)
    yield from _of_reading(p, work)
    yield _of_the_cache(p, work)
    yield _of_a_slow_network(p, work)
    yield _of_the_stages(p, work)
    yield _of_checkpoints(p, work)
    yield _of_sharding(p)


def _powers(most: int = _MOST) -> list[int]:
    return [2**n for n in range(most.bit_length())]


def last_above(p: Parameters, work: Work, share: float) -> int:
    """The most GPUs, of the powers of two, that each do at least `share` of the work of one that is alone."""
    return max(gpus for gpus in _powers(work.batch) if efficiency(p, work, gpus) >= share)


def _of_the_batch(p: Parameters, work: Work) -> Iterator[str]:
    paying = last_above(p, work, _HALF)
    at = update(p, work, _MOST)
    yield (
        f"**The update of {work.batch} pairs limits the GPUs.** Half of the linear speed is left up to {paying} GPUs;"
        f" at {_MOST} it is {efficiency(p, work, _MOST):.0%}. There each GPU has {work.batch // _MOST} pair: an update"
        f" is {at.segments * 1e3:.1f} ms of arithmetic in {at.busy * 1e3:.1f} ms, the rest is launches"
        f" ({at.launches * 1e3:.1f}), the optimizer and DeepSpeed ({at.optimizer * 1e3:.1f}), gradients"
        f" ({at.gradients * 1e3:.1f}) and the pool ({at.pool * 1e3:.1f}). More than {work.batch} GPUs cannot take part."
    )
    faster = replace(p, launch_seconds=Given(p.launch_seconds.value / 6, "CUDA graphs"))
    yield (
        f"With launches at a sixth, as CUDA graphs would have them, {_MOST} GPUs are at"
        f" {efficiency(faster, work, _MOST):.0%}: worth a trial where one micro-step is the update (graphs and"
        " accumulation do not go together in torch yet)."
    )


def _of_assumptions(p: Parameters, work: Work) -> str:
    spread = []
    for factor in (0.5, 2.0):
        launch, rest = (given.value * factor for given in (p.launch_seconds, p.update_seconds))
        other = replace(p, launch_seconds=Given(launch, "assumption"), update_seconds=Given(rest, "assumption"))
        spread.append(f"{2 * work.batch / update(other, work, 64).busy:,.0f}")
    return (
        "**Launches and DeepSpeed's own time are assumptions, and they count**: with half of both, 64 GPUs"
        f" do {spread[0]} segments/s, with twice both {spread[1]}. Measure these first on a GPU (this command does)."
    )


def _of_more_pools(p: Parameters, work: Work) -> str:
    larger = scaled_batch(work, _MOST)
    crops = ceil(94_525 / larger.batch)
    return (
        f"**Several pools in an update** (train.batch = {larger.batch:,}, {larger.batch // larger.pool} pools) hold"
        f" {efficiency(p, larger, _MOST):.0%} at {_MOST} GPUs. The contrast is the paper's, the optimizer's batch is"
        f" not: an epoch of the paper's corpus would be {crops} updates instead of 185. It is for large corpora."
    )


def _of_reading(p: Parameters, work: Work) -> Iterator[str]:
    for where, name in (("store", "the object store"), ("disk", "the node's own disk")):
        for what, fixed in ((f"{work.batch} pairs an update", True), ("64 pairs a GPU", False)):
            for gpus in _powers():
                of = work if fixed else scaled_batch(work, gpus)
                seconds, busy = reading_seconds(p, of, gpus, where), update(p, of, gpus).busy
                if seconds > busy:
                    yield (
                        f"**Reading from {name}**, {what}: the GPUs wait from {gpus} on ({seconds * 1e3:.0f} ms of"
                        f" reading beside {busy * 1e3:.0f} ms of work)."
                    )
                    break
    larger = scaled_batch(work, _MOST)
    nodes = _MOST / p.node_size.value
    now = reading_seconds(p, larger, _MOST, "disk")
    yield (
        "The reason is the order, not the disks: every rank's crops lie all over a window of files, and files are read"
        f" whole, so each of {nodes:.0f} nodes reads the whole dataset in every epoch. To change then: let a node have"
        " files of its own in each window (the order stays a pure function, but of the number of nodes too), or read"
        f" ranges instead of files. At {_MOST} GPUs and 64 pairs each, reading from disk would take"
        f" {now / nodes * 1e3:.1f} ms an update instead of {now * 1e3:.0f}."
    )


def _of_the_cache(p: Parameters, work: Work) -> str:
    each = p.crops_per_recording.value * p.crop_bytes.value
    memory, disk = (size.value / each for size in (p.memory_bytes, p.cache_bytes))
    default = 64e9 / each
    run = predict(replace(p, cache_bytes=Given(_SMALL, "one NVMe disk")), work, 64, 10**8)
    return (
        f"**Later epochs** come from memory up to {memory / 1e6:.1f} million recordings, from the cache up to"
        f" {disk / 1e6:.0f} million ({default / 1e6:.2f} million with data.cache_gb as it is if nothing is said: raise"
        f" it first). Beyond, every node fetches every epoch again: with {_SMALL / 1e12:.0f} TB of cache, 10^8"
        f" recordings on 64 GPUs are {run.fetched_bytes / 1e15:,.1f} PB in {work.epochs} epochs. So many epochs are"
        f" hardly meant for so many recordings: one alone is {run.first_hours:,.1f} h."
    )


def _of_a_slow_network(p: Parameters, work: Work) -> str:
    slow = replace(p, network_bandwidth=Given(_SLOW, "100 Gb/s a node"))
    larger = scaled_batch(work, 64)
    return (
        "**A node with one link of 100 Gb/s**: 64 GPUs at"
        f" {efficiency(slow, work, 64):.0%} instead of {efficiency(p, work, 64):.0%}, with 64 pairs each"
        f" {efficiency(slow, larger, 64):.0%} instead of {efficiency(p, larger, 64):.0%}; gradients then take"
        f" {update(slow, work, 64).gradients * 1e3:.0f} ms. Accumulate more, or let DeepSpeed overlap"
        " (deepspeed.zero_optimization.overlap_comm)."
    )


def _of_the_stages(p: Parameters, work: Work) -> str:
    each = {stage: update(p, replace(work, stage=stage), 64).gradients * 1e3 for stage in range(4)}
    gigabytes = 12 * work.parameters / 1e9
    return (
        f"**ZeRO**: at 64 GPUs gradients take {each[1]:.1f} ms in stage 1, {each[3]:.1f} in stage 3. States are"
        f" {gigabytes:.1f} GB in all: there is nothing to gain from stages 2 and 3 at this size. DeepSpeed 0.19 reduces"
        " with all-reduce in stages 1 and 2; reduce-scatter would send a third less."
    )


def _of_checkpoints(p: Parameters, work: Work) -> str:
    pauses = {gpus: checkpoint_seconds(p, work, gpus) for gpus in (1, 512)}
    return (
        f"**Checkpoints** do not break: {3 * 4 * work.parameters / 1e9:.2f} GB, a pause of {pauses[1] * 1e3:.0f} ms on"
        f" one GPU and {pauses[512] * 1e3:.0f} on 512, every 10 minutes. Weights are asked for one by one by name; a"
        " latency for each of them is not in this."
    )


def _of_sharding(p: Parameters) -> str:
    hours = 1e8 * p.shard_seconds.value / 3600
    return (
        f"**Sharding** 10^8 recordings takes {hours:,.0f} h of a machine like this one; python -m data_tools.shard can"
        " spread them over a cluster."
    )
