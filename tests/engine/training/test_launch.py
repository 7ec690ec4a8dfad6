"""Runs of several processes, under each launcher."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine.training import checkpoint
from tests.engine.training.conftest import CONFIGS, OUTSIDE, SMALL, lines, status
from tests.engine.training.test_pretrain import STILL, WATCHED, at, same_state

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
LAUNCHERS = {
    "python": [sys.executable],
    "deepspeed": [str(BIN / "deepspeed"), "--num_gpus", "2"],
    "torchrun": [str(BIN / "torchrun"), "--nproc-per-node", "2"],
}
# Two ranks on two cores: waiting threads should not take the time of working ones.
QUIET = {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}


def begin(
    launcher: Sequence[str], data: Path, run: Path, *given: str, file: str = "w2v_cmsc_rlm", resume: str = ""
) -> subprocess.Popen[str]:
    settings = [*SMALL, f"data.path={data}", f"run.dir={run}", *given]
    program = [] if launcher[-1].endswith(".py") else [str(ROOT / "engine" / "pretrain.py")]
    command = [*launcher, *program, "--config", str(CONFIGS / f"{file}.yaml")]
    command += [word for setting in settings for word in ("--set", setting)] + (["--resume", resume] if resume else [])
    return subprocess.Popen(
        command,
        cwd="/",  # from any folder
        env=OUTSIDE | QUIET,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == code, out
    return out


def wait_for(run: Path, update: int) -> None:
    """Until that update has been reported."""
    end = time.monotonic() + 120
    while not (run / "metrics.jsonl").exists() or not any(line["update"] >= update for line in lines(run)):
        assert time.monotonic() < end
        time.sleep(0.05)


def family(pid: int) -> list[int]:
    """A process and all that it has started."""
    tree = [pid]
    for one in tree:
        tree += map(int, subprocess.run(["pgrep", "-P", str(one)], capture_output=True, text=True).stdout.split())
    return tree


def kill_all(process: subprocess.Popen[str]) -> None:
    """kill -9: the launcher, and the ranks, which torchrun starts in sessions of their own."""
    for pid in family(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def test_two_ranks_under_deepspeed_and_on_with_one(hearts: Path, tmp_path: Path) -> None:
    """Killed in the middle; on with two ranks, bit for bit; on with one, in the same order."""
    two, one, straight = (tmp_path / name for name in ("two", "one", "straight"))
    given = ["train.updates=16", "run.keep_every=6", "train.zero_stage=2"]
    finish(begin(LAUNCHERS["deepspeed"], hearts, straight, *given))
    process = begin(LAUNCHERS["torchrun"], hearts, two, *given)
    wait_for(two, 8)
    kill_all(process)
    found = checkpoint.latest(two / "checkpoints", print)
    assert found is not None and found.state["update"] < 16
    shutil.copytree(two / "checkpoints", one / "checkpoints")
    finish(begin(LAUNCHERS["torchrun"], hearts, two, *given, resume="auto"))
    assert same_state(at(straight, 16), at(two, 16))
    finish(begin(LAUNCHERS["python"], hearts, one, *given, resume="auto"))
    assert [line["epoch"] for line in lines(one)] == [line["epoch"] for line in lines(straight)][-len(lines(one)) :]
    # The same pairs; other dropout and Gumbel noise, which belong to ranks.
    ours, theirs = lines(one)[-1], lines(straight)[-1]
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=0.02)


def test_one_process_equals_two(hearts: Path, tmp_path: Path) -> None:
    """The same pool of 8 pairs, contrasted by one process or by two: float32, no dropout, no Gumbel noise."""
    given = ["train.updates=5", "train.precision=fp32", "train.lr=1e-3", *STILL]
    finish(begin(LAUNCHERS["python"], hearts, tmp_path / "one", *given, file="cmsc_rlm"))
    finish(begin(LAUNCHERS["torchrun"], hearts, tmp_path / "two", *given, file="cmsc_rlm"))
    one, two = (load_file(at(tmp_path / run, 5) / "weights.safetensors") for run in ("one", "two"))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 2e-5
    for ours, theirs in zip(lines(tmp_path / "one"), lines(tmp_path / "two"), strict=True):
        assert [ours[name] for name in ("loss", "global")] == pytest.approx(
            [theirs[name] for name in ("loss", "global")], rel=1e-4
        )


def test_a_rank_that_dies_ends_the_run(hearts: Path, tmp_path: Path) -> None:
    process = begin(LAUNCHERS["torchrun"], hearts, tmp_path / "run", "train.updates=100000")
    wait_for(tmp_path / "run", 1)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    os.kill(int(children[-1]), signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    said = [line for line in out.splitlines() if line.startswith("error: ")]
    assert len(said) == 1 and said[0].startswith("error: rank 0: another rank has died; --resume auto goes on (")
    assert re.search("closed by peer|reset by peer", said[0])  # as gloo says it
    assert status(tmp_path / "run")["reason"] == "another rank died"


def planted(folder: Path, hearts: Path, patch: str, code: int) -> str:
    """What two ranks say whose pre-training is patched."""
    program = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
import torch
from engine.config.pretraining import PretrainConfig
from engine.training.command import main
from engine.training.pretraining import Pretraining
{patch}
sys.argv[0] = {str(ROOT / "engine" / "pretrain.py")!r}
main(None, PretrainConfig, Pretraining)
"""
    (folder / "program.py").write_text(program)
    launcher = [*LAUNCHERS["torchrun"], str(folder / "program.py")]
    return finish(begin(launcher, hearts, folder / "run", "train.updates=4", "run.keep_every=1"), code)


def test_an_error_of_one_rank_is_said_and_ends_all(hearts: Path, tmp_path: Path) -> None:
    """A dataset that one machine does not have."""
    patch = """
from engine.training import feed
if os.environ["RANK"] == "1":
    feed.open_dataset = lambda path, *_, **__: (_ for _ in ()).throw(ValueError(f"{path[0]}: not here"))
"""
    assert f"error: rank 1: {hearts}: not here" in planted(tmp_path, hearts, patch, code=1).splitlines()


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ('ValueError("a file is gone")', "a file is gone"),
        (
            'torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\\nSee the docs.")',
            "a smaller train.micro_batch needs less memory; CUDA out of memory. Tried to allocate 2 GiB.",
        ),
    ],
)
def test_what_goes_wrong_on_one_rank_as_it_trains(hearts: Path, tmp_path: Path, failure: str, said: str) -> None:
    patch = f"""
real = Pretraining.inputs
def inputs(self, batch, update):
    if update == 2 and os.environ["RANK"] == "1":
        raise {failure}
    return real(self, batch, update)
Pretraining.inputs = inputs
"""
    out = planted(tmp_path, hearts, patch, code=1)
    errors = sorted(line for line in out.splitlines() if line.startswith("error: "))
    assert errors[0].startswith("error: rank 0: another rank has died") and errors[1:] == [f"error: rank 1: {said}"]
    assert status(tmp_path / "run")["reason"] == "another rank died"


def test_a_nan_on_one_of_two_ranks(hearts: Path, tmp_path: Path) -> None:
    """The update is skipped on both, counted, and leaves weights and moments as they were."""
    patch = """
real = Pretraining.inputs
def inputs(self, batch, update):
    signal, *others = real(self, batch, update)
    return (signal * float("nan") if update == 2 and os.environ["RANK"] == "1" else signal, *others)
Pretraining.inputs = inputs
"""
    planted(tmp_path, hearts, patch, code=0)
    assert same_state(at(tmp_path / "run", 2), at(tmp_path / "run", 3))
    assert not same_state(at(tmp_path / "run", 3), at(tmp_path / "run", 4))
    assert [line["skipped"] for line in lines(tmp_path / "run")] == [0, 0, 1, 1]


def test_an_error_is_one_line(hearts: Path, tmp_path: Path) -> None:
    out = finish(begin(LAUNCHERS["python"], tmp_path, tmp_path / "run"), code=1)
    said = [line for line in out.splitlines() if line.startswith("error: ")]
    assert said == [
        f"error: {tmp_path} is no dataset folder: it has no dataset.json; python -m data_tools.shard makes one"
    ]
    assert "Traceback" not in out


def test_nothing_is_compiled_and_no_lock_of_a_killed_process_waited_for(hearts: Path, tmp_path: Path) -> None:
    lock = tmp_path / "extensions" / "deepspeed_shm_comm" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    launcher = ["env", f"TORCH_EXTENSIONS_DIR={tmp_path / 'extensions'}", sys.executable]
    finish(begin(launcher, hearts, tmp_path / "run", "train.updates=1"))
    assert list(lock.parent.iterdir()) == [lock]


def test_sigterm_through_torchrun_and_straight_to_the_ranks(hearts: Path, tmp_path: Path) -> None:
    """docs/launching.md: torchrun passes it on and exits with 1; status.json tells."""
    process = begin(LAUNCHERS["torchrun"], hearts, tmp_path / "run", "train.updates=100000")
    wait_for(tmp_path / "run", 2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    end = status(tmp_path / "run")
    assert (end["status"], end["reason"]) == ("stopped", "SIGTERM")
    assert checkpoint.updates(tmp_path / "run" / "checkpoints") == [end["update"]]


def test_one_signalled_rank_stops_all_under_deepspeed(hearts: Path, tmp_path: Path) -> None:
    """docs/launching.md: signal a rank, not the deepspeed command."""
    process = begin(LAUNCHERS["deepspeed"], hearts, tmp_path / "run", "train.updates=100000")
    wait_for(tmp_path / "run", 2)
    os.kill(status(tmp_path / "run")["pid"], signal.SIGUSR1)
    process.communicate(timeout=60)
    end = status(tmp_path / "run")
    assert (end["status"], end["reason"]) == ("stopped", "SIGUSR1")
    assert checkpoint.updates(tmp_path / "run" / "checkpoints") == [end["update"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "number", "to", "stops", "code"),
    [
        ("torchrun", signal.SIGINT, "launcher", True, 1),
        ("torchrun", signal.SIGINT, "group", True, 1),
        ("torchrun", signal.SIGUSR1, "launcher", False, -signal.SIGUSR1),
        ("torchrun", signal.SIGUSR1, "rank", True, 1),
        ("deepspeed", signal.SIGTERM, "launcher", False, -signal.SIGTERM),
        ("deepspeed", signal.SIGTERM, "launch.py", True, 1),
        ("deepspeed", signal.SIGUSR1, "launch.py", False, 0),
        ("deepspeed", signal.SIGINT, "group", True, None),  # 1 or killed by the signal, as it comes
        ("deepspeed", signal.SIGINT, "rank", True, 128 + signal.SIGINT),
    ],
)
def test_the_table_of_signals(
    hearts: Path, tmp_path: Path, launcher: str, number: signal.Signals, to: str, stops: bool, code: int | None
) -> None:
    """docs/launching.md, row by row; SIGTERM through torchrun and SIGUSR1 to a rank under deepspeed are above."""
    run = tmp_path / "run"
    process = begin(LAUNCHERS[launcher], hearts, run, "train.updates=100000")
    wait_for(run, 2)
    tree = family(process.pid)
    if to == "group":
        os.killpg(process.pid, number)
    elif to == "rank":
        os.kill(status(run)["pid"], number)
    elif to == "launcher":
        os.kill(process.pid, number)
    else:
        (launch,) = (pid for pid in tree if b"deepspeed.launcher.launch" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(launch, number)
    try:
        found = process.wait(timeout=60)
        assert found == code if code is not None else found in (1, -number)
        if not stops:
            wait_for(run, lines(run)[-1]["update"] + 3)
            (run / "stop").touch()
        end = time.monotonic() + 60
        while status(run)["status"] == "running":
            assert time.monotonic() < end
            time.sleep(0.1)
        assert status(run)["reason"] == (number.name if stops else "stop file")
        assert checkpoint.updates(run / "checkpoints") == [status(run)["update"]]
    finally:
        for pid in tree:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.slow
def test_srun_gives_each_task_its_rank(hearts: Path, tmp_path: Path) -> None:
    """With the variables of Slurm alone, and the two that docs/slurm.sh sets."""
    tasks = []
    for task in range(2):
        slurm = {"SLURM_STEP_ID": "0", "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)}
        slurm |= {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x1)"}
        slurm |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29544"}
        launcher = ["env", *(f"{name}={value}" for name, value in slurm.items()), sys.executable]
        tasks.append(begin(launcher, hearts, tmp_path / "run", "train.updates=4"))
    for process in tasks:
        finish(process)
    assert [line["update"] for line in lines(tmp_path / "run")] == [1, 2, 3, 4]


@pytest.mark.slow
def test_two_nodes_of_one_machine(hearts: Path, tmp_path: Path) -> None:
    """A hostfile, and one launcher a node, as in containers without ssh."""
    hostfile = tmp_path / "hostfile"
    hostfile.write_text("127.0.0.1 slots=1\nlocalhost slots=1\n")
    nodes = []
    for rank in range(2):
        launcher = [str(BIN / "deepspeed"), "--hostfile", str(hostfile), "--no_ssh", "--node_rank", str(rank)]
        launcher += ["--master_addr", "127.0.0.1", "--master_port", "29533"]
        nodes.append(begin(launcher, hearts, tmp_path / "run", "train.updates=4"))
    for node in nodes:
        finish(node)
    assert [line["update"] for line in lines(tmp_path / "run")] == [1, 2, 3, 4]


@pytest.mark.slow
def test_thirty_kills(hearts: Path, tmp_path: Path) -> None:
    """At random moments, while saving too: the run ends where the undisturbed one ends."""
    given = ["train.updates=150", "run.checkpoint_minutes=0.002"]
    finish(begin(LAUNCHERS["python"], hearts, tmp_path / "straight", *given))
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        process = begin(LAUNCHERS["python"], hearts, tmp_path / "killed", *given, resume="auto")
        time.sleep(6 + 3 * float(torch.rand((), generator=generator)))
        kill_all(process)
    finish(begin(LAUNCHERS["python"], hearts, tmp_path / "killed", *given, resume="auto"))
    assert same_state(at(tmp_path / "straight", 150), at(tmp_path / "killed", 150))
    last = {line["update"]: line for line in lines(tmp_path / "killed")}
    for line in lines(tmp_path / "straight"):
        assert [line[name] for name in WATCHED] == [last[line["update"]][name] for name in WATCHED]
