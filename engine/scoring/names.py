"""What the figures of an evaluation are called, and how one is written."""

from collections.abc import Callable, Mapping

FIGURES = {
    "score": "CinC score",
    "score_tuned": "CinC score, tuned",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "f1": "F1",
    "f1_tuned": "F1, tuned",
    "rank1": "rank-1",
    "rank5": "rank-5",
    "equal_error_rate": "equal error rate",
}
OF_CLASS = ("auroc", "auprc", "f1", "f1_tuned")


def with_interval(figure: Mapping[str, float | None] | None, decimals: Callable[[float], str] = "{:.3f}".format) -> str:
    """0.618 (0.601 to 0.633)"""
    if figure is None or figure["value"] is None:
        return "-"
    low, high = figure["low"], figure["high"]
    interval = "" if low is None or high is None else f" ({decimals(low)} to {decimals(high)})"
    return decimals(figure["value"]) + interval
