"""Every command, link, target and extra that a page names is there, and every command would be understood."""

import argparse
import re
import shlex
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from engine import settings
from engine.config.finetuning import FinetuneConfig
from engine.config.pretraining import PretrainConfig
from tests.docs.pages import PAGES, ROOT, shell_lines
from tests.docs.programs import commands, understood

CONFIGS = {"pretrain": PretrainConfig, "finetune": FinetuneConfig}
LAUNCHERS = {"deepspeed": "--help", "torchrun": "--help"}
COMMANDS = sorted(
    {(page, program, tuple(words)) for page in PAGES for line in shell_lines(page) for program, words in commands(line)}
)


def test_the_commands_are_found() -> None:
    programs = {program for _, program, _ in COMMANDS}
    assert {"engine/pretrain.py", "engine/finetune.py", "engine.evaluate", "data_tools.shard", "benchmarks"} <= programs
    line = (
        "deepspeed --num_gpus 2 engine/pretrain.py --config a.yaml ... --set x.y=1  # then python -m engine.report RUN"
    )
    expected = [("engine/pretrain.py", ["--config", "a.yaml", "--set", "x.y=1"]), ("engine.report", ["RUN"])]
    assert list(commands(line)) == expected


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize(
    ("path", "program", "words"), COMMANDS, ids=lambda value: str(getattr(value, "name", value))[:60]
)
def test_a_command_is_understood(
    path: Path, program: str, words: tuple[str, ...], parsing_alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    understood(program, list(words), monkeypatch)
    if program.endswith(".py"):
        named = argparse.ArgumentParser()
        named.add_argument("--config", type=Path)
        named.add_argument("--set", action="append", default=[])
        told, _ = named.parse_known_args(words)
        if f"+++ b/{told.config}\n" in path.read_text():  # an example of the page makes it
            return
        assert (ROOT / told.config).is_file(), told.config
        given = [one for one in told.set if one != "a.b=c"]
        settings.read(CONFIGS[Path(program).stem], ROOT / told.config, given)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("words", [["--resmue", "auto"], []], ids=str)
def test_a_wrong_command_would_be_noticed(
    words: list[str], parsing_alone: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        understood("engine/pretrain.py", words, monkeypatch)
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_launchers_flags_are_theirs(launcher: str) -> None:
    path = Path(sys.executable).parent / launcher
    known = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    before = re.compile(rf"\b{launcher} ([^|]*?)engine/\w+\.py")
    files = [*PAGES, ROOT / "demo.sh", ROOT / "docs" / "kubernetes.yaml"]
    flags = {
        flag
        for file in files
        for words in before.findall(re.sub(r"\\?\n\s*", " ", file.read_text()))
        for flag in re.findall(r"--[a-z][\w-]*", words)
    }
    assert len(flags) > 1
    assert [flag for flag in flags if flag not in re.findall(r"--[a-z][\w-]*", known)] == []


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"(?:\]\(|src(?:set)?=\"|href=\")([^)\s\"]+)", page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else page.parent / path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_targets_and_extras_are_there() -> None:
    text = "\n".join(line for page in PAGES for line in shell_lines(page))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|\s)make ([a-z][\w-]*)", text))
    assert {"demo", "test"} <= named and named <= targets
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {one for listed in re.findall(r"(?:leadwise|'\.)\[([\w,]+)\]", text) for one in listed.split(",")}
    assert asked and asked <= set(extras)


def test_the_job_of_kubernetes(parsing_alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/kubernetes.yaml: its numbers and names agree, and its command would be understood."""
    from torch.distributed.run import get_args_parser

    service, job = yaml.safe_load_all((ROOT / "docs" / "kubernetes.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["bash", "-c"]
    subprocess.run(["bash", "-n", "-c", *container["args"]], check=True)
    exec_, launcher, *words = shlex.split(container["args"][0].replace('"$JOB_COMPLETION_INDEX"', "1"))
    assert (exec_, launcher) == ("exec", "torchrun")
    torchrun, rest = get_args_parser().parse_known_args(words)
    assert rest == []
    assert int(torchrun.nnodes) == job["spec"]["completions"] == job["spec"]["parallelism"]
    assert int(torchrun.nproc_per_node) == container["resources"]["limits"]["nvidia.com/gpu"]
    assert torchrun.node_rank == 1 and job["spec"]["completionMode"] == "Indexed"
    assert torchrun.master_addr == f"{job['metadata']['name']}-0.{pod['subdomain']}"
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    mounted = tuple(mount["mountPath"] for mount in container["volumeMounts"])
    words = torchrun.training_script_args
    understood(torchrun.training_script, words, monkeypatch)
    told = [value for flag, value in pairwise(words) if flag == "--set"]
    config = settings.read(PretrainConfig, ROOT / words[words.index("--config") + 1], told)
    assert all(path.startswith(mounted) for path in (*config.data.path, config.run.dir))
    assert list(config.problems()) == [] and config.micro_batches(int(torchrun.nnodes) * int(torchrun.nproc_per_node))
    assert words[-2:] == ["--resume", "auto"]
