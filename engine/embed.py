"""python -m engine.embed RECORDINGS... --model M --out embeddings.parquet|embeddings.npy"""

import argparse
import os
import signal
import sys
from pathlib import Path

from data_tools import hints
from engine import command

_ABOUT = """Vectors of recordings (files, or folders of them) in any readable format, rate, length and lead subset:
brought to 500 Hz, cut into segments of 5 s, encoded without masks or dropout, averaged over the recording. A recording
that cannot be read is reported and left out. Exit code: 0, 1 (nothing written), 3 (written, but not all of it)."""
_EPILOG = """examples:
  python -m engine.embed hospital --model RUN --out embeddings.parquet
  # the same encoder with what a watch records: arrays that say nothing of themselves
  python -m engine.embed arrays --model RUN --out watch.npy --rate 512 --unit mV --leads I
  # twelve leads in the files, two for the encoder
  python -m engine.embed hospital --model RUN --out two.parquet --leads I,II
"""
_IN_PART = 3


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.embed",
        description=_ABOUT,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recordings", nargs="+", type=Path, metavar="RECORDINGS", help="files or folders")
    parser.add_argument("--model", required=True, type=Path, help="a run, or a folder of model.safetensors")
    parser.add_argument("--out", required=True, type=Path, help="a .parquet, or a .npy with a .csv beside it")
    parser.add_argument(
        "--pool", choices=("mean", "tokens"), default="mean", help="a vector a recording, or all tokens of each segment"
    )
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes that read")
    hints.add_flags(parser, "; of files that name theirs, those that the model may see (default: those it knows)")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # names of files need not be text
    return command.run(_embed, parser.parse_args())


def _embed(given: argparse.Namespace) -> int:
    from engine.embedding.whole import embed  # torch: the workers, who import this file too, do without

    if given.workers < 1:
        raise ValueError(f"--workers {given.workers} is no number of processes")
    done = embed(
        given.recordings,
        given.model,
        given.out,
        pool=given.pool,
        only=[lead for lead in given.leads if lead != hints.NO_LEAD] if given.leads else None,
        told=hints.of_flags(given),
        precision=given.precision,
        workers=given.workers,
    )
    rows = "recordings" if given.pool == "mean" else "segments"
    print(f"{given.out}: {done.rows:,} {rows}; {done.skipped:,} of {done.recordings:,} recordings were skipped")
    for name in done.without_effect:
        print(f"warning: --{name} had no effect: every recording that can be read says it itself", file=sys.stderr)
    return _IN_PART if done.skipped or done.without_effect else 0


if __name__ == "__main__":
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is written stays, and so does its exit code
    sys.exit(code)
