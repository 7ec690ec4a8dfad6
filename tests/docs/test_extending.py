"""docs/extending.md: every example is applied to a copy of the code, and run there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.docs.pages import ROOT
from tests.recordings import noise, write

EXAMPLES = ("cohort", "augmentation", "objective", "encoder")
# The smallest run there is.
SMALL = ["model.size=tiny", "train.batch=8", "train.contrast_pool=8", "train.updates=2", "log.to=[]"]


def blocks(example: str, language: str) -> list[str]:
    text = re.split(r"^## An? ", (ROOT / "docs" / "extending.md").read_text(), flags=re.MULTILINE)
    (section,) = (part for part in text if part.startswith(f"{example}\n"))
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def changed(example: str) -> list[str]:
    """The lines of its patch that are read: added, taken away, or beside these."""
    (patch,) = blocks(example, "diff")
    return [line for line in patch.splitlines() if not line.startswith(("---", "+++", "@@"))]


def code_with(tmp_path: Path, *examples: str) -> Path:
    """A copy of the code with these patches."""
    for folder in ("data_tools", "engine", "leadwise", "configs"):
        shutil.copytree(ROOT / folder, tmp_path / "code" / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for example in examples:
        (patch,) = blocks(example, "diff")
        # Wherever the lines stand by now: only what is around them has to be the same.
        command = ["git", "apply", "-"]
        outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
        subprocess.run(command, cwd=tmp_path / "code", env=outside, input=patch, text=True, check=True)
    return tmp_path / "code"


def run(code: Path, words: list[str], given: str | None = None) -> str:
    done = subprocess.run(words, cwd=code, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", text)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_short_and_well_written(example: str, tmp_path: Path) -> None:
    assert 0 < len(changed(example)) < 40
    code = code_with(tmp_path, example)
    shutil.copy(ROOT / "pyproject.toml", code)
    for how in (["check"], ["format", "--check"]):
        run(code, [sys.executable, "-m", "ruff", *how, "data_tools", "engine"])


def test_a_cohort(tmp_path: Path) -> None:
    """Its names stay as they are, which those of one's own recordings do not."""
    code = code_with(tmp_path, "cohort")
    for number in range(1, 13):
        write(code / "ecg-arrhythmia" / "WFDBRecords" / "01" / "010", f"JS{number:05d}", noise(number))
    write(code / "ecg-arrhythmia" / "WFDBRecords" / "01" / "010", "mine", noise(99))
    (commands,) = blocks("cohort", "sh")
    for line in commands.splitlines():
        run(code, [sys.executable, *shlex.split(line)[1:]])
    crops = pq.read_table(code / "data" / "arrhythmia" / "crops.parquet", columns=["cohort", "record"]).to_pylist()
    assert {crop["record"] for crop in crops if crop["cohort"] == "ecg-arrhythmia"} == {
        f"JS{number:05d}" for number in range(1, 13)
    }
    assert [crop["cohort"] for crop in crops if not crop["record"].startswith("JS")] == ["own"]


def test_an_augmentation(dataset: Path, tmp_path: Path) -> None:
    code = code_with(tmp_path, "augmentation")
    (shown,) = blocks("augmentation", "python")
    also = "print(float((scaled - factor[:, :, None, None] * plain)[..., 6:].abs().max()))\n"
    least, most, rest = numbers(run(code, [sys.executable, "-"], shown.replace("DATA", str(dataset)) + also))
    assert 0.8 <= least < 0.85 and 1.15 < most <= 1.2
    assert rest < 1e-5  # nothing else was done to it


def test_an_objective(tmp_path: Path) -> None:
    code = code_with(tmp_path, "objective")
    (shown,) = blocks("objective", "python")
    apart, alike = numbers(run(code, [sys.executable, "-"], shown))
    assert apart == pytest.approx(-2.4798, abs=1e-4) and alike == pytest.approx(0, abs=1e-4)


def test_an_encoder(tmp_path: Path) -> None:
    """A token of it sees those near it alone, one of attention all."""
    code = code_with(tmp_path, "encoder")
    (shown,) = blocks("encoder", "python")
    also = """
def reach(encoder):
    signal = torch.randn(1, 2500, 12, requires_grad=True)
    gradient, = torch.autograd.grad(encoder(signal).contexts[0, 0].square().sum(), signal)
    felt = gradient[0].abs().sum(1)
    return int((felt > 1e-5 * felt.max()).nonzero().max())
print(reach(encoder), reach(Encoder(SIZES["tiny"]).eval()))
"""
    shape, reached = run(code, [sys.executable, "-"], shown + also).splitlines()
    assert shape == "torch.Size([2, 128])"
    near, far = map(int, reached.split())
    # Two layers of four tokens to the right each, behind a positional convolution of 63 to the right.
    assert near < (63 + 4 + 4 + 1) * 16 and far == 2495


@pytest.mark.slow
def test_all_of_them_in_one_run(hearts: Path, tmp_path: Path) -> None:
    code = code_with(tmp_path, *EXAMPLES)
    (command,) = blocks("objective", "sh")
    words = command.replace("DATA", str(hearts)).replace("RUN", str(tmp_path / "run")).split()
    for setting in (*SMALL, "augmentation.scale=0.2", "model.sizes.mixing_taps=9"):
        words += ["--set", setting]
    assert "finished at update 2 of 2" in run(code, [sys.executable, *words[1:]])
    load = "from engine import released; print(released.load_encoder(Path(sys.argv[1]))[0].sizes.mixing_taps)"
    found = run(code, [sys.executable, "-c", f"import sys; from pathlib import Path; {load}", f"{tmp_path}/run/model"])
    assert found == "9\n"
