"""From the recordings that a user names to a file of their vectors."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from data_tools.console import progress, shown
from data_tools.hints import Hints
from engine import hardware, released
from engine.embedding import encoding, sources, writing
from engine.embedding.reading import Read, reading
from engine.scoring.leads import name_of
from leadwise import LEADS, load_encoder

Pool = Literal["mean", "tokens"]
Precision = Literal["fp32", "bf16"]

_BATCH = 64  # segments


class Embedded(NamedTuple):
    rows: int
    recordings: int  # that were found
    skipped: int  # of them
    without_effect: tuple[str, ...]  # hints that no file was in need of


def embed(
    recordings: Sequence[Path],
    model: Path,
    out: Path,
    *,
    pool: Pool = "mean",
    only: Sequence[str] | None = None,
    told: Hints,
    precision: Precision = "fp32",
    workers: int = 1,
    report: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> Embedded:
    """`only`: leads that the model may see, none: those it was trained with. A line to `report` for what is skipped."""
    writing.check(out)
    folder = released.find(model, "--model ")
    seen = list(released.describe(folder)["trained_leads"] if only is None else only)
    name_of(seen)  # raises ValueError for what are no leads
    found = sources.find(recordings, told)
    device = hardware.device()
    encoder = load_encoder(folder).to(device, torch.bfloat16 if precision == "bf16" else torch.float32)
    skipped = 0
    hinted: set[str] = set()

    def usable(reads: Iterable[Read]) -> Iterator[Read]:
        nonlocal skipped
        for read in reads:
            hinted.update(read.hinted)
            if read.refused is None:
                yield read
            else:
                skipped += 1
                report(f"skipped: {shown(read.name)}: {read.refused}")

    reads = reading(found, sum(1 << LEADS.index(lead) for lead in seen), workers)
    reads = usable(progress(reads, len(found), "embedding"))
    if pool == "mean":
        rows = encoding.means(encoder, reads, _BATCH, device)
    else:
        rows = encoding.each(encoder.tokens, reads, _BATCH, device)
    about = {"model": encoder.config, "pool": pool, "leads": seen, "precision": precision}
    count = writing.write(rows, out, about)
    return Embedded(count, len(found), skipped, tuple(name for name in told.given() if name not in hinted | {"leads"}))
