import pytest

from engine.data.chance import LEADS
from engine.scoring.leads import LEAD_SETS, name_of


def test_the_papers_sets() -> None:
    assert {count: " ".join(leads) for count, leads in LEAD_SETS.items()} == {
        12: "I II III aVR aVL aVF V1 V2 V3 V4 V5 V6",
        6: "I II III aVR aVL aVF",
        3: "I II V2",
        2: "I II",
        1: "I",
    }
    for count, leads in LEAD_SETS.items():
        assert len(leads) == count
        assert sorted(leads, key=LEADS.index) == list(leads)


def test_names() -> None:
    assert [name_of(leads) for leads in LEAD_SETS.values()] == ["12", "6", "3", "2", "1"]
    assert name_of(["V2", "II", "I"]) == "3"
    assert name_of(["V5", "I"]) == "I+V5"
    assert name_of(["II"]) == "II"


@pytest.mark.parametrize("leads", [[], ["I", "I"], ["I", "V7"], ["AVR"]])
def test_no_such_leads(leads: list[str]) -> None:
    with pytest.raises(ValueError, match="leads are some of I, II"):
        name_of(leads)
