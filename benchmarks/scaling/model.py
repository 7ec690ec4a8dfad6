"""What an update costs on so many ranks, and a run on so many recordings: closed forms, no measurement.

Times are in seconds, sizes in bytes; `ranks` is one GPU each. Nothing overlaps but reading, which goes on in the
background: DeepSpeed's stages 1 and 2 do not overlap reduction with the backward unless told to.
"""

from dataclasses import dataclass, replace
from math import ceil, log2
from typing import NamedTuple

from engine.methods import POOL


class Given(NamedTuple):
    value: float
    source: str  # measured here, datasheet or assumption, and of what


@dataclass(frozen=True)
class Parameters:
    """Of a machine. A node is what a fast link joins; a rank is one GPU."""

    segment_seconds: Given  # of forward, losses and backward, at a batch that fills the device
    micro_step_seconds: Given  # of a micro-step, however few its segments
    launch_seconds: Given  # of the host for a micro-step, behind which a GPU hides, or cannot hide
    update_seconds: Given  # what an update takes beside its micro-steps and parameters
    parameter_seconds: Given  # of the optimizer, for each parameter that a rank updates
    node_size: Given  # ranks
    node_bandwidth: Given  # bytes/s that a rank sends inside a node
    node_latency: Given  # seconds of a step of a collective
    network_bandwidth: Given  # bytes/s that a rank sends between nodes, all ranks of the node sending
    network_latency: Given
    pair_seconds: Given  # of a rank's loader
    memory_bytes: Given  # of a node that hold files once read
    cache_bytes: Given  # of a node's own disk: data.cache_gb
    disk_bandwidth: Given
    store_bandwidth: Given  # of one node from the object store
    store_total: Given  # of all nodes together
    host_bandwidth: Given  # device to host, for a checkpoint
    most_pairs: Given  # of a micro-batch that fits
    crops_per_recording: Given
    crop_bytes: Given
    shard_seconds: Given  # of one worker, for each recording


@dataclass(frozen=True)
class Work:
    """What is trained, and how."""

    parameters: int
    dim: int
    codes: int  # of all groups
    batch: int = POOL  # pairs
    pool: int = POOL
    stage: int = 1
    epochs: int = 200


class Split(NamedTuple):
    """The pairs of an update, on each rank."""

    micro_batch: int
    micro_steps: int
    pool_ranks: int  # that fill a pool together


class Update(NamedTuple):
    """Seconds of one update by what they go to. `reading` is behind the rest, and counts where it is longer."""

    segments: float
    launches: float  # and what else a micro-step takes beside its segments
    optimizer: float
    gradients: float
    pool: float
    reading: float

    @property
    def busy(self) -> float:
        return sum(self) - self.reading

    @property
    def seconds(self) -> float:
        return max(self.busy, self.reading)

    @property
    def limit(self) -> str:
        """What takes most of it."""
        if self.reading > self.busy:
            return "reading"
        return max(self._fields[:-1], key=lambda name: float(getattr(self, name)))


class Prediction(NamedTuple):
    gpus: int
    recordings: int
    first: Update  # of the first epoch, everything from the object store
    later: Update
    later_from: str  # memory, disk or store
    segments_per_second: float  # later
    first_hours: float  # the first epoch
    epoch_hours: float  # a later one
    run_hours: float
    dataset_bytes: float
    fetched_bytes: float  # by all nodes, in the run
    checkpoint_seconds: float  # the pause


def split(work: Work, ranks: int, most_pairs: int) -> Split:
    """The largest micro-batch that fits and divides: pools are whole, and a pool is never a part of a micro-step."""
    if work.batch % ranks:
        raise ValueError(f"{work.batch} pairs an update cannot be divided among {ranks} ranks")
    each = work.batch // ranks
    fitting = [
        m
        for m in range(1, min(each, most_pairs, work.pool) + 1)
        if each % m == 0 and work.pool % m == 0 and ranks % (work.pool // m) == 0
    ]
    if not fitting:
        raise ValueError(f"no micro-batch of at most {most_pairs} pairs makes pools of {work.pool} on {ranks} ranks")
    return Split(fitting[-1], each // fitting[-1], work.pool // fitting[-1])


def sent(collective: str, size: float, ranks: int) -> float:
    """Bytes that a rank sends, and receives, where all hold `size` together in the end: the least there is."""
    passes = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1}[collective]
    return passes * (ranks - 1) / ranks * size


def collective_seconds(p: Parameters, collective: str, size: float, ranks: int) -> float:
    """A ring inside a node; between nodes as many rings as a node has ranks, each over a link of its own."""
    if ranks == 1:
        return 0.0
    inside = ranks <= p.node_size.value
    bandwidth = p.node_bandwidth.value
    if not inside:
        bandwidth = min(bandwidth, p.network_bandwidth.value * p.node_size.value)
    latency = p.node_latency.value if inside else p.network_latency.value
    passes = 2 if collective == "all-reduce" else 1
    # Small messages go by trees, which every library has.
    return passes * ceil(log2(ranks)) * latency + sent(collective, size, ranks) / bandwidth


_LOW = 2  # bytes of a weight or gradient in bf16
_FULL = 4


def gradient_traffic(work: Work, micro_steps: int) -> list[tuple[str, float]]:
    """The collectives of an update, as DeepSpeed 0.19 has them: stages 1 and 2 reduce with all-reduce, in bf16."""
    weights = float(_LOW * work.parameters)
    if work.stage == 0:  # float32 alone, see the engine's config
        return [("all-reduce", float(_FULL * work.parameters))]
    if work.stage == 1:
        return [("all-reduce", weights), ("all-gather", weights)]
    if work.stage == 2:  # it reduces at every micro-step
        return [("all-reduce", weights)] * micro_steps + [("all-gather", weights)]
    # Below stage3_max_reuse_distance, 1e9 parameters, what the forward has gathered stays for the backward. Small
    # parameters stay for longer, so this is the most.
    return [("all-gather", weights), ("reduce-scatter", weights)] * micro_steps


def pool_traffic(work: Work, of: Split) -> list[tuple[str, float]]:
    """Of a micro-step: rows and identities of the pool, the codes in use, and the gradients of rows and codes."""
    if of.pool_ranks == 1:
        return []
    rows, codes = 2 * work.pool * work.dim * _FULL, of.pool_ranks * work.codes * _FULL
    identities = 2 * work.pool * 8
    gathers = [("all-gather", float(size)) for size in (rows, identities, codes, codes)]
    return gathers + [("reduce-scatter", float(size)) for size in (rows, codes)]


def update(p: Parameters, work: Work, ranks: int, reading: float = 0.0, of: Split | None = None) -> Update:
    """`reading`: seconds of it, of another function; `of`: None: the best."""
    of = of or split(work, ranks, int(p.most_pairs.value))
    updated = work.parameters / (ranks if work.stage else 1)
    segments = 2 * of.micro_batch * p.segment_seconds.value
    traffic, pool = gradient_traffic(work, of.micro_steps), pool_traffic(work, of)
    return Update(
        segments=of.micro_steps * segments,
        launches=of.micro_steps * (max(p.launch_seconds.value, p.micro_step_seconds.value + segments) - segments),
        optimizer=p.update_seconds.value + updated * p.parameter_seconds.value,
        gradients=sum(collective_seconds(p, name, size, ranks) for name, size in traffic),
        pool=of.micro_steps * sum(collective_seconds(p, name, size, of.pool_ranks) for name, size in pool),
        reading=reading,
    )


def reading_seconds(p: Parameters, work: Work, ranks: int, where: str) -> float:
    """Of an update. Every rank's crops lie all over a window of files, and what is not in memory is read as whole
    files: so each node reads all of the batch's bytes, however few of its crops are its own."""
    loader = work.batch / ranks * p.pair_seconds.value
    if where == "memory":
        return loader
    nodes = ceil(ranks / p.node_size.value)
    from_store = min(p.store_bandwidth.value, p.store_total.value / nodes)
    bandwidth = p.disk_bandwidth.value if where == "disk" else from_store
    return max(loader, work.batch * p.crop_bytes.value / bandwidth)


def later_from(p: Parameters, dataset: float) -> str:
    """Where a later epoch reads from."""
    if dataset <= p.memory_bytes.value:
        return "memory"
    return "disk" if dataset <= p.cache_bytes.value else "store"


def checkpoint_seconds(p: Parameters, work: Work, ranks: int) -> float:
    """The pause: float32 weights and both moments gathered, and copied to the first rank's host."""
    size = 3.0 * _FULL * work.parameters
    gathered = collective_seconds(p, "all-gather", size, ranks) if work.stage else 0.0
    return gathered + size / p.host_bandwidth.value


def predict(p: Parameters, work: Work, gpus: int, recordings: int) -> Prediction:
    crops = recordings * p.crops_per_recording.value
    dataset = crops * p.crop_bytes.value
    where = later_from(p, dataset)
    first = update(p, work, gpus, reading_seconds(p, work, gpus, "store"))
    later = update(p, work, gpus, reading_seconds(p, work, gpus, where))
    updates = ceil(crops / work.batch)
    first_hours, epoch_hours = (updates * each.seconds / 3600 for each in (first, later))
    nodes = ceil(gpus / p.node_size.value)
    return Prediction(
        gpus=gpus,
        recordings=recordings,
        first=first,
        later=later,
        later_from=where,
        segments_per_second=2 * work.batch / later.seconds,
        first_hours=first_hours,
        epoch_hours=epoch_hours,
        run_hours=first_hours + (work.epochs - 1) * epoch_hours,
        dataset_bytes=dataset,
        fetched_bytes=nodes * dataset * (work.epochs if where == "store" else 1),
        checkpoint_seconds=checkpoint_seconds(p, work, gpus),
    )


def efficiency(p: Parameters, work: Work, ranks: int) -> float:
    """Segments/s of a rank, over those of one that is alone; without reading."""
    alone = update(p, replace(work, batch=work.pool), 1).busy / work.pool
    return alone * work.batch / (update(p, work, ranks).busy * ranks)


def scaled_batch(work: Work, ranks: int, pairs: int = 64) -> Work:
    """As many pools in an update as give every rank `pairs`: another training than the paper's."""
    return replace(work, batch=max(work.pool, pairs * ranks // work.pool * work.pool))
