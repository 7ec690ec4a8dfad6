"""The paper's tables, as they are printed there."""

from engine.scoring.leads import LEAD_SETS
from engine.scoring.published import FRESH, NAMES, decimals, figures, score_of, spoken


def test_figures_of_each_table() -> None:
    found = figures()
    assert found[1, FRESH, "diagnosis", 12] == (0.618, 0.002)
    assert found[2, "w2v", "identification", 1] == (0.327, 0.0)
    assert found[2, "w2v_cmsc_rlm", "diagnosis", 1] is None
    assert found[3, "cmsc_rlm", "diagnosis", 6] == (0.615, 0.003)
    assert found[4, "w2v_cmsc_physio3", "identification", 1] == (0.249, 0.009)
    assert len(found) == (7 + 5 + 4 + 5) * 2 * len(LEAD_SETS)
    assert {row for _, row, _, _ in found} == set(NAMES)


def test_a_figure_reads_as_it_is_printed() -> None:
    assert spoken(figures()[1, "w2v_cmsc_rlm", "identification", 3]) == ".548 ± .003"
    assert spoken((0.5, None)) == ".500"
    assert spoken(None) == "-"
    assert decimals(-0.0421) == "-.042"
    assert decimals(1.0) == "1.000"


def test_the_score_of_an_evaluation_is_the_one_the_paper_reports() -> None:
    score = {"value": 0.7, "low": 0.6, "high": 0.8}
    other = {"value": 0.1, "low": None, "high": None}
    of_segments = {"figures": {"score": score, "score_tuned": other}}
    assert score_of({"task": "diagnosis", "segments": of_segments, "records": {"figures": {"score": other}}}) == score
    assert score_of({"task": "identification", "figures": {"rank1": score, "rank5": other}}) == score
