"""Splits as pure functions: no leak by record, patient or content, whatever the order and the chance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_tools import splits
from data_tools.names import SPLITS
from data_tools.splits import Recordings


def recordings(
    patients: list[str | None], contents: list[list[int]], diagnosis: set[int], ptbxl: set[int]
) -> Recordings:
    count = len(patients)
    return Recordings(
        names=[f"R{index:05d}" for index in range(count)],
        patients=patients,
        contents=np.array([hash_ for own in contents for hash_ in own], np.uint64),
        owner=np.repeat(np.arange(count), [len(own) for own in contents]),
        crops=np.array([(len(own) + 1) // 2 for own in contents], np.int64),
        diagnosis=np.isin(np.arange(count), list(diagnosis)),
        identification=np.isin(np.arange(count), list(ptbxl)),
    )


def plain(count: int, diagnosis: int) -> Recordings:
    return recordings([None] * count, [[2 * i, 2 * i + 1] for i in range(count)], set(range(diagnosis)), set())


def assign(found: Recordings, seed: int = 0) -> dict[str, set[str]]:
    """split -> names"""
    kept = np.ones(len(found.names), bool)
    group = splits.groups(found)
    pairs = splits.pairs(found, group, kept, seed)
    split = splits.assign(found, group, kept, [i for pair in pairs.values() for i in pair], seed)
    return {name: {found.names[i] for i in np.flatnonzero(split == place)} for place, name in enumerate(SPLITS)}


def test_eight_to_one_to_one_and_a_hundredth() -> None:
    sizes = {name: len(names) for name, names in assign(plain(2000, diagnosis=1000)).items()}
    assert sizes == {
        "train": 1782,
        "pretrain-valid": 18,
        "diagnosis-valid": 100,
        "diagnosis-test": 100,
        "identification-test": 0,
    }


def test_diagnosis_splits_hold_diagnosis_recordings_only() -> None:
    found = assign(plain(300, diagnosis=100))
    assert found["diagnosis-test"] | found["diagnosis-valid"] <= {f"R{i:05d}" for i in range(100)}


def test_at_most_a_thousand_crops_validate_the_pretraining() -> None:
    found = recordings([None] * 200_000, [[i] for i in range(200_000)], set(), set())
    assert len(assign(found)["pretrain-valid"]) == 1000


def test_a_recording_too_long_to_validate_is_passed_over() -> None:
    found = recordings(
        [None] * 300, [list(range(4000 * i, 4000 * i + (4000 if i % 2 else 1))) for i in range(300)], set(), set()
    )
    chosen = assign(found)["pretrain-valid"]
    assert len(chosen) == 3 and all(int(name[1:]) % 2 == 0 for name in chosen)


def test_a_few_recordings_are_not_all_held_out() -> None:
    assert {name: len(names) for name, names in assign(plain(3, diagnosis=3)).items() if names} == {
        "diagnosis-test": 1,
        "diagnosis-valid": 1,
        "train": 1,
    }


def test_diagnosis_splits_are_those_of_the_diagnosis_cohorts_alone() -> None:
    together, alone = assign(plain(300, diagnosis=100)), assign(plain(100, diagnosis=100))
    for name in ("diagnosis-valid", "diagnosis-test"):
        assert together[name] == alone[name]


def test_another_seed_other_splits() -> None:
    found = plain(500, diagnosis=400)
    assert assign(found, 0) == assign(found, 0)
    assert assign(found, 0)["diagnosis-test"] != assign(found, 1)["diagnosis-test"]


def test_no_recording_depends_on_the_order_of_the_others() -> None:
    found = plain(200, diagnosis=120)
    shuffled = np.random.default_rng(0).permutation(200)
    other = recordings([None] * 200, [[2 * i, 2 * i + 1] for i in shuffled], set(), set())
    other = Recordings(
        names=[found.names[i] for i in shuffled],
        patients=other.patients,
        contents=other.contents,
        owner=other.owner,
        crops=other.crops,
        diagnosis=found.diagnosis[shuffled],
        identification=found.identification[shuffled],
    )
    assert assign(found) == assign(other)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_patient_and_no_content_is_in_two_splits(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 60))
    patients = data.draw(st.lists(st.sampled_from([None, "p", "q", "r", "s", "t"]), min_size=count, max_size=count))
    contents = data.draw(st.lists(st.lists(st.integers(0, 80), min_size=1, max_size=4), min_size=count, max_size=count))
    found = recordings(patients, contents, set(range(0, count, 2)), set(range(1, count, 3)))
    split_of = {name: split for split, names in assign(found, data.draw(st.integers(0, 9))).items() for name in names}
    for key, owners in (("patient", patients), *((hash_, contents) for hash_ in range(81))):
        if key == "patient":
            for patient in set(patients) - {None}:
                assert len({split_of[found.names[i]] for i in range(count) if owners[i] == patient}) == 1
        else:
            assert len({split_of[found.names[i]] for i in range(count) if key in owners[i]}) <= 1


def test_links_reach_through_others() -> None:
    """A shares content with B, B a patient with C, C content with D."""
    found = recordings([None, "p", "p", None, None], [[1], [1, 2], [3], [3], [4]], set(), set())
    group = splits.groups(found)
    assert len(set(group[:4].tolist())) == 1 and group[4] != group[0]


def pairs(found: Recordings, kept: list[bool] | None = None) -> dict[str, tuple[int, int]]:
    return splits.pairs(found, splits.groups(found), np.array(kept or [True] * len(found.names)), seed=0)


def test_gallery_and_probe_are_two_recordings_of_one_patient() -> None:
    found = recordings(["p", "p", "q", "r", "r", "r"], [[1], [2], [3], [4], [5], [6]], set(), set(range(6)))
    chosen = pairs(found)
    assert set(chosen) == {"p", "r"}
    assert set(chosen["p"]) == {0, 1}
    assert len(set(chosen["r"])) == 2 and set(chosen["r"]) <= {3, 4, 5}


@pytest.mark.parametrize(
    ("patients", "contents", "kept"),
    [
        (["p", "p"], [[1, 2], [1, 2]], [True, False]),  # the same recording twice
        (["p", "p"], [[1, 2], [2, 3]], None),  # one segment in both
        (["p", "q", "p"], [[1], [1], [2]], [True, False, True]),  # one signal under two patients
    ],
)
def test_who_is_no_pair(patients: list[str | None], contents: list[list[int]], kept: list[bool] | None) -> None:
    assert pairs(recordings(patients, contents, set(), set(range(len(patients)))), kept) == {}


def test_every_recording_of_a_pairs_patient_is_held_out() -> None:
    found = recordings(["p"] * 5 + [None] * 40, [[i] for i in range(45)], set(range(5, 25)), set(range(5)))
    assert assign(found)["identification-test"] == {f"R{i:05d}" for i in range(5)}
