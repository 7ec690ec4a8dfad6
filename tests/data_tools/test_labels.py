import csv
from pathlib import Path

import pytest

from data_tools.labels import CLASS_NAMES, CLASSES, NO_CODE, class_names, read_dx


@pytest.mark.realdata
def test_classes_are_those_of_the_challenge_in_its_order(realdata: Path) -> None:
    with (realdata / "cinc2021" / "weights.csv").open() as file:
        codes = next(csv.reader(file))[1:]
    with (realdata / "cinc2021" / "weights_abbreviations.csv").open() as file:
        names = next(csv.reader(file))[1:]
    assert ["|".join(c.codes) for c in CLASSES] == codes
    assert list(CLASS_NAMES) == names


def test_merged_pairs_are_one_class() -> None:
    assert read_dx("713427006") == read_dx("59118001")
    assert class_names(read_dx("59118001,713427006").classes) == ["CRBBB|RBBB"]
    assert len(CLASSES) == 26
    assert sum(len(c.codes) for c in CLASSES) == 30


def test_stray_commas_repeats_and_unknown_codes() -> None:
    found = read_dx("426177001,,164934002, 426177001,123456789,")
    assert class_names(found.classes) == ["SB", "TAb"]
    assert found.repeated == 1
    assert found.other == ("123456789",)


def test_free_text_is_counted_but_never_repeated() -> None:
    assert read_dx("seen by Dr Smith").other == (NO_CODE,)


def test_no_label() -> None:
    assert read_dx("") == (0, (), 0)
