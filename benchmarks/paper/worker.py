"""One process of the queue, on one device: run after run of the grid, with the start-up paid once.

Started by benchmarks.paper.queue, which gives it what it needs as JSON; it says what it does in its log."""

import ctypes
import gc
import json
import os
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from benchmarks.paper import sizes
from benchmarks.paper.cells import Cells
from benchmarks.paper.grid import Cell, Pretrain, Selection
from engine.config.finetuning import FinetuneConfig
from engine.config.pretraining import PretrainConfig
from engine.evaluation import evaluate
from engine.training import ranks, runs
from engine.training.finetuning import Finetuning
from engine.training.pretraining import Pretraining
from engine.training.ranks import Ranks

_DAMAGED = 1  # exit code after an error that may have left this process unfit for more
_told: list[int] = []  # signals that have come between runs
_WAIT = 1.0  # seconds, while what is left waits for others


@dataclass(frozen=True)
class Order:
    """What a worker is told."""

    selection: Selection
    size: str
    data: tuple[str, ...]
    out: str
    parent: int  # process

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def read(text: str) -> "Order":
        values: dict[str, Any] = json.loads(text)
        chosen: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in values.pop("selection").items()
        }
        return Order(**values | {"selection": Selection(**chosen), "data": tuple(values["data"])})


def main() -> NoReturn:
    order = Order.read(sys.argv[1])
    try:
        obey_parent(order.parent)
        code = _work(order, ranks.start())
    except SystemExit as stopped:
        _ignore_signals()
        code = int(stopped.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # torch's own exit may wait


def obey_parent(parent: int) -> None:
    """It is stopped by its parent's signal, or by its death."""
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, _stop)
    set_death_signal = 1  # PR_SET_PDEATHSIG of linux/prctl.h
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)
    _leave_if_told(parent)


def _stop(number: int, _: FrameType | None) -> None:
    _told.append(number)
    raise SystemExit(128 + number)  # lost where it meets a finalizer: Python prints it and goes on


def _ignore_signals() -> None:
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, signal.SIG_IGN)


def _leave_if_told(parent: int) -> None:
    if _told:
        raise SystemExit(128 + _told[0])
    if os.getppid() != parent:
        raise SystemExit(128 + signal.SIGTERM)


def _work(order: Order, together: Ranks) -> int:
    cells, size = Cells(Path(order.out) / "cells"), sizes.read(order.size)
    listed = order.selection.cells()
    while True:
        _leave_if_told(order.parent)
        taken = cells.take(listed)
        if taken is None:
            if all(cells.done(cell) or cells.hopeless(cell) for cell in listed):
                return 0
            time.sleep(_WAIT)
            continue
        cell, held = taken
        with held:
            code = _one(cell, cells, size, order.data, together)
        if code:
            return code


def _one(cell: Cell, cells: Cells, size: sizes.Size, data: tuple[str, ...], together: Ranks) -> int:
    """-> 0: go on with the next."""
    begin = time.monotonic()
    print(f"\n{cell.name}: begins", flush=True)
    try:
        code = _train(cell, cells, size, data, together)
        if code == 0 and not isinstance(cell, Pretrain):
            cells.keep(cell, evaluate(cells.of(cell), data, cell.task, device=together.device))
    except (ValueError, OSError) as failure:
        cells.fail(cell, str(failure))
        print(f"{cell.name}: failed: {failure}", flush=True)
        return 0
    except Exception as failure:
        cells.fail(cell, f"{type(failure).__name__}: {failure}")
        traceback.print_exc()
        return _DAMAGED
    finally:
        gc.collect()
        gc.freeze()  # DeepSpeed collects a hundred times at the start of each run: only what is new
    if code == 0:
        cells.tidy(cell)
        print(f"{cell.name}: done in {time.monotonic() - begin:.0f} s", flush=True)
    return code


def _train(cell: Cell, cells: Cells, size: sizes.Size, data: tuple[str, ...], together: Ranks) -> int:
    if cells.trained(cell):
        return 0
    config = sizes.config(cell, size, data, cells.folder)
    if isinstance(config, PretrainConfig):
        return runs.train(Pretraining, config, "auto", together)
    assert isinstance(config, FinetuneConfig)
    return runs.train(Finetuning, config, "auto", together)


if __name__ == "__main__":
    main()
