"""Which recordings are held out for what. Pure: the same for any order of the files and any number of workers.

Everything random is drawn from a hash of (seed, purpose, name), so that a recording's lot depends on no other's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from data_tools.names import SPLITS

DIAGNOSIS_PART = 0.1  # of the diagnosis recordings, each of valid and test
IDENTIFICATION_PART_OF_OWN = 0.25  # at most, of one's own recordings; of PTB-XL it is 0.23
PRETRAIN_VALID_PART = 0.01
PRETRAIN_VALID_CROPS = 1000  # at most


@dataclass(frozen=True)
class Recordings:
    """Columns, an entry a recording."""

    names: Sequence[object]  # str() of each is the name
    patients: Sequence[str | None]
    contents: NDArray[np.uint64]  # hashes of the usable segments of all recordings, in order
    owner: NDArray[np.int64]  # the recording of each of them
    crops: NDArray[np.int64]
    diagnosis: NDArray[np.bool_]  # of a diagnosis cohort
    identification: NDArray[np.bool_]  # of a cohort whose patients may be gallery and probe

    def whole_contents(self) -> NDArray[np.uint64]:
        """A number for each recording, equal where all of the contents are."""
        place = np.arange(len(self.owner)) - np.searchsorted(self.owner, self.owner)  # within its recording
        mixed = np.zeros(len(self.names), np.uint64)
        np.add.at(mixed, self.owner, self.contents * (2 * place + 1).astype(np.uint64))
        return mixed

    def contents_of(self, recording: int) -> set[int]:
        low, high = np.searchsorted(self.owner, (recording, recording + 1))
        return set(self.contents[low:high].tolist())


def draw(seed: int, purpose: str, name: object) -> int:
    """64 random bits."""
    key = blake2b(f"{seed}/{purpose}/{name}".encode(), digest_size=8)
    return int.from_bytes(key.digest(), "little")


def draws(seed: int, purpose: str, names: Sequence[object]) -> NDArray[np.uint64]:
    return np.fromiter((draw(seed, purpose, name) for name in names), np.uint64, len(names))


def groups(recordings: Recordings) -> NDArray[np.int64]:
    """A number a recording: equal where two share a patient or a segment's content, directly or through others."""
    from scipy.sparse import coo_array  # a sixth of a second, which no worker has use for
    from scipy.sparse.csgraph import connected_components

    count = len(recordings.names)
    known = np.array([index for index, patient in enumerate(recordings.patients) if patient is not None], np.int64)
    _, patients = np.unique([recordings.patients[index] or "" for index in known], return_inverse=True)
    _, contents = np.unique(recordings.contents, return_inverse=True)
    # A graph of recordings, patients and contents, in which a recording is joined to its own.
    patients += count
    contents += count + len(known)
    ends = np.concatenate([recordings.owner, known]), np.concatenate([contents, patients])
    size = count + len(known) + len(recordings.contents)
    graph = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(size, size))
    labels: NDArray[np.int64] = connected_components(graph, directed=False)[1][:count].astype(np.int64)
    return labels


def pairs(
    recordings: Recordings, group: NDArray[np.int64], kept: NDArray[np.bool_], seed: int
) -> dict[str, tuple[int, int]]:
    """patient -> (gallery, probe): two kept recordings of one patient, drawn, whose contents have nothing in common.

    A patient who shares content with another is none of them: one signal under two names identifies nobody."""
    patients_of_group: dict[int, set[str]] = {}
    by_patient: dict[str, list[int]] = {}
    for index, patient in enumerate(recordings.patients):
        if patient is not None:
            patients_of_group.setdefault(int(group[index]), set()).add(patient)
            if kept[index] and recordings.identification[index]:
                by_patient.setdefault(patient, []).append(index)
    found = {}
    for patient, indices in sorted(by_patient.items()):
        if len(patients_of_group[int(group[indices[0]])]) > 1:
            continue
        indices.sort(key=lambda i: draw(seed, "gallery and probe", recordings.names[i]))
        first = recordings.contents_of(indices[0])
        second = next((i for i in indices[1:] if first.isdisjoint(recordings.contents_of(i))), None)
        if second is not None:
            found[patient] = (indices[0], second)
    return found


def limited(
    pairs: dict[str, tuple[int, int]], of: NDArray[np.bool_], group: NDArray[np.int64], seed: int
) -> dict[str, tuple[int, int]]:
    """Of the patients of the recordings `of`, only so many, drawn, as hold a part of them: in a clinic everybody may
    have been recorded twice, and there would be nobody left to train on."""
    sizes = np.bincount(group[of], minlength=int(group.max(initial=-1)) + 1)
    kept, room = dict(pairs), IDENTIFICATION_PART_OF_OWN * sizes.sum()
    taken: set[int] = set()
    for patient in sorted(pairs, key=lambda name: draw(seed, "identification-test", name)):
        place = int(group[pairs[patient][0]])
        if not of[pairs[patient][0]] or place in taken:
            continue
        if sizes[place] > room and taken:
            del kept[patient]
        else:
            taken.add(place)
            room -= sizes[place]
    return kept


def assign(
    recordings: Recordings, group: NDArray[np.int64], kept: NDArray[np.bool_], identified: Sequence[int], seed: int
) -> NDArray[np.int64]:
    """-> for each recording an index into SPLITS, the same in the whole of a group.

    identification-test has the groups of `identified`; diagnosis-test and -valid a tenth each of the diagnosis
    recordings; pretrain-valid a hundredth of what is left; train the rest. That is so whatever views are wanted:
    what is pre-trained on one dataset of an archive is not tested on another of it (but for recordings that are
    linked through cohorts that only one of the two has)."""
    count = int(group.max(initial=-1)) + 1
    split = np.zeros(count, np.int64)  # of each group
    split[group[list(identified)]] = SPLITS.index("identification-test")
    lots = draws(seed, "split", recordings.names)
    crops = np.bincount(group[kept], recordings.crops[kept], count)

    def take(name: str, of: NDArray[np.bool_], part: float, most_crops: float = np.inf) -> None:
        """Gives `name` about `part` of the recordings `of`, and at least one, group by group in the order drawn."""
        sizes = np.bincount(group[of], minlength=count)
        wanted = max(1.0, part * sizes.sum())
        lot = np.full(count, np.iinfo(np.uint64).max, np.uint64)  # other recordings have no say in it
        np.minimum.at(lot, group[of], lots[of])
        free = np.argsort(lot, kind="stable")
        free = free[(split[free] == 0) & (sizes[free] > 0)][:-1]  # never all of them
        free = free[(sizes[free] <= wanted) & (crops[free] <= most_crops)]
        enough = np.cumsum(sizes[free]) - sizes[free] / 2 <= wanted
        split[free[enough & (np.cumsum(crops[free]) <= most_crops)]] = SPLITS.index(name)

    of_diagnosis = kept & recordings.diagnosis & (split[group] == 0)
    take("diagnosis-test", of_diagnosis, DIAGNOSIS_PART)
    take("diagnosis-valid", of_diagnosis, DIAGNOSIS_PART)
    take("pretrain-valid", kept & (split[group] == 0), PRETRAIN_VALID_PART, PRETRAIN_VALID_CROPS)
    return split[group]
