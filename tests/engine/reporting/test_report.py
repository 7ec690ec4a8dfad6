"""python -m engine.report: what stands in the page, and what is said where something is missing."""

import json
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.reporting import census
from tests.engine.reporting.conftest import pretraining, run

SECTIONS = [
    *("Curves", "Evaluation", "Score against lead set", "Nearest neighbours", "Principal components"),
    *("Augmentations", "Dataset", "Configuration"),
]


class Page(HTMLParser):
    """Headings, and tables as rows of cells."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.headings: list[str] = []
        self.labels: list[str] = []
        self._rows: list[list[str]] = []
        self._in: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, kind: str, attributes: list[tuple[str, str | None]]) -> None:
        if kind in ("meta", "link"):
            return
        self._in.append(kind)
        if kind == "table":
            self._rows = []
        elif kind == "tr":
            self._rows.append([])
        elif kind in ("td", "th"):
            self._rows[-1].append("")
        elif kind == "h2":
            self.headings.append("")
        elif kind == "svg" and (label := dict(attributes).get("aria-label")):
            self.labels.append(label)

    def handle_endtag(self, kind: str) -> None:
        assert self._in.pop() == kind

    def handle_data(self, data: str) -> None:
        if "caption" in self._in:
            self.tables[data] = self._rows
        elif {"td", "th"} & set(self._in):
            self._rows[-1][-1] += data
        elif "h2" in self._in:
            self.headings[-1] += data


def test_every_section_is_there(page: Path) -> None:
    assert Page(page).headings == SECTIONS
    assert page.stat().st_size < 5e6


def test_it_names_nothing_of_a_network(page: Path) -> None:
    assert not re.findall(r"https?:|//[a-z]|@import|<img|<iframe|url\(", page.read_text().replace("</", ""))


def test_scores_stand_beside_the_papers(page: Path) -> None:
    tables = Page(page).tables
    assert tables["CinC score of segments at the threshold 0.5, by leads"] == [
        ["pre-training", "", "12", "1"],
        ["W2V+CMSC+RLM", "here", ".710 ± .127 (n = 2)", ".500 (n = 1)"],  # t(1; 0.975) * 0.01 = 0.127
        ["", "paper", ".732 ± .004", ".554 ± .016"],
        ["Random Init.", "here", ".600 (n = 1)", "-"],
        ["", "paper", ".618 ± .002", "-"],
    ]
    assert tables["Rank-1 accuracy, by leads"][1:] == [
        ["W2V+CMSC+RLM", "here", ".400"],
        ["", "paper", ".577 ± .006"],
    ]
    assert tables["Segments, by class"][1] == ["NSR", "7", ".900", "-", ".500", ".600"]


def test_curves_in_numbers(page: Path) -> None:
    rows = {row[0]: row[1:] for row in Page(page).tables["First and last report, and last validation"]}
    assert rows["Loss, all terms"] == ["0.04", "0.01", "-", "-"]  # of identification, the last of the kinds
    assert rows["Rank-1, validation"] == ["-", "-", "20.00 %", "-"]
    labels = Page(page).labels
    assert "Local loss. from 4.5 at update 10 to 3.6 at update 100, by chance 4.5" in labels
    accuracy = "Local accuracy. from 0.025 at update 10 to 0.25 at update 100, by chance"
    assert f"{accuracy} {math.exp(-4.5):.3g}" in labels
    assert "Perplexity of the codes chosen. from 12 at update 10 to 102 at update 100, by chance 640" in labels


def test_a_dataset_of_the_home(hearts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(hearts.parent))
    assert census.read(f"~/{hearts.name}").crops == census.read(str(hearts)).crops


def test_the_census_counts_what_the_tables_hold(page: Path, hearts: Path) -> None:
    tables = Page(page).tables
    crops = pq.read_table(hearts / "crops.parquet")
    _, *cohorts = tables["Crops of each cohort, by split"]
    assert sum(int(cell.replace(",", "").replace("-", "0")) for row in cohorts for cell in row[1:]) == len(crops)
    views = json.loads((hearts / "dataset.json").read_text())["views"]
    assert {row[0]: int(row[1].replace(",", "")) for row in tables["Rows of each view"][1:]} == views
    rejected = pq.read_table(hearts / "rejected.parquet")
    assert sum(int(row[2]) for row in tables.get("Rejected: crops, or whole recordings", [])[1:]) == len(rejected)
    of_class = {row[0]: row[1] for row in tables["Recordings of each class"][1:]}
    labels = dict(zip(*(crops[name].to_pylist() for name in ("record", "classes")), strict=True))
    assert of_class["AF"] == f"{sum(classes & 1 for classes in labels.values()):,}"
    assert of_class["without a class"] == f"{sum(classes == 0 for classes in labels.values()):,}"


def test_settings_that_differ(page: Path, runs: list[Path]) -> None:
    tables = Page(page).tables
    changed = {row[0]: row[1:] for row in tables["What differs from the defaults"][1:]}
    assert changed["model.size"] == ["tiny", "base"]
    assert set(changed) == {"data.path", "run.dir", "model.size"}
    assert ["train.lr", "5e-05"] in tables["Settings of pretrained"]


def test_the_same_runs_give_the_same_page(
    page: Path, runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, runs[0], "--compare", *runs[1:], "--out", tmp_path / "again.html") == 0
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_a_run_that_has_just_begun(
    hearts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = pretraining(tmp_path / "begun", hearts)
    shutil.rmtree(begun / "model")
    (begun / "metrics.jsonl").write_text('{"kind": "train", "upd')
    (begun / "status.json").write_text('{"status": "running"}')
    assert run(monkeypatch, begun, "--out", tmp_path / "report.html") == 0
    assert Page(tmp_path / "report.html").headings == ["Augmentations", "Dataset", "Configuration", "Left out"]
    said = capsys.readouterr().out
    assert "left out: Curves: no update has been reported yet" in said
    assert "left out: Nearest neighbours: no run has finished" in said


def test_a_run_that_failed_before_its_first_update(
    hearts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = pretraining(tmp_path / "failed", hearts)
    shutil.rmtree(failed / "model")
    (failed / "metrics.jsonl").unlink()
    (failed / "status.json").write_text('{"status": "failed", "reason": "ValueError: no room", "update": null}')
    assert run(monkeypatch, failed, "--out", tmp_path / "report.html") == 0
    assert "<dd>failed<small>at update 0: ValueError: no room</small></dd>" in (tmp_path / "report.html").read_text()


def test_what_was_no_number_is_left_out(hearts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = pretraining(tmp_path / "odd", hearts)
    shutil.rmtree(odd / "model")
    lines = [json.loads(line) for line in (odd / "metrics.jsonl").read_text().splitlines()]
    lines[1] |= {"local": None, "segments_per_second": None}
    lines[2]["skipped"] = lines[9]["skipped"] = 3
    (odd / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run(monkeypatch, odd, "--out", tmp_path / "report.html") == 0
    said = (tmp_path / "report.html").read_text()
    assert "3 updates were skipped" in said
    assert '"name":"training","colour":0,"x":[10,30,' in said.replace(".0", "").replace("&quot;", '"')


def test_a_dataset_that_is_no_longer_there(
    hearts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.symlink_to(hearts)
    alone = pretraining(tmp_path / "alone", data)
    data.unlink()
    assert run(monkeypatch, alone, "--out", tmp_path / "report.html") == 0
    assert Page(tmp_path / "report.html").headings == ["Curves", "Configuration", "Left out"]
    assert f"Dataset: {data}: there is no such folder" in capsys.readouterr().out
    assert f"{data}: there is no such folder" in (tmp_path / "report.html").read_text()


def test_a_name_is_never_markup(hearts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = pretraining(tmp_path / "<b>&'\"", hearts)
    shutil.rmtree(odd / "model")
    assert run(monkeypatch, odd, "--out", tmp_path / "report.html") == 0
    assert "<h1>&lt;b&gt;&amp;'\"</h1>" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["{tmp}/nowhere"], "is no run: there is no such folder"),
        (["{tmp}"], "is no run: it has no config.yaml"),
        (["{run}", "--compare", "{tmp}"], "is no run: it has no config.yaml"),
        (["{run}", "--compare", "{run}/."], "is named twice"),
        (["{broken}"], "config.yaml does not hold the settings of a run"),
        (["{run}", "--out", "{tmp}/nowhere/report.html"], "should be a file, in a folder that is there"),
        (["{run}", "--out", "{tmp}"], "should be a file, in a folder that is there"),
    ],
)
def test_what_cannot_work_is_one_line(
    given: list[str],
    said: str,
    runs: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.yaml").write_text("train: [1, 2\n")
    places = {"tmp": tmp_path, "run": runs[0], "broken": broken}
    out = [] if "--out" in given else ["--out", tmp_path / "report.html"]
    assert run(monkeypatch, *(one.format(**places) for one in given), *out) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(rf"error: .*{re.escape(said)}.*\n", error)
    assert not (tmp_path / "report.html").exists()


def test_an_evaluation_that_is_none(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(runs[1], tmp_path / "copy")
    (copy / "evaluation.json").write_text('{"task": "diagnosis"}')
    assert run(monkeypatch, copy, "--out", tmp_path / "report.html") == 1
    assert "evaluation.json is no evaluation as engine.evaluate --json writes it" in capsys.readouterr().err
