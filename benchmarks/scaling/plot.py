"""segments/s over GPUs, and what an update goes to."""

from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.scaling.model import Parameters, Work, reading_seconds, scaled_batch, update

_GPUS = [2**n for n in range(10)]
_PARTS = {
    "segments": "arithmetic",
    "launches": "launches",
    "optimizer": "optimizer, DeepSpeed",
    "gradients": "gradients",
    "pool": "contrast pool",
}


def draw(p: Parameters, work: Work, path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    _rates(axes[0], p, work)
    _parts(axes[1], p, lambda gpus: work)
    axes[1].set_title(f"an update of {work.batch} pairs")
    _parts(axes[2], p, lambda gpus: scaled_batch(work, gpus))
    axes[2].set_title("an update of 64 pairs a GPU, at least one pool")
    figure.suptitle("Predicted, not measured: the full size on nodes of 8 H200", fontsize="medium")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _rates(axis: Axes, p: Parameters, work: Work) -> None:
    ways = {f"{work.batch} pairs": work, "64 pairs a GPU": None}
    for color, (name, fixed) in enumerate(ways.items()):
        of = [fixed or scaled_batch(work, gpus) for gpus in _GPUS]
        for where, style in (("memory", "-"), ("disk", "--"), ("store", ":")):
            seconds = [
                update(p, each, gpus, reading_seconds(p, each, gpus, where)).seconds
                for each, gpus in zip(of, _GPUS, strict=True)
            ]
            rates = [2 * each.batch / s for each, s in zip(of, seconds, strict=True)]
            axis.plot(_GPUS, rates, style, color=f"C{color}", label=f"{name}, from {where}")
    one = 2 * work.batch / update(p, work, 1).busy
    axis.plot(_GPUS, [one * gpus for gpus in _GPUS], color="0.7", linewidth=1, label="linear")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xlabel("GPUs")
    axis.set_ylabel("segments/s")
    axis.legend(fontsize="small", frameon=False)


def _parts(axis: Axes, p: Parameters, of: Callable[[int], Work]) -> None:
    bottom = [0.0] * len(_GPUS)
    places = range(len(_GPUS))
    updates = [update(p, of(gpus), gpus) for gpus in _GPUS]
    for part, name in _PARTS.items():
        shares = [getattr(each, part) / each.busy for each in updates]
        axis.bar(places, shares, bottom=bottom, label=name)
        bottom = [a + b for a, b in zip(bottom, shares, strict=True)]
    axis.set_xticks(places, [str(gpus) for gpus in _GPUS])
    axis.set_xlabel("GPUs")
    axis.set_ylabel("share of the update, reading apart")
    axis.legend(fontsize="small", loc="lower left")
