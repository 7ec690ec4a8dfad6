"""Results as tests need them."""

from collections.abc import Mapping, Sequence

from benchmarks.result import Limit, Measure, Result


def result(
    *measures: Measure,
    limits: Mapping[str, Sequence[float]] | None = None,
    name: str = "step-base",
    slug: str = "a-2cpu",
    commit: str = "0123abc",
) -> Result:
    return Result(
        benchmark=name,
        date="2026-11-20",
        command=f"python -m benchmarks {name}",
        commit=commit,
        slug=slug,
        hardware="A, 2 cores, 8 GiB",
        driver=None,
        python="3.11.7",
        versions={"torch": "2.13.0"},
        limits={limit: Limit("FLOP/s", readings) for limit, readings in (limits or {}).items()},
        measures=measures,
    )


def speed(*repetitions: float, name: str = "ours", ours: bool = True, **costs: float) -> Measure:
    return Measure(name, "segments/s", repetitions, costs, ours)


def seconds(*repetitions: float, name: str = "pause", **costs: float) -> Measure:
    return Measure(name, "s", repetitions, costs)
