"""What a dataset holds, and what was rejected."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.data.storage import LocalFolder, digest

_CROPS = ("record", "patient", "cohort", "split", "age", "sex", "classes", "lead_mask")
_PARTS = {"classes", "recordings", "crops", "rejected", "seconds_left_over", "views"}  # of dataset.json


@dataclass(frozen=True)
class Census:
    where: str
    fingerprint: str
    description: dict[str, Any]  # dataset.json
    crops: pa.Table
    rejected: pa.Table


def read(where: str) -> Census:
    """Raises ValueError where there is no dataset any more."""
    if "://" in where:
        raise ValueError(f"{where} lies in an object store; a report reads the datasets of this machine only")
    folder = Path(where).expanduser()
    try:
        description = json.loads(LocalFolder(where).description())
        if missing := _PARTS - description.keys():
            raise ValueError(f"{where}/dataset.json does not say {', '.join(sorted(missing))}")
        crops = pq.read_table(folder / "crops.parquet", columns=list(_CROPS))
        rejected = pq.read_table(folder / "rejected.parquet")
    except (OSError, pa.ArrowInvalid) as failure:
        raise ValueError(f"{where} is not whole: {' '.join(str(failure).split())}") from failure
    return Census(where, digest(folder / "dataset.json"), description, crops, rejected)
