"""What a benchmark found: every repetition of every figure, beside the machine's own limits in the same run."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 2


@dataclass(frozen=True)
class Limit:
    """What the machine can do, read before and after (and in between) the figures."""

    unit: str  # of work a second
    readings: Sequence[float]

    @property
    def best(self) -> float:
        return max(self.readings)


@dataclass(frozen=True)
class Measure:
    """`costs`: by the name of a limit, how much of it one unit of a rate takes, or all that takes so many seconds."""

    name: str
    unit: str  # of a rate `.../s`, of a time `s`
    repetitions: Sequence[float]
    costs: Mapping[str, float] = field(default_factory=dict)
    ours: bool = True  # or a peer's, or a baseline's

    @property
    def median(self) -> float:
        return statistics.median(self.repetitions)

    @property
    def is_time(self) -> bool:
        return self.unit == "s"

    def rate_of(self, limit: str, value: float) -> float:
        """What a repetition took of that limit, in its unit."""
        return self.costs[limit] / value if self.is_time else self.costs[limit] * value


@dataclass(frozen=True)
class Result:
    benchmark: str  # with its size: step-base
    date: str
    command: str
    commit: str
    slug: str  # of the hardware, for the name of files
    hardware: str
    driver: str | None  # of the GPU
    python: str
    versions: Mapping[str, str]
    limits: Mapping[str, Limit] = field(default_factory=dict)
    measures: Sequence[Measure] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)  # all else that was found

    @property
    def stem(self) -> str:
        return f"{self.benchmark}-{self.slug}-{self.date}"

    def shares(self, measure: Measure) -> dict[str, float]:
        """Of each limit that it has a cost of, by the median."""
        return {
            name: measure.rate_of(name, measure.median) / self.limits[name].best
            for name in measure.costs
            if name in self.limits
        }

    def text(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"


def read(path: Path) -> Result:
    return parse(path.read_text(), str(path))


def parse(text: str, name: str) -> Result:
    """Raises ValueError for what is no result."""
    try:
        found = json.loads(text)
    except ValueError as failure:
        raise ValueError(f"{name} is no result of a benchmark: {failure}") from failure
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise ValueError(f"{name} is no result of a benchmark in format {FORMAT}")
    limits = {name: Limit(**limit) for name, limit in found.pop("limits").items()}
    measures = tuple(Measure(**measure) for measure in found.pop("measures"))
    return Result(limits=limits, measures=measures, **found)


def all_of(folder: Path) -> list[Result]:
    """Those of a folder, oldest first."""
    return sorted((read(path) for path in folder.glob("*.json")), key=lambda one: (one.date, one.benchmark, one.slug))
