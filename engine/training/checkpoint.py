"""Checkpoints: folders that are either complete, or ignored. They know nothing of ranks, ZeRO or devices.

CHECKPOINTS/update-00000040/
  weights.safetensors  moments.safetensors  state.json
  manifest.json        size and sha256 of the three, written last
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.data.storage import digest, sync

_FILES = ("weights.safetensors", "moments.safetensors", "state.json")


class Checkpoint(NamedTuple):
    folder: Path
    manifest: dict[str, Any]
    weights: dict[str, Tensor]
    moments: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


class Saver:
    """Writes one checkpoint at a time in the background, and deletes those that are not to be kept.

    `begun`: the update that the run goes on from. What is newer, of another course or damaged, is put aside.
    """

    def __init__(self, folder: Path, keep_last: int, keep_every: int | None, begun: int | None = None) -> None:
        self._folder = folder
        self._keep_last = keep_last
        self._keep_every = keep_every
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._running: Future[None] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob("*.tmp"):
            shutil.rmtree(unfinished)
        for update in updates(folder):
            if begun is not None and update > begun:
                aside = folder / f"aside-{update:08d}"
                shutil.rmtree(aside, ignore_errors=True)
                (folder / f"update-{update:08d}").rename(aside)

    def save(
        self, weights: Mapping[str, Tensor], moments: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
    ) -> None:
        """Of copies on the host. The one before is waited for; if it failed, this one is more, and the next try."""
        with suppress(OSError):
            self.wait()
        flat = {f"{which}.{name}": value for which, of in moments.items() for name, value in of.items()}
        self._running = self._writer.submit(self._write, dict(weights), flat, dict(state))

    def failed(self) -> bool:
        """Whether the last one could not be written, without waiting for it."""
        return self._running is not None and self._running.done() and self._running.exception() is not None

    def wait(self) -> None:
        if self._running is not None:
            running, self._running = self._running, None
            running.result()

    def _write(self, weights: dict[str, Tensor], moments: dict[str, Tensor], state: dict[str, Any]) -> None:
        final = self._folder / f"update-{state['update']:08d}"
        folder = final.with_suffix(".tmp")
        try:
            folder.mkdir(exist_ok=True)
            save_file(weights, folder / "weights.safetensors")
            save_file(moments, folder / "moments.safetensors")
            (folder / "state.json").write_text(json.dumps(state, indent=1) + "\n")
            manifest = {name: _described(folder / name) for name in _FILES}
            (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
            for name in (*_FILES, "manifest.json"):
                sync(folder / name)
            sync(folder)
            if final.exists():  # the same update once more, after a resume
                shutil.rmtree(final)
            folder.rename(final)
            sync(self._folder)
        except Exception as failure:
            shutil.rmtree(folder, ignore_errors=True)
            if _is_full(failure):
                raise OSError(
                    errno.ENOSPC,
                    f"the disk is full: the checkpoint of update {state['update']} was not written, the one before it"
                    f" is whole; make room in {self._folder} and go on with --resume auto",
                ) from failure
            raise
        self._delete_old({state["update"], state.get("best")})

    def _delete_old(self, wanted: set[int | None]) -> None:
        found = updates(self._folder)
        kept = set(found[-self._keep_last :]) | wanted
        for update in found:
            if update not in kept and not (self._keep_every and update % self._keep_every == 0):
                shutil.rmtree(self._folder / f"update-{update:08d}")


def updates(folder: Path) -> list[int]:
    """Of the checkpoints there, ascending; whether they are complete is another matter."""
    names = (path.name.removeprefix("update-") for path in folder.glob("update-*"))
    return sorted(int(name) for name in names if name.isdigit())


def latest(folder: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """The newest complete one; says which it passes over."""
    found = updates(folder)
    for update in reversed(found):
        try:
            return read(folder / f"update-{update:08d}")
        except ValueError as failure:
            say(f"passed over: {failure}")
    if found:
        raise ValueError(f"{folder}: none of the {len(found)} checkpoints is whole")
    return None


def read(folder: Path) -> Checkpoint:
    """Verified before anything of it is loaded."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
    except (OSError, ValueError) as failure:
        raise ValueError(f"{folder} is no complete checkpoint: it has no manifest.json that can be read") from failure
    if not isinstance(manifest, dict):
        raise ValueError(f"{folder / 'manifest.json'} is damaged")
    for name in _FILES:
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing")
        if _described(path) != manifest.get(name):
            raise ValueError(f"{path} is damaged (its size or sha256 is not that of manifest.json)")
    moments: dict[str, dict[str, Tensor]] = {}
    for name, value in load_file(folder / "moments.safetensors").items():
        which, _, parameter = name.partition(".")
        moments.setdefault(which, {})[parameter] = value
    state = json.loads((folder / "state.json").read_text())
    return Checkpoint(folder, manifest, load_file(folder / "weights.safetensors"), moments, state)


def write_json(path: Path, value: Any) -> None:
    """Atomically: whoever reads it sees the old or the new."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    sync(temporary)
    os.replace(temporary, path)


def _described(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": digest(path)}


def _is_full(failure: Exception) -> bool:
    """safetensors raises errors of its own, which only name the system's."""
    return getattr(failure, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or any(
        text in str(failure) for text in ("No space left", "os error 28", "File too large", "Disk quota")
    )
