"""python -m engine.export --model RUN --out FOLDER [--onnx]: an encoder for others."""

import argparse
import sys
from pathlib import Path

from engine import command
from engine.exporting.folder import export, import_reference

_ABOUT = """Writes a folder to hand on: model.safetensors, config.json, a model card made of what the run holds; with
--onnx also model.onnx, checked against torch. leadwise.load_encoder("FOLDER") reads it, with few packages installed.
--import-reference takes a checkpoint of fairseq-signals or ECG-FM instead of a run: its weights, never its code."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.export", description=_ABOUT)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", type=Path, metavar="RUN", help="a run, or a folder of model.safetensors")
    source.add_argument("--import-reference", type=Path, metavar="CHECKPOINT", help="a .pt file")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="is made; nothing is overwritten")
    parser.add_argument("--onnx", action="store_true", help="any number of segments of any length")
    parser.add_argument(
        "--scores",
        nargs="+",
        type=Path,
        default=(),
        metavar="JSON",
        help="what engine.evaluate --json wrote of this model, or of models fine-tuned from it, for the card",
    )
    return command.run(_export, parser.parse_args())


def _export(given: argparse.Namespace) -> int:
    if given.import_reference:
        if given.scores:
            raise ValueError("--scores has no effect beside --import-reference")
        done = import_reference(given.import_reference, given.out, given.onnx)
    else:
        done = export(given.model, given.out, given.scores, given.onnx)
    for line in done:
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
