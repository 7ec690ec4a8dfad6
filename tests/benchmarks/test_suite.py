"""The suite as a user runs it: seven minutes on two cores."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import result as results
from benchmarks.__main__ import SUITE

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_benchmark_ends_with_its_page_its_figures_and_its_plot(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "all", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = results.all_of(tmp_path)
    assert {one.benchmark.partition("-")[0] for one in found} == set(SUITE)
    for one in found:
        assert one.measures and all(measure.repetitions for measure in one.measures)
        for suffix in (".md", ".png"):
            assert (tmp_path / f"{one.stem}{suffix}").stat().st_size > 0
