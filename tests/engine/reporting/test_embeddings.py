"""Neighbours and principal components of vectors whose answer is known."""

from pathlib import Path

import numpy as np
import pytest

from engine.data.dataset import open_dataset
from engine.reporting.embeddings import embed, neighbours, one_of_the_commonest, principal_components


def test_neighbours_by_cosine() -> None:
    gallery = np.array([[1.0, 0.0], [0.0, 5.0], [3.0, 3.0]])
    probe = np.array([[2.0, 0.1], [0.1, 0.2]])
    found = neighbours(gallery, np.array(["a", "b", "c"]), probe, np.array(["a", "c"]), 2)
    assert found.nearest.tolist() == [[0, 2], [2, 1]]
    assert found.own_rank.tolist() == [1, 1]
    assert found.cosine[1] == pytest.approx([0.3 / np.sqrt(0.05) / np.sqrt(2), 0.2 / np.sqrt(0.05)])
    assert found.own == pytest.approx(found.cosine[:, 0])


def test_zeros_are_far_from_everything() -> None:
    found = neighbours(np.array([[0.0, 0.0], [0.0, 1.0]]), np.arange(2), np.array([[0.0, 1e-200]]), np.array([1]), 2)
    assert found.nearest.tolist() == [[1, 0]] and found.cosine.tolist() == [[1, 0]]


def test_the_nearest_of_a_persons_entries_counts() -> None:
    gallery = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found = neighbours(gallery, np.array(["a", "b", "a"]), np.array([[0.2, 1.0]]), np.array(["a"]), 3)
    assert found.nearest.tolist() == [[1, 2, 0]]
    assert found.own_rank.tolist() == [2]
    assert found.own[0] == pytest.approx(1.2 / np.sqrt(1.04) / np.sqrt(2))


def test_components_are_those_of_largest_variance() -> None:
    random = np.random.default_rng(0)
    turn = np.linalg.qr(random.normal(size=(5, 5)))[0]
    hidden = random.normal(size=(4000, 5)) * [1, 10, 1, 4, 1]
    found = principal_components(hidden @ turn.T + 7)
    first, second = hidden[:, 1] - hidden[:, 1].mean(), hidden[:, 3] - hidden[:, 3].mean()
    for place, wanted in zip(found.places.T, (first, second), strict=True):
        assert abs(np.corrcoef(place, wanted)[0, 1]) > 0.999
        assert place[np.abs(place).argmax()] > 0
    assert found.explained == pytest.approx((100 / 119, 16 / 119), rel=0.05)


def test_the_commonest_classes() -> None:
    labels = np.array([[1, 0, 0], [1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    names, found = one_of_the_commonest(labels, ["x", "y", "z"], 2)
    assert names == ["x", "y"]
    assert found.tolist() == [0, 0, 1, -1, -1, 1, 0, -1]
    assert one_of_the_commonest(labels[-1:], ["x", "y", "z"], 2)[0] == []
    assert one_of_the_commonest(labels[-1:], ["x", "y", "z"], 2)[1].tolist() == [-1]


def test_embeddings_of_some_are_those_of_all(hearts: Path, runs: list[Path]) -> None:
    dataset = open_dataset([str(hearts)], "diagnosis-test")
    whole = embed(runs[0] / "model", dataset, np.arange(len(dataset)))
    some = np.array([5, 2, 2, len(dataset) - 1])
    assert whole.shape == (len(dataset), 128)
    np.testing.assert_allclose(embed(runs[0] / "model", dataset, some), whole[some], atol=1e-5)
