import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from data_tools.labels import CLASS_NAMES
from engine.scoring import cinc
from engine.scoring.classification import THRESHOLDS, curves, decide, f1, macro, tune
from tests.engine.scoring.conftest import Cases

# Few values, so that ties abound.
SCORED = st.integers(1, 15).flatmap(
    lambda n: st.tuples(arrays(bool, (n, 2)), arrays(float, (n, 2), elements=st.integers(-3, 3).map(float)))
)


def pair_count(labels: np.ndarray, outputs: np.ndarray) -> float:
    """The chance that a positive stands above a negative, one that stands beside counting half."""
    wins = [float(p > n) + float(p == n) / 2 for p in outputs[labels] for n in outputs[~labels]]
    return float(np.mean(wins)) if wins else np.nan


def average_precision(labels: np.ndarray, outputs: np.ndarray) -> float:
    """The mean over the positives of the precision at their own output as the threshold."""
    precisions = [labels[outputs >= own].mean() for own in outputs[labels]]
    return float(np.mean(precisions)) if precisions else np.nan


@pytest.mark.oracle
@pytest.mark.parametrize("case", ["random26", "perfect", "always_nsr", "all_zero"])
def test_the_figures_are_those_of_the_official_program(oracle: Cases, case: str) -> None:
    given_, expected = oracle[case]
    found = curves(given_["labels"], given_["scalar"])
    assert float(macro(found.auroc).mean) == pytest.approx(expected["auroc"], abs=1e-12)
    assert float(macro(found.auprc).mean) == pytest.approx(expected["auprc"], abs=1e-12)
    binary = macro(f1(given_["labels"], given_["binary"]))
    assert float(binary.mean) == pytest.approx(expected["f_measure"], abs=1e-12)


@given(SCORED)
def test_areas_are_counts_of_pairs(scored: tuple[np.ndarray, np.ndarray]) -> None:
    labels, outputs = scored
    found = curves(labels, outputs)
    for column in range(2):
        one = labels[:, column], outputs[:, column]
        assert found.auroc[column] == pytest.approx(pair_count(*one), abs=1e-12, nan_ok=True)
        assert found.auprc[column] == pytest.approx(average_precision(*one), abs=1e-12, nan_ok=True)


@given(SCORED)
def test_only_the_order_of_the_outputs_counts(scored: tuple[np.ndarray, np.ndarray]) -> None:
    labels, outputs = scored
    bent = curves(labels, np.arctan(outputs) * 7 - 2)
    assert np.array_equal(bent.auroc, curves(labels, outputs).auroc, equal_nan=True)
    assert np.array_equal(bent.auprc, curves(labels, outputs).auprc, equal_nan=True)
    turned = curves(labels, -outputs).auroc
    assert turned == pytest.approx(1 - curves(labels, outputs).auroc, abs=1e-12, nan_ok=True)


@given(SCORED, st.data())
def test_a_resample_is_the_figure_of_its_segments(scored: tuple[np.ndarray, np.ndarray], data: st.DataObject) -> None:
    labels, outputs = scored
    counts = data.draw(arrays(np.int64, (3, len(labels)), elements=st.integers(0, 3)))
    found = curves(labels, outputs, counts.astype(float))
    binary = f1(labels, outputs > 0, counts.astype(float))
    for row, repeats in enumerate(counts):
        if repeats.sum():
            some = np.repeat(np.arange(len(labels)), repeats)
            alone = curves(labels[some], outputs[some])
            assert found.auroc[row] == pytest.approx(alone.auroc, abs=1e-12, nan_ok=True)
            assert found.auprc[row] == pytest.approx(alone.auprc, abs=1e-12, nan_ok=True)
            assert binary[row] == pytest.approx(f1(labels[some], outputs[some] > 0), nan_ok=True)


def test_many_resamples_are_done_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels, outputs = rng.random((30, 3)) < 0.3, rng.integers(0, 9, (30, 3)).astype(float)
    counts = rng.integers(0, 3, (50, 30)).astype(float)
    whole = curves(labels, outputs, counts)
    monkeypatch.setattr("engine.scoring.classification._AT_ONCE", 100)  # three resamples
    assert np.array_equal(np.array(curves(labels, outputs, counts)), np.array(whole), equal_nan=True)


def test_f1_by_hand() -> None:
    labels = [[1, 0], [1, 1], [0, 0], [1, 0]]
    said = [[1, 1], [0, 1], [1, 1], [1, 0]]  # 2 right, 1 too many, 1 missed; 1 right, 2 too many
    assert f1(labels, said).tolist() == pytest.approx([4 / 6, 2 / 4])


def test_classes_that_define_no_figure_are_left_out_of_the_mean() -> None:
    """No positive; no negative; both; no positive, and none said."""
    labels = np.array([[0, 1, 1, 0], [0, 1, 0, 0]])
    outputs = np.array([[0.9, 0.1, 0.2, 0.3], [0.8, 0.6, 0.4, 0.2]])
    found = curves(labels, outputs)
    assert found.auroc == pytest.approx([np.nan, np.nan, 0, np.nan], nan_ok=True)
    assert found.auprc == pytest.approx([np.nan, 1, 0.5, np.nan], nan_ok=True)
    assert f1(labels, outputs > 0.5) == pytest.approx([0, 2 / 3, 0, np.nan], nan_ok=True)
    assert macro(found.auroc) == (0, 1)
    assert macro(found.auprc) == (0.75, 2)
    nothing = macro(np.full((2, 3), np.nan))
    assert np.isnan(nothing.mean).all() and nothing.classes.tolist() == [0, 0]


def test_one_output_for_all_is_chance() -> None:
    labels = np.arange(40).reshape(10, 4) % 3 == 0
    found = curves(labels, np.full(labels.shape, 0.7))
    assert found.auroc.tolist() == [0.5] * 4
    assert found.auprc == pytest.approx(labels.mean(0))


def test_a_threshold_is_not_above_itself() -> None:
    assert decide([[0.5, 0.5001, 0.2]]).tolist() == [[False, True, False]]
    assert decide([[0.5, 0.5001, 0.2]], 0.2).tolist() == [[True, True, False]]


def test_the_tuned_threshold_is_the_best_of_the_grid() -> None:
    rng = np.random.default_rng(2)
    labels = rng.random((60, 26)) < 0.08
    probabilities = np.clip(0.2 * labels + rng.random(labels.shape) * 0.25, 0, 1)
    scores = [cinc.score(labels, probabilities > t, CLASS_NAMES) for t in THRESHOLDS]
    tuned = tune(labels, probabilities, CLASS_NAMES)
    assert scores[round(tuned * 100) - 1] == pytest.approx(max(scores), abs=1e-12)
    assert max(scores) > scores[49] + 0.1  # where 0.5 says nothing at all


def test_of_equally_good_thresholds_the_nearest_to_half() -> None:
    labels = np.eye(26, dtype=bool)
    assert tune(labels, np.where(labels, 0.305, 0.1), CLASS_NAMES) == 0.30
    assert tune(labels, np.where(labels, 0.9, 0.1), CLASS_NAMES) == 0.50
    assert tune(labels, np.where(labels, 0.9, 0.713), CLASS_NAMES) == 0.72


def test_broken_outputs_are_counted() -> None:
    outputs = np.zeros((5, 2))
    outputs[1] = outputs[3, 0] = np.nan
    outputs[4, 1] = np.inf
    for of in (lambda: curves(np.zeros((5, 2)), outputs), lambda: tune(np.zeros((5, 2)), outputs, CLASS_NAMES)):
        with pytest.raises(ValueError, match="the outputs of 3 of 5 segments are not finite"):
            of()


def test_logits_are_no_probabilities() -> None:
    with pytest.raises(ValueError, match="3 of 4 outputs are no probabilities"):
        decide([[-0.1, 1.2], [0.5, np.nan]])


@pytest.mark.parametrize(
    ("labels", "outputs", "resamples", "message"),
    [
        (np.full((2, 3), 2), np.zeros((2, 3)), None, "labels are 0 or 1; found 2"),
        (np.zeros((2, 3)), np.zeros((2, 4)), None, "labels are 2 x 3 and outputs 2 x 4"),
        (np.zeros(3), np.zeros(3), None, "at least one each; found 3"),
        (np.zeros((2, 3)), np.zeros((2, 3)), np.ones((5, 3)), "resamples are \\[b, 2\\]"),
    ],
)
def test_bad_input(labels: np.ndarray, outputs: np.ndarray, resamples: np.ndarray | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        curves(labels, outputs, resamples)
    with pytest.raises(ValueError, match=message):
        f1(labels, outputs, resamples)
