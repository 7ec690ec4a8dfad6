"""python -m benchmarks paper: the paper's tables, by a queue that goes on where it was left."""

import argparse
import json
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import report
from benchmarks.paper import data, pages, plan, queue, sizes
from benchmarks.paper.cells import Cells
from benchmarks.paper.grid import LEADS, ROWS, TABLES, TASKS, Cell, Finetune, Selection
from benchmarks.paper.worker import Order
from engine.data.dataset import open_dataset
from engine.scoring.published import score_of
from engine.training.checkpoint import write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", type=int, nargs="+", action="extend", required=True, choices=tuple(TABLES))
    parser.add_argument("--data", nargs="+", required=True, help="dataset folders, or addresses of an object store")
    parser.add_argument(
        "--size", default="base", help="one of configs/paper, or a .yaml of yours (default: base, the paper's)"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="what is done there is not done again")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--leads", type=int, nargs="+", choices=LEADS, default=LEADS)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--workers", type=int, help="processes (default: one for each CUDA device, or each core)")
    parser.add_argument("--plan", action="store_true", help="print the grid and what it costs, and do nothing")


def run(chosen: argparse.Namespace) -> int:
    try:
        return _run(chosen)
    except (ValueError, OSError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1


def _run(chosen: argparse.Namespace) -> int:
    order = _order(chosen)
    out, listed = Path(order.out), order.selection.cells()
    cells = Cells(out / "cells")
    _check(order, cells, listed)
    workers = chosen.workers or len(queue.devices()) or len(os.sched_getaffinity(0))
    if chosen.plan:
        for line in plan.lines(order, workers):
            print(line, flush=True)
        return 0
    _note(order, workers)
    cells.try_again(listed)
    done = sum(cells.done(cell) for cell in listed)
    print(f"{len(listed)} runs, {done} of them done; {workers} workers", flush=True)

    def finished(cell: Cell) -> None:
        done = sum(cells.done(one) for one in listed)
        print(f"{datetime.now():%H:%M:%S}  {done}/{len(listed)}  {_line(cell, cells)}", flush=True)
        pages.write(out, order.selection)

    pages.write(out, order.selection)
    code = queue.work(order, workers, finished)
    for page in pages.write(out, order.selection):
        print(page)
    for cell in listed:
        if why := cells.failure(cell):
            print(f"failed: {cell.name}: {why}", file=sys.stderr)
    if not_done := sum(not cells.done(cell) for cell in listed):
        print(f"{not_done} runs are not done; the same command goes on", file=sys.stderr)
    return code


def _order(chosen: argparse.Namespace) -> Order:
    for name in ("seeds", "workers"):
        if getattr(chosen, name) is not None and getattr(chosen, name) < 1:
            raise ValueError(f"--{name} {getattr(chosen, name)} should be 1 or more")
    selection = Selection(
        tuple(sorted(set(chosen.table))),
        chosen.seeds,
        tuple(chosen.rows),
        tuple(leads for leads in LEADS if leads in chosen.leads),
        tuple(task for task in TASKS if task in chosen.tasks),
    )
    if not selection.cells():
        raise ValueError(f"--rows {' '.join(chosen.rows)}: no row of --table {' '.join(map(str, chosen.table))}")
    # Workers start elsewhere.
    paths = tuple(path if "://" in path else str(Path(path).expanduser().resolve()) for path in chosen.data)
    size = str(Path(chosen.size).resolve()) if chosen.size.endswith(".yaml") else chosen.size
    return Order(selection, size, paths, str(chosen.out.expanduser().resolve()), os.getpid())


def _check(order: Order, cells: Cells, listed: list[Cell]) -> None:
    """All that can be wrong is wrong before anything has begun."""
    size = sizes.read(order.size)
    for cell in listed:
        cells.check(cell, sizes.config(cell, size, order.data, cells.folder))
    for place in data.places(order):
        open_dataset([place.path], place.view)
    data.hold_out(order)
    path, now = Path(order.out) / "paper.json", data.described(order)
    before = json.loads(path.read_text())["data"] if path.is_file() else now
    for was, folder in zip(before, now, strict=False):
        if was["sha256"] != folder["sha256"]:
            raise ValueError(f"--out {order.out} is of other data, {was['path']}: take another --out")


def _note(order: Order, workers: int) -> None:
    """Who works on it, with what: DIR/paper.json."""
    path = Path(order.out) / "paper.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    starts = json.loads(path.read_text())["starts"] if path.is_file() else []
    starts.append(
        {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": f"python -m benchmarks {shlex.join(sys.argv[1:])}",
            "commit": report.commit(),
            "hardware": report.hardware(),
            "workers": workers,
        }
    )
    write_json(path, {"size": order.size, "data": data.described(order), "starts": starts})


def _line(cell: Cell, cells: Cells) -> str:
    if why := cells.failure(cell):
        return f"{cell.name}: failed: {why}"
    evaluation = cells.evaluation(cell) if isinstance(cell, Finetune) else None
    value = score_of(evaluation)["value"] if evaluation else None
    return f"{cell.name}: done" + (f", {value:.3f}" if value is not None else "")
