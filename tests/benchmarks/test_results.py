"""Results: as files, as pages, in the index, over commits."""

import importlib.util
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import index, limits, report, track
from benchmarks import result as results
from benchmarks.result import parse
from benchmarks.wording import scaled
from tests.benchmarks.results import result, seconds, speed

ROOT = Path(__file__).parents[2]
MATRIX, MEMORY = "bf16 matrix rate", "memory copy"


def test_a_result_is_the_same_after_its_file() -> None:
    measures = speed(3.0, 4.5, name="one", **{MATRIX: 1e11}), seconds(0.1), speed(1.0, name="peer", ours=False)
    was = result(*measures, limits={MATRIX: (4e11, 5e11)})
    found = parse(was.text(), "file")
    assert found.text() == was.text()
    assert (found.stem, found.measures[0].median) == ("step-base-a-2cpu-2026-11-20", 3.75)
    assert found.limits[MATRIX].best == 5e11


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', "nothing"])
def test_what_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="result.json is no result of a benchmark"):
        parse(text, "result.json")


def test_shares_of_a_rate_and_of_a_time() -> None:
    """3 segments/s of 100 FLOP each; 50 B in a quarter of a second; a limit that was not measured is none."""
    one = result(
        speed(2.0, 3.0, 4.0, **{MATRIX: 100.0, "all-reduce": 1.0}),
        seconds(0.25, **{MEMORY: 50.0}),
        limits={MATRIX: (400.0, 600.0), MEMORY: (1000.0, 800.0)},
    )
    assert one.shares(one.measures[0]) == {MATRIX: 0.5}
    assert one.shares(one.measures[1]) == {MEMORY: 0.2}


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        (
            {MATRIX: 0.751, MEMORY: 0.2},
            f"What limits it: the {MATRIX}, of which `x` has 75.1% (beside it: {MEMORY} 20.0%).",
        ),
        (
            {MATRIX: 0.1, MEMORY: 0.5},
            f"What limits it: the {MEMORY}, of which `x` has 50.0% (beside it: {MATRIX} 10.0%).",
        ),
        (
            {MATRIX: 0.4999},
            f"What limits it: none of the limits measured; `x` is nearest to the {MATRIX}, with 50.0%."
            " The rest is overhead and waiting.",
        ),
        ({}, "What limits it: no limit was measured beside it."),
    ],
)
def test_what_limits_is_said_from_the_numbers(shares: dict[str, float], expected: str) -> None:
    assert limits.verdict(shares, "x") == expected


def test_a_report_has_every_figure_as_a_share_and_ends_with_what_limits(tmp_path: Path) -> None:
    one = result(
        speed(2.0, 3.0, 4.0, **{MATRIX: 1e9}), speed(1.0, name="peer", ours=False), limits={MATRIX: (4e9, 3e9)}
    )
    page = report.keep(tmp_path, one, ["| own | table |"]).read_text()
    assert "| own | table |" in page
    assert "| ours | 3.000 (2.000 to 4.000) segments/s | 75.0% |" in page
    assert "| peer | 1.000 segments/s | - |" in page
    assert f"| {MATRIX} | 4.000 GFLOP/s, 3.000 GFLOP/s |" in page
    assert page.endswith(f"What limits it: the {MATRIX}, of which `ours` has 75.0%.\n")
    assert (tmp_path / f"{one.stem}.png").read_bytes().startswith(b"\x89PNG")
    assert results.all_of(tmp_path) == [parse(one.text(), "")]


@pytest.mark.parametrize(
    ("processor", "cores", "gpus", "expected"),
    [
        ("AMD EPYC", 2, [], "amd-epyc-2cpu"),
        ("AMD EPYC 7763 64-Core Processor", 64, [], "amd-epyc-7763-64cpu"),
        ("Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz", 8, [], "intel-xeon-platinum-8480c-8cpu"),
        ("AMD EPYC", 16, ["NVIDIA H200"], "nvidia-h200"),
        ("AMD EPYC", 192, ["NVIDIA H100 80GB HBM3"] * 8, "8x-nvidia-h100-80gb-hbm3"),
    ],
)
def test_hardware_has_a_short_name(processor: str, cores: int, gpus: list[str], expected: str) -> None:
    assert report.slug(processor, cores, gpus) == expected


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([4.364e11, 4.228e11], "FLOP/s", "429.6 (422.8 to 436.4) GFLOP/s"),
        ([989e12], "FLOP/s", "989.0 TFLOP/s"),
        ([3.5e6], "B/s", "3.500 MB/s"),
        ([24935.9, 24149.0, 25417.0], "pairs/s", "24,936 (24,149 to 25,417) pairs/s"),
        ([0.12], "s", "0.120 s"),
    ],
)
def test_figures_are_said_with_four_digits(values: list[float], unit: str, expected: str) -> None:
    assert scaled(values, unit) == expected


class TestTheIndex:
    def test_the_committed_one_is_what_the_results_give(self, tmp_path: Path) -> None:
        committed = ROOT / "benchmarks" / "README.md"
        page = tmp_path / "benchmarks" / "README.md"
        page.parent.mkdir()
        page.write_text(committed.read_text())
        copy = page.parent / "results"
        copy.mkdir()
        for path in (committed.parent / "results").glob("*.json"):
            (copy / path.name).write_bytes(path.read_bytes())
        index.write(copy, page)
        assert page.read_text() == committed.read_text(), "python -m benchmarks index writes it"

    def test_results_are_named_as_they_say(self) -> None:
        """Every one with its page, and its plot where there is something to draw."""
        folder = ROOT / "benchmarks" / "results"
        found = results.all_of(folder)
        for one in found:
            assert (folder / f"{one.stem}.json").is_file()
            assert (folder / f"{one.stem}.png").is_file() == bool(one.measures)
            assert (folder / f"{one.stem}.md").is_file()

    def test_its_lines(self) -> None:
        one = result(speed(2.0, 3.0, 4.0, **{MATRIX: 100.0}), limits={MATRIX: (400.0,)})
        assert index.lines([one, result(name="believable")], "results")[2:] == [
            "| [step-base, 2026-11-20](results/step-base-a-2cpu-2026-11-20.md) | a-2cpu | 0123abc | ours |"
            f" 3.000 (2.000 to 4.000) segments/s | 75.0% of the {MATRIX} |",
            "| [believable, 2026-11-20](results/believable-a-2cpu-2026-11-20.md) | a-2cpu | 0123abc | - | - | - |",
        ]

    def test_a_page_without_a_place_for_it_is_refused(self, tmp_path: Path) -> None:
        page = tmp_path / "README.md"
        page.write_text("nothing")
        with pytest.raises(ValueError, match="should hold the lines <!-- results"):
            index.write(tmp_path, page)
        assert page.read_text() == "nothing"


def test_the_track_is_in_the_order_of_commits_and_has_each_once() -> None:
    found = [
        result(speed(3.0, 5.0), commit="b"),
        result(speed(1.0), commit="a"),
        result(speed(2.0, 2.5, 4.0), commit="b"),  # the newest of b
        result(commit="a", name="believable"),
    ]
    times = {"a": datetime(2026, 1, 1, tzinfo=UTC), "b": datetime(2026, 1, 2, tzinfo=UTC)}
    drawn = track.points(found, times)
    assert [(point.commit, point.median, point.low, point.high) for point in drawn] == [
        ("a", 1.0, 1.0, 1.0),
        ("b", 2.5, 2.0, 4.0),
    ]


def test_every_benchmark_of_the_suite_takes_what_all_gives_it() -> None:
    import argparse

    spec = importlib.util.find_spec("benchmarks.__main__")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, benchmark in module.SUITE.items():
        parser = argparse.ArgumentParser()
        benchmark.add_arguments(parser)
        chosen = parser.parse_args(["--quick", "--out", "x"] + (["--size", "tiny"] if name in module._SIZED else []))
        assert (chosen.quick, chosen.out) == (True, Path("x"))
        assert benchmark.__doc__
