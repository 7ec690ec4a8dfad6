"""What makes the content of a dataset, and how much of it each pass depends on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_tools import __version__, cohorts, files, privacy
from data_tools.cohorts import OWN
from data_tools.hints import Hints
from data_tools.writers import CROP_BYTES


@dataclass(frozen=True)
class Job:
    raw: Path
    format: str
    views: tuple[str, ...]  # empty: all that the archive can serve
    cohorts: tuple[str, ...]  # empty: all there are
    seed: int
    resample: bool
    shard_mb: int
    ptbxl_metadata: Path | None
    told: Hints  # what the files do not say
    labels: Path | None  # of own recordings

    @property
    def crops_per_shard(self) -> int:
        return max(1, self.shard_mb * 1_000_000 // CROP_BYTES)

    def arguments(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "views": list(self.views),
            "cohorts": list(self.cohorts),
            "seed": self.seed,
            "resample": self.resample,
            "shard_mb": self.shard_mb,
            "ptbxl_metadata": files.digest(self.ptbxl_metadata) if self.ptbxl_metadata else None,
            "told": self.told.plain(),
            "labels": privacy.digest(privacy.secret_of(self.raw), self.labels.read_bytes()) if self.labels else None,
        }


def begun(job: Job) -> dict[str, Any]:
    """All that the first pass depends on."""
    return {
        "version": __version__,
        "raw": str(job.raw),
        "cohorts": list(wanted_cohorts(job)),
        "told": job.told.plain(),
        "resample": job.resample,
    }


def wanted_cohorts(job: Job) -> tuple[str, ...]:
    """The cohorts to look for; empty: all."""
    if job.cohorts or job.views != ("diagnosis",):
        return job.cohorts
    return (*cohorts.DIAGNOSIS, OWN.name) if job.labels else cohorts.DIAGNOSIS


def difference(before: Any, now: dict[str, Any]) -> str:
    if not isinstance(before, dict) or before.get("version") != now["version"]:
        return "by another version of leadwise"
    names = {
        "raw": "RAW",
        "cohorts": "--cohorts",
        "resample": "--resample",
        "told": "flag for what the files do not say",
    }
    return f"with another {' and '.join(names[name] for name in names if before.get(name) != now[name])}"
