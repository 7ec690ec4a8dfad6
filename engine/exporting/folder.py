"""The folder to hand on: made beside, checked, renamed."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine import released
from engine.exporting import card, checkpoints, facts, to_onnx
from engine.model.encoder import Encoder


def export(model: Path, out: Path, scores: Sequence[Path] = (), onnx: bool = False) -> Iterator[str]:
    """A run, or a folder of released weights -> `out`; a line for each thing done."""
    source = released.find(model, "--model ")
    with _making(out, onnx) as folder:
        encoder, config = released.load_encoder(source)
        for name in ("model.safetensors", "config.json"):
            shutil.copyfile(source / name, folder / name)
        run = source.parent if (source.parent / "config.yaml").is_file() else source
        found = facts.gather(run, config, scores)
        (folder / "README.md").write_text(card.of_run(config, _parameters(encoder), found))
        yield from _finish(encoder, folder, out, onnx)


def import_reference(checkpoint: Path, out: Path, onnx: bool = False) -> Iterator[str]:
    """A checkpoint of fairseq-signals or ECG-FM -> `out`."""
    with _making(out, onnx) as folder:
        found = checkpoints.read(checkpoint)
        released.save(folder, found.weights, "reference", found.sizes, found.about)
        if found.without_head:
            yield "left out: the head it was fine-tuned with, of which the checkpoint does not say the classes"
        encoder, config = released.load_encoder(folder)
        (folder / "README.md").write_text(card.of_import(config, _parameters(encoder)))
        yield from _finish(encoder, folder, out, onnx)


@contextmanager
def _making(out: Path, onnx: bool) -> Iterator[Path]:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"--out {out} exists already; remove it, or choose another")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"--out {out}: there is no folder {out.absolute().parent}")
    if onnx:
        to_onnx.check_installed()
    unfinished = out.with_name(f"{out.name}.{os.getpid()}.tmp")
    unfinished.mkdir()
    try:
        yield unfinished
        if out.exists():
            out.rmdir()
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _finish(encoder: Encoder, folder: Path, out: Path, onnx: bool) -> Iterator[str]:
    if onnx:
        worst = to_onnx.write(encoder, folder / "model.onnx")
        yield f"model.onnx: at most {worst:.1e} from torch, at several numbers and lengths of segments"
    yield f"{out}: {', '.join(sorted(path.name for path in folder.iterdir()))}"


def _parameters(encoder: Encoder) -> int:
    return sum(parameter.numel() for parameter in encoder.parameters())
