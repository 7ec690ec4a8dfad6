import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.training import checkpoint
from engine.training.checkpoint import Saver, latest, read, updates

Tensors = dict[str, torch.Tensor]


def tensors(seed: int) -> tuple[Tensors, dict[str, Tensors]]:
    generator = torch.Generator().manual_seed(seed)

    def some() -> Tensors:
        return {name: torch.randn(shape, generator=generator) for name, shape in (("a.weight", (3, 4)), ("b", ()))}

    return some(), {"exp_avg": some(), "exp_avg_sq": some()}


def save(saver: Saver, update: int, **more: Any) -> None:
    saver.save(*tensors(update), {"update": update, **more})
    saver.wait()


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    save(Saver(tmp_path, 2, None), 7, best=None, config={"a": 1})
    found = latest(tmp_path, print)
    assert found is not None and found.state == {"update": 7, "best": None, "config": {"a": 1}}
    weights, moments = tensors(7)
    assert all(torch.equal(found.weights[name], value) for name, value in weights.items())
    for which, of in moments.items():
        assert all(torch.equal(found.moments[which][name], value) for name, value in of.items())


def test_the_last_the_best_and_each_so_many_are_kept(tmp_path: Path) -> None:
    saver = Saver(tmp_path, keep_last=2, keep_every=10)
    for update in range(1, 16):
        save(saver, update, best=4)
    assert updates(tmp_path) == [4, 10, 14, 15]


@pytest.mark.parametrize("name", ["weights.safetensors", "moments.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_damage_is_passed_over_and_said(tmp_path: Path, name: str, damage: str) -> None:
    saver = Saver(tmp_path, 3, None)
    save(saver, 1)
    save(saver, 2)
    path = tmp_path / "update-00000002" / name
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        data[len(data) // 2] ^= 16
        path.write_bytes(data if damage == "flipped" else data[:-3])
    said: list[str] = []
    if (name, damage) == ("manifest.json", "flipped"):
        path.write_bytes(data.replace(b'"', b"'"))
    found = latest(tmp_path, said.append)
    assert found is not None and found.state["update"] == 1
    assert len(said) == 1 and "update-00000002" in said[0]
    with pytest.raises(ValueError, match="update-00000002"):
        read(tmp_path / "update-00000002")


def test_no_checkpoint_and_no_whole_one(tmp_path: Path) -> None:
    assert latest(tmp_path / "nowhere", print) is None
    save(Saver(tmp_path, 2, None), 1)
    (tmp_path / "update-00000001" / "manifest.json").unlink()
    with pytest.raises(ValueError, match="none of the 1 checkpoints is whole"):
        latest(tmp_path, lambda _: None)


def test_an_unfinished_one_is_ignored_and_cleared_away(tmp_path: Path) -> None:
    save(Saver(tmp_path, 2, None), 1)
    (tmp_path / "update-00000002.tmp").mkdir()
    found = latest(tmp_path, print)
    assert found is not None and found.state["update"] == 1
    Saver(tmp_path, 2, None)
    assert [path.name for path in tmp_path.iterdir()] == ["update-00000001"]


@pytest.mark.parametrize("step", ["save_file", "_described", "sync", "rename", "rmtree"])
def test_killed_between_any_two_steps(tmp_path: Path, step: str) -> None:
    """A process that dies before the n-th call of each step of a second save, for all n."""
    program = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from engine.training import checkpoint
from tests.engine.training.test_checkpoint import save
saver = checkpoint.Saver(Path(sys.argv[1]), 1, None)
save(saver, 1)
calls = [int(sys.argv[2])]
owner = {{"rename": Path, "rmtree": checkpoint.shutil}}.get({step!r}, checkpoint)
real = getattr(owner, {step!r})
def dying(*arguments, **more):
    calls[0] -= 1
    if calls[0] < 0:
        os.kill(os.getpid(), 9)
    return real(*arguments, **more)
setattr(owner, {step!r}, dying)
save(saver, 2)
"""
    for call in range(8):
        folder = tmp_path / str(call)
        process = subprocess.run(
            [sys.executable, "-c", program, str(folder), str(call)], capture_output=True, text=True
        )
        assert process.returncode in (0, -signal.SIGKILL), process.stderr
        found = latest(folder, print)
        assert found is not None
        expected = tensors(found.state["update"])[0]
        assert all(torch.equal(found.weights[name], value) for name, value in expected.items())
        if process.returncode == 0:
            assert call > 0 and found.state["update"] == 2
            return
    raise AssertionError(f"{step} is called more often than was tried")


def test_a_full_disk_leaves_the_one_before(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk; the process says what to do."""
    program = f"""
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from engine.training.checkpoint import Saver
from tests.engine.training.test_checkpoint import save, tensors
import torch
saver = Saver(Path(sys.argv[1]), 1, None)
save(saver, 1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
weights, moments = tensors(2)
try:
    saver.save(weights | {{"large": torch.zeros(100_000)}}, moments, {{"update": 2}})
    saver.wait()
except OSError as failure:
    print(failure)
"""
    process = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "the disk is full: the checkpoint of update 2 was not written, the one before it is whole" in process.stdout
    found = latest(tmp_path, print)
    assert found is not None and found.state["update"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["update-00000001"]


def test_the_one_just_written_stays_whatever_else_is_there(tmp_path: Path) -> None:
    """Newer ones, damaged or of another course, are put aside where the run goes on from before them."""
    saver = Saver(tmp_path, 3, None)
    for update in (3, 10, 12):
        save(saver, update)
    (tmp_path / "update-00000012" / "state.json").write_text("")
    saver = Saver(tmp_path, 1, None, begun=3)
    assert updates(tmp_path) == [3] and len(list(tmp_path.glob("aside-*"))) == 2
    save(saver, 4)
    assert updates(tmp_path) == [4]


def test_after_a_failure_the_next_one_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saver, real = Saver(tmp_path, 1, None), checkpoint.save_file

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    save(saver, 1)
    monkeypatch.setattr(checkpoint, "save_file", full)
    saver.save(*tensors(2), {"update": 2})
    while not saver.failed():
        time.sleep(0.01)
    monkeypatch.setattr(checkpoint, "save_file", real)
    save(saver, 3)
    assert updates(tmp_path) == [3] and not saver.failed()


def test_json_is_replaced_in_one_go(tmp_path: Path) -> None:
    checkpoint.write_json(tmp_path / "status.json", {"a": 1})
    checkpoint.write_json(tmp_path / "status.json", {"a": 2})
    assert json.loads((tmp_path / "status.json").read_text()) == {"a": 2}
    assert os.listdir(tmp_path) == ["status.json"]
