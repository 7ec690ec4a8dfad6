"""Two worktrees in one run, in turns: an update of this one, an update of that one, and the matrix rate between them.

python -m benchmarks.turns SIZE PAIRS, in a worktree: an update for each line it reads; prints the seconds of each.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import torch

from benchmarks import machine, report
from benchmarks.judging import Judgement, paired
from benchmarks.wording import scaled
from engine import hardware

_FLOOR = 0.025  # two processes of the same code may differ by so much for as long as they live
_WARM = 5  # turns of each that are not counted
_PAUSE = 0.005  # seconds in which threads that wait for more work give up
_CUBE = 1024


def compare(old: Path, new: Path, size: str, pairs: int, count: int) -> int:
    """-> the exit code: 1 where the new one has really lost."""
    if count < 10:
        raise ValueError(f"--turns {count} should be 10 or more: fewer cannot tell noise from a change")
    with _worker(old, size, pairs) as first, _worker(new, size, pairs) as second:
        seconds, rates = _alternate(first, second, count)
    judgement = paired([1 / s for s in seconds[0]], [1 / s for s in seconds[1]], _FLOOR)
    work = _flops(size, pairs)
    for name, tree, found in (("A", old, seconds[0]), ("B", new, seconds[1])):
        shares = [work / second / rate for second, rate in zip(found, rates, strict=True)]
        print(
            f"{name} {report.commit(tree)}: {scaled([2 * pairs / s for s in found], 'segments/s')},"
            f" {statistics.median(shares):.1%} of the bf16 matrix rate"
        )
    print(f"matrix rate in between: {scaled(rates, 'FLOP/s')}; {count} turns of {size}, {pairs} pairs")
    print(_spoken(judgement))
    return int(judgement.is_loss)


def _flops(size: str, pairs: int) -> float:
    from engine.model.flops import training_flops
    from engine.model.sizes import SIZES

    return 2 * pairs * training_flops(SIZES[size])


def _spoken(judgement: Judgement) -> str:
    interval = f"{judgement.ratio:.3f} (99 %: {judgement.low:.3f} to {judgement.high:.3f})"
    return f"B : A = {interval}: {judgement.word} (floor {judgement.floor:.1%})"


@contextmanager
def _worker(tree: Path, size: str, pairs: int) -> Iterator[subprocess.Popen[str]]:
    if not (tree / "benchmarks" / "turns.py").is_file():
        raise ValueError(f"{tree} should be a worktree of this project that has benchmarks/turns.py")
    command = [sys.executable, "-m", "benchmarks.turns", size, str(pairs)]
    # Nothing is taken from anywhere but the worktree.
    environment = os.environ | {"PYTHONPATH": str(tree.resolve())}
    process = subprocess.Popen(
        command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait()


def _alternate(
    first: subprocess.Popen[str], second: subprocess.Popen[str], count: int
) -> tuple[tuple[list[float], list[float]], list[float]]:
    """-> seconds of each, and the matrix rate of each round. Who begins changes from round to round."""
    square = torch.randn(_CUBE, _CUBE, device=hardware.device()).bfloat16()
    seconds: tuple[list[float], list[float]] = ([], [])
    rates = []
    for number in range(_WARM + count):
        turn = [(0, first), (1, second)]
        found = {place: _ask(process) for place, process in (turn if number % 2 else reversed(turn))}
        rate = _matrix_rate(square)
        if number >= _WARM:
            rates.append(rate)
            for place in (0, 1):
                seconds[place].append(found[place])
    return seconds, rates


def _ask(process: subprocess.Popen[str]) -> float:
    assert process.stdin and process.stdout
    time.sleep(_PAUSE)
    process.stdin.write("\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise ValueError("one of the worktrees could not make an update; what it said is above")
    return float(answer)


def _matrix_rate(square: torch.Tensor) -> float:
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        square @ square
        machine.wait(square.device)
        best = min(best, time.perf_counter() - begin)
    return 2 * _CUBE**3 / best


def main(orders: IO[str], size: str, pairs: int) -> None:
    from benchmarks.step import leadwise
    from engine.model.sizes import SIZES

    torch.manual_seed(0)  # the same lots for both
    device = hardware.device()
    update = leadwise(SIZES[size], "w2v_cmsc_rlm", device, False, pairs)
    for _ in orders:
        machine.wait(device)
        begin = time.perf_counter()
        update()
        machine.wait(device)
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main(sys.stdin, sys.argv[1], int(sys.argv[2]))
