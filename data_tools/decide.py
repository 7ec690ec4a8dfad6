"""Second pass, over the rows of the first and no signals: what is kept, in which split, in which order. Pure."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from data_tools import cohorts, splits
from data_tools.cohorts import OWN, PtbxlRow
from data_tools.crops import RATE
from data_tools.names import SPLITS
from data_tools.own_labels import Labels
from data_tools.splits import Recordings


@dataclass(frozen=True)
class Decision:
    crops: pa.Table  # kept, in the order of storage: by split, then by lot; adds patient, split, group, key
    rejected: pa.Table  # record, cohort, start, reason, detail
    pairs: dict[str, tuple[str, str]]  # patient -> the records of gallery and probe


def decide(rows: pa.Table, named: set[str], patients: Mapping[str, PtbxlRow], labels: Labels, seed: int) -> Decision:
    """`rows` of check.Row, each recording's together; `named`: headers among these are parts of other recordings."""
    rows = _with_labels(_with_persons(rows, patients), labels)
    starts = rows["start"].fill_null(0).to_numpy()
    first = np.flatnonzero(starts == 0)  # row of each recording: its first crop, or its refusal
    recording = np.repeat(np.arange(len(first)), np.diff(first, append=len(rows)))  # of each row
    good = rows["reason"].is_null().to_numpy()
    kept = np.bincount(recording, good, len(first)) > 0
    found = _recordings(rows, recording, first, good)
    rows, kept = _without_superfluous(rows, first, found, kept, named)

    group = splits.groups(found)
    own = kept & pc.equal(rows["cohort"], OWN.name).to_numpy()[first]
    chosen = splits.limited(splits.pairs(found, group, kept, seed), own, group, seed)
    identified = [index for pair in chosen.values() for index in pair]
    split = splits.assign(found, group, kept, identified, seed)[recording]
    lots = splits.draws(seed, "order", found.names)[recording]
    stored = np.flatnonzero(rows["reason"].is_null().to_numpy())
    stored = stored[np.lexsort([column[stored] for column in (starts, recording, lots, split)])]
    crops = rows.drop_columns(["rate", "reason", "detail"]).take(stored)
    crops = crops.append_column("split", pa.array(SPLITS).take(pa.array(split[stored])))
    crops = crops.append_column("group", pa.array(group[recording[stored]].astype(np.int32)))
    refused = rows.filter(pc.is_valid(rows["reason"])).select(
        ["header", "record", "cohort", "start", "reason", "detail"]
    )
    return Decision(
        crops=crops.append_column("key", _keys(crops)),
        rejected=refused.sort_by([(name, "ascending") for name in ("record", "start", "reason", "header")]),
        pairs={patient: (str(found.names[a]), str(found.names[b])) for patient, (a, b) in chosen.items()},
    )


def _keys(crops: pa.Table) -> pa.ChunkedArray:
    """JS00001-0010: the recording, and the second at which the crop begins."""
    seconds = pc.utf8_lpad(pc.cast(pc.divide(crops["start"], RATE), pa.string()), 4, "0")
    return pc.binary_join_element_wise(crops["record"], seconds, "-")


def _with_persons(rows: pa.Table, patients: Mapping[str, PtbxlRow]) -> pa.Table:
    """Adds `patient`, and age and sex where a header of PTB-XL has none."""
    if not patients:
        return rows.append_column("patient", pa.nulls(len(rows), pa.string()))
    of_ptbxl = pc.equal(rows["cohort"], cohorts.PTBXL)
    names = pc.if_else(of_ptbxl, rows["record"], None).to_pylist()
    persons = [patients.get(name) if name is not None else None for name in names]

    def column(name: str, type_: pa.DataType) -> pa.Array:
        return pa.array([person and getattr(person, name) for person in persons], type_)

    rows = rows.append_column("patient", column("patient", pa.string()))
    for name in ("age", "sex"):
        rows = _with(rows, name, pc.coalesce(rows[name], column(name, rows.schema.field(name).type)))
    # Of the 38 that PTB-XL 1.0.3 dropped, some are of patients in gallery and probe.
    unknown = pc.and_(of_ptbxl, pc.is_null(rows["patient"]))
    return _with(
        rows, "reason", pc.coalesce(rows["reason"], pc.if_else(unknown, "patient unknown to PTB-XL's table", None))
    )


def _with_labels(rows: pa.Table, labels: Labels) -> pa.Table:
    """Own recordings' classes and patients; and `diagnosis` and `identification`: may it stand in these views?"""
    diagnosis = pc.is_in(rows["cohort"], pa.array(cohorts.DIAGNOSIS))
    identification = pc.equal(rows["cohort"], cohorts.PTBXL)
    if labels.of:
        own = pc.if_else(pc.equal(rows["cohort"], OWN.name), rows["record"], None).to_pylist()
        found = [labels.of.get(name) if name is not None else None for name in own]
        patients = pa.array([labelled and labelled.patient for labelled in found], pa.string())
        rows = _with(rows, "patient", pc.coalesce(rows["patient"], patients))
        identification = pc.or_(identification, pc.is_valid(patients))
    if labels.has_classes:
        classes = pa.array([labelled and labelled.classes for labelled in found], pa.uint32())
        rows = _with(rows, "classes", pc.coalesce(classes, rows["classes"]))
        diagnosis = pc.or_(diagnosis, pc.is_valid(classes))
    return rows.append_column("diagnosis", diagnosis).append_column("identification", identification)


def _with(rows: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, column)


def _recordings(
    rows: pa.Table, recording: NDArray[np.int64], first: NDArray[np.int64], good: NDArray[np.bool_]
) -> Recordings:
    contents = pc.list_flatten(rows["content"]).combine_chunks()
    hashes = np.frombuffer(contents.buffers()[1] or b"", "<u8").reshape(-1, 2)[contents.offset :, 0]
    usable = pc.list_flatten(rows["lead_mask"]).to_numpy() != 0
    owner = recording[pc.list_parent_indices(rows["content"]).to_numpy()]
    of_recording = rows.select(["record", "patient", "diagnosis", "identification"]).take(first)
    return Recordings(
        names=of_recording["record"].combine_chunks(),
        patients=of_recording["patient"].to_pylist(),
        contents=hashes[: len(owner)][usable],
        owner=owner[usable],
        crops=np.bincount(recording, good, len(first)).astype(np.int64),
        diagnosis=of_recording["diagnosis"].to_numpy(),
        identification=of_recording["identification"].to_numpy(),
    )


def _without_superfluous(
    rows: pa.Table, first: NDArray[np.int64], found: Recordings, kept: NDArray[np.bool_], named: set[str]
) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Of recordings of the same name or the same content one is kept; none that is a part of another."""
    kept = kept.copy()
    suspects = _repeated(rows["record"].take(first)) | _repeated(pa.array(found.whole_contents()))
    suspects |= pc.is_in(
        rows["header"], pa.array([os.fsencode(name) for name in sorted(named)], pa.binary())
    ).to_numpy()[first]
    indices = np.flatnonzero(kept & suspects)
    suspected = rows.select(["header", "record", "cohort", "rate", "classes"]).take(first[indices])
    about = dict(zip(indices.tolist(), suspected.to_pylist(), strict=True))
    verdicts: dict[int, tuple[str, str | None]] = {}
    names: set[str] = set()
    by_content: dict[frozenset[int], int] = {}

    def preference(index: int) -> tuple[int, bool, bool, bytes]:
        """A diagnosis cohort's recording before its twin elsewhere, a native rate, labels."""
        row = about[index]
        return cohorts.NAMES.index(row["cohort"]), row["rate"] != RATE, not row["classes"], row["header"]

    for index in sorted(about, key=preference):
        content = frozenset(found.contents_of(index))
        if os.fsdecode(about[index]["header"]) in named:
            verdicts[index] = "a segment of another recording", None
        elif content in by_content:
            verdicts[index] = "same content as another recording", about[by_content[content]]["record"]
        elif about[index]["record"] in names:
            verdicts[index] = "another recording has this name", None
        else:
            by_content[content] = index
            names.add(about[index]["record"])
    kept[list(verdicts)] = False
    return _with_verdicts(rows, first, verdicts) if verdicts else rows, kept


def _repeated(values: pa.Array) -> NDArray[np.bool_]:
    """Whether each value stands there more than once."""
    encoded = pc.dictionary_encode(values)
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    indices = encoded.indices.to_numpy()
    repeated: NDArray[np.bool_] = np.bincount(indices)[indices] > 1
    return repeated


def _with_verdicts(
    rows: pa.Table, first: NDArray[np.int64], verdicts: Mapping[int, tuple[str, str | None]]
) -> pa.Table:
    """Against every crop of these recordings that nothing spoke against before."""
    columns = [rows["reason"].to_pylist(), rows["detail"].to_pylist()]
    last = np.append(first[1:], len(rows))
    for index, verdict in verdicts.items():
        for row in range(first[index], last[index]):
            if columns[0][row] is None:
                columns[0][row], columns[1][row] = verdict
    rows = _with(rows, "reason", pa.array(columns[0], pa.string()))
    return _with(rows, "detail", pa.array(columns[1], pa.string()))
