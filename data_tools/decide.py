"""Second pass, over the rows of the first and no signals: what is kept, in which split, in which order. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from data_tools import cohorts, splits
from data_tools.cohorts import PtbxlRow
from data_tools.crops import RATE
from data_tools.splits import SPLITS, Recordings


@dataclass(frozen=True)
class Decision:
    crops: pa.Table  # kept, in the order of storage: by split, then by lot; adds split, patient, key
    rejected: pa.Table  # record, cohort, start, reason, detail
    pairs: dict[str, tuple[str, str]]  # patient -> the records of gallery and probe


def decide(
    rows: pa.Table,
    segments: set[str],
    patients: Mapping[str, PtbxlRow],
    seed: int,
    diagnosis: bool,
    identification: bool,
) -> Decision:
    """`rows` of check.ROWS, each recording's together; `segments`: headers that are parts of other recordings."""
    rows = _with_persons(rows, patients)
    starts = rows["start"].fill_null(0).to_numpy()
    first = np.flatnonzero(starts == 0)  # row of each recording: its first crop, or its refusal
    recording = np.repeat(np.arange(len(first)), np.diff(first, append=len(rows)))  # of each row
    good = rows["reason"].is_null().to_numpy()
    kept = np.bincount(recording, good, len(first)) > 0
    found = _recordings(rows, recording, first, good)
    rows, kept = _without_superfluous(rows, first, found, kept, segments)

    group = splits.groups(found)
    chosen = splits.pairs(found, group, kept, seed) if identification else {}
    identified = [index for pair in chosen.values() for index in pair]
    split = splits.assign(found, group, kept, identified, seed, diagnosis)[recording]
    lots = splits.draws(seed, "order", found.names)[recording]
    ordered = rows.append_column("split", pa.array(np.array(SPLITS)[split])).take(
        np.lexsort((starts, recording, lots, split))
    )
    crops = ordered.filter(pc.is_null(ordered["reason"]))
    keys = [f"{name}-{start // RATE:04d}" for name, start in zip(*_lists(crops, "record", "start"), strict=True)]
    rejected = rows.filter(pc.is_valid(rows["reason"])).select(["record", "cohort", "start", "reason", "detail"])
    return Decision(
        crops=crops.append_column("key", pa.array(keys, pa.string())),
        rejected=rejected.sort_by([("record", "ascending"), ("start", "ascending"), ("reason", "ascending")]),
        pairs={patient: (found.names[a], found.names[b]) for patient, (a, b) in chosen.items()},
    )


def _with_persons(rows: pa.Table, patients: Mapping[str, PtbxlRow]) -> pa.Table:
    """Adds `patient`, and age and sex where a header of PTB-XL has none."""
    of_ptbxl = pc.equal(rows["cohort"], "ptb-xl").to_pylist()
    names = rows["record"].to_pylist()
    persons = [patients.get(name) if known else None for name, known in zip(names, of_ptbxl, strict=True)]

    def column(name: str, type_: pa.DataType) -> pa.Array:
        return pa.array([person and getattr(person, name) for person in persons], type_)

    rows = rows.append_column("patient", column("patient", pa.string()))
    for name in ("age", "sex"):
        filled = pc.coalesce(rows[name], column(name, rows.schema.field(name).type))
        rows = rows.set_column(rows.schema.get_field_index(name), name, filled)
    return rows


def _recordings(
    rows: pa.Table, recording: NDArray[np.int64], first: NDArray[np.int64], good: NDArray[np.bool_]
) -> Recordings:
    contents = pc.list_flatten(rows["content"]).combine_chunks()
    hashes = np.frombuffer(contents.buffers()[1] or b"", "<u8").reshape(-1, 2)[contents.offset :, 0]
    usable = pc.list_flatten(rows["lead_mask"]).to_numpy() != 0
    owner = recording[pc.list_parent_indices(rows["content"]).to_numpy()]
    of_recording = rows.take(first)
    cohort = of_recording["cohort"].to_numpy(zero_copy_only=False)
    return Recordings(
        names=of_recording["record"].to_pylist(),
        patients=of_recording["patient"].to_pylist(),
        contents=hashes[: len(owner)][usable],
        owner=owner[usable],
        crops=np.bincount(recording, good, len(first)).astype(np.int64),
        diagnosis=np.isin(cohort, cohorts.DIAGNOSIS),
        identification=cohort == "ptb-xl",
    )


def _without_superfluous(
    rows: pa.Table, first: NDArray[np.int64], found: Recordings, kept: NDArray[np.bool_], segments: set[str]
) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Of recordings that are parts of others, of the same name, or of the same content, one is kept."""
    reasons, details = _lists(rows, "reason", "detail")
    kept = kept.copy()
    last = np.append(first[1:], len(rows))

    def drop(index: int, reason: str, detail: str | None = None) -> None:
        kept[index] = False
        for row in range(first[index], last[index]):
            if reasons[row] is None:
                reasons[row], details[row] = reason, detail

    of_recording = rows.take(first)
    headers, cohort, rates = _lists(of_recording, "header", "cohort", "rate")
    by_name: dict[str, int] = {}
    by_content: dict[bytes, int] = {}
    bounds = np.searchsorted(found.owner, np.arange(len(first) + 1))
    # A diagnosis cohort's recording before its twin elsewhere, a native rate before a resampled one.
    preference = sorted(
        np.flatnonzero(kept).tolist(), key=lambda i: (cohorts.NAMES.index(cohort[i]), rates[i] != RATE, headers[i])
    )
    for index in preference:
        content = found.contents[bounds[index] : bounds[index + 1]].tobytes()
        if headers[index] in segments:
            drop(index, "a segment of another recording")
        elif by_name.setdefault(found.names[index], index) != index:
            drop(index, "another recording has this name")
        elif (twin := by_content.setdefault(content, index)) != index:
            drop(index, "same content as another recording", found.names[twin])
    columns = {"reason": pa.array(reasons, pa.string()), "detail": pa.array(details, pa.string())}
    for name, column in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows, kept


def _lists(table: pa.Table, *names: str) -> list[list[Any]]:
    return [table[name].to_pylist() for name in names]
