import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from data_tools.labels import CLASS_NAMES
from engine.scoring import cinc
from engine.scoring.cinc import SEVERITY, parts, ratio, score, weights
from tests.conftest import ORACLE
from tests.engine.scoring.conftest import Cases

CASES = ("random26", "perfect", "always_nsr", "all_zero")
BITS = arrays(bool, st.tuples(st.integers(1, 12), st.just(26)))


def said(*names: str) -> list[list[int]]:
    return [[int(name in names) for name in CLASS_NAMES]]


@pytest.mark.realdata
def test_the_closed_form_is_the_official_table(realdata: Path) -> None:
    with (realdata / "cinc2021" / "weights_abbreviations.csv").open() as file:
        names, *rows = [row[1:] for row in csv.reader(file)]
    assert weights(names) == pytest.approx(np.array(rows, float), abs=1e-15)


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
def test_the_score_is_that_of_the_official_program(oracle: Cases, case: str) -> None:
    arrays, expected = oracle[case]
    found = score(arrays["labels"], arrays["binary"], CLASS_NAMES)
    assert found == pytest.approx(expected["challenge_metric"], abs=1e-12)


@pytest.mark.oracle
def test_every_case_is_tested(oracle: Cases) -> None:
    assert tuple(oracle) == CASES
    assert weights(CLASS_NAMES) == pytest.approx(np.load(ORACLE / "oracle.npz")["weights"], abs=1e-15)


def test_by_hand() -> None:
    """AF where it is AF and QAb: half of both weights. NSR there: a third of W(AF, NSR) + W(QAb, NSR)."""
    found = parts(said("AF", "QAb"), said("AF"), CLASS_NAMES)
    assert float(found.observed[0]) == pytest.approx((1 + 0.4) / 2)
    assert float(found.correct[0]) == pytest.approx((1 + 0.4 + 0.4 + 1) / 2)
    assert float(found.inactive[0]) == pytest.approx((0.25 + 0.15) / 3)
    assert score(said("AF", "QAb"), said("AF"), CLASS_NAMES) == pytest.approx((0.7 - 0.4 / 3) / (1.4 - 0.4 / 3))


def test_pairs_that_are_nearly_one_class() -> None:
    table = weights(CLASS_NAMES)
    for first, second in cinc.NEAR:
        assert table[CLASS_NAMES.index(first), CLASS_NAMES.index(second)] == 0.475
    assert (table == table.T).all() and (table.diagonal() == 1).all()
    assert list(SEVERITY) == list(CLASS_NAMES)


def test_an_archive_of_normal_hearts_scores_0_whatever_is_said() -> None:
    assert score(said("NSR"), said("NSR"), CLASS_NAMES) == 0
    assert score(said("NSR") * 7, said("AF") * 7, CLASS_NAMES) == 0


@given(BITS, st.randoms(use_true_random=False))
def test_the_order_of_the_classes_does_not_matter(labels: np.ndarray, random: object) -> None:
    rng = np.random.default_rng(0)
    outputs, order = rng.random(labels.shape) < 0.3, rng.permutation(26)
    names = [CLASS_NAMES[i] for i in order]
    want = score(labels, outputs, CLASS_NAMES)
    assert score(labels[:, order], outputs[:, order], names) == pytest.approx(want, abs=1e-9)


@given(BITS)
def test_saying_the_labels_scores_1_and_nsr_scores_0(labels: np.ndarray) -> None:
    normal = np.broadcast_to(np.array(CLASS_NAMES) == "NSR", labels.shape)
    possible = (labels & ~normal).any()  # something to gain over normal sinus rhythm
    assert score(labels, labels, CLASS_NAMES) == pytest.approx(1.0 if possible else 0.0)
    assert score(labels, normal, CLASS_NAMES) == 0


def test_a_resample_is_the_score_of_its_recordings() -> None:
    rng = np.random.default_rng(1)
    labels, outputs = rng.random((2, 40, 26)) < 0.1
    counts = rng.integers(0, 4, (5, 40))
    found = ratio(parts(labels, outputs, CLASS_NAMES), counts.astype(float))
    for row, value in zip(counts, found, strict=True):
        repeated = np.repeat(np.arange(40), row)
        assert value == pytest.approx(score(labels[repeated], outputs[repeated], CLASS_NAMES), abs=1e-12)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (CLASS_NAMES[2:], "missing: AF, AFL"),
        ((*CLASS_NAMES, "STEMI"), "not among them: STEMI"),
        (("AF", *CLASS_NAMES), "more than once: AF"),
    ],
)
def test_other_classes_have_no_score(classes: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score(np.zeros((1, len(classes))), np.zeros((1, len(classes))), classes)


@pytest.mark.parametrize(
    ("labels", "outputs", "message"),
    [
        (np.zeros((2, 26)), np.full((2, 26), 0.3), "outputs are 0 or 1; found 0.3"),
        (np.full((2, 26), np.nan), np.zeros((2, 26)), "labels are 0 or 1; found nan"),
        (np.zeros((2, 26)), np.zeros((3, 26)), "labels are 2 x 26 and outputs 3 x 26"),
        (np.zeros((2, 25)), np.zeros((2, 25)), "25 columns for 26 classes"),
        (np.zeros((0, 26)), np.zeros((0, 26)), "found 0 x 26"),
    ],
)
def test_bad_input(labels: np.ndarray, outputs: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score(labels, outputs, CLASS_NAMES)
