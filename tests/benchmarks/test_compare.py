"""`compare` on results that are made up."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import compare
from benchmarks.result import Result
from tests.benchmarks.results import result, seconds, speed

MATRIX = "bf16 matrix rate"
TEN = (10.0, 10.1, 9.9, 10.05, 9.95)
NINE = tuple(0.9 * value for value in TEN)


def kept(folder: Path, *results: Result) -> Path:
    folder.mkdir()
    for one in results:
        (folder / f"{one.stem}.json").write_text(one.text())
    return folder


def ran(*words: str) -> int:
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    return compare.run(parser.parse_args(words))


def words(old: Result, new: Result) -> list[str]:
    return [line.judged.word for line in compare.judge(old, new)]


def test_a_tenth_less_of_the_same_machine_is_a_loss() -> None:
    limits = {MATRIX: (100.0, 99.0)}
    old, new = (result(speed(*values, **{MATRIX: 5.0}), limits=limits) for values in (TEN, NINE))
    assert words(old, new) == ["LOSS"]
    assert words(new, old) == ["gain"]
    assert words(old, old) == ["no change"]
    (line,) = compare.judge(old, new)
    assert line.share is line.judged
    assert line.share.ratio == pytest.approx(0.9)


def test_on_a_machine_that_became_slower_nothing_is_lost() -> None:
    old = result(speed(*TEN, **{MATRIX: 5.0}), limits={MATRIX: (100.0, 99.0)})
    new = result(speed(*NINE, **{MATRIX: 5.0}), limits={MATRIX: (90.0, 89.5)})
    (line,) = compare.judge(old, new)
    assert (line.speed.ratio, line.judged.ratio) == (pytest.approx(0.9), pytest.approx(1.0))
    assert line.judged.word == "no change"


def test_where_the_limit_drifted_by_more_than_is_lost_nothing_is_known() -> None:
    old = result(speed(*TEN, **{MATRIX: 5.0}), limits={MATRIX: (100.0, 80.0)})
    new = result(speed(*NINE, **{MATRIX: 5.0}), limits={MATRIX: (100.0, 100.0)})
    (line,) = compare.judge(old, new)
    assert (line.judged.floor, line.judged.word) == (pytest.approx(0.2), "no change")


def test_more_seconds_are_a_loss() -> None:
    old, new = result(seconds(*NINE)), result(seconds(*TEN))
    assert words(old, new) == ["LOSS"]
    assert compare.judge(old, new)[0].speed.ratio == pytest.approx(0.9)


def test_on_other_hardware_only_shares_are_compared() -> None:
    def on(slug: str, rate: float) -> Result:
        both = (speed(*(rate * value for value in TEN), **{MATRIX: 5.0}), speed(*TEN, name="without a limit"))
        return result(*both, limits={MATRIX: (100 * rate, 100 * rate)}, slug=slug)

    assert [line.name for line in compare.judge(on("a-2cpu", 1.0), on("h200", 20.0))] == ["ours"]
    assert words(on("a-2cpu", 1.0), on("h200", 20.0)) == ["no change"]


def test_peers_are_not_judged() -> None:
    old, new = (result(speed(*values, name="peer", ours=False)) for values in (TEN, NINE))
    assert compare.judge(old, new) == []


class TestTheCommand:
    def test_folders_and_files(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        old = kept(tmp_path / "old", result(speed(*TEN)), result(speed(*TEN), name="loader"))
        new = kept(tmp_path / "new", result(speed(*NINE)), result(speed(*TEN), name="shard"))
        assert ran(str(old), str(new)) == 1
        said = capsys.readouterr().out
        assert "## step-base: 0123abc, a-2cpu, 2026-11-20 -> 0123abc, a-2cpu, 2026-11-20" in said
        assert "| ours | 0.900 (0.88" in said
        assert f"only in {old}: loader\nonly in {new}: shard\n1 loss\n" in said
        assert ran(str(old), str(old)) == 0
        assert capsys.readouterr().out.endswith("0 losses\n")
        file = "step-base-a-2cpu-2026-11-20.json"
        assert ran(str(new / file), str(old / file)) == 0

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (["OLD"], "takes two results, OLD and NEW, not 1"),
            (["OLD", "missing.json"], "missing.json: there is no such result"),
            (["OLD", "OTHER"], "have no benchmark in common"),
            (["OLD", "BROKEN"], "is no result of a benchmark in format 2"),
            (["OLD", "OLD", "--worktrees", "OLD", "OLD"], "two ways to compare: give one"),
            (["--worktrees", "OLD", "OLD"], "should be a worktree of this project"),
            (["--worktrees", "OLD", "OLD", "--turns", "3"], "--turns 3 should be 10 or more"),
        ],
    )
    def test_bad_input(self, tmp_path: Path, given: list[str], said: str) -> None:
        (tmp_path / "BROKEN.json").write_text('{"figures": {}}')
        places = {"OLD": kept(tmp_path / "old", result(speed(*TEN))), "BROKEN": tmp_path / "BROKEN.json"}
        places["OTHER"] = kept(tmp_path / "other", result(speed(*TEN), name="shard"))
        with pytest.raises(ValueError, match=re.escape(said)):
            ran(*(str(places.get(word, word)) for word in given))


def test_bad_input_is_one_line_and_no_trace() -> None:
    words = [sys.executable, "-m", "benchmarks", "compare", "nowhere.json", "nowhere.json"]
    ended = subprocess.run(words, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == "error: nowhere.json: there is no such result"
    assert "Traceback" not in ended.stderr
