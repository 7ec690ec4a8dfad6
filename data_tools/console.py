"""What a command says: progress, and one line for what went wrong."""

import argparse
import errno
import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
_SECONDS_BETWEEN_LINES = 10


def say(line: str) -> None:
    print(line, flush=True)


def shown(name: str) -> str:
    """A file's name, which may hold anything, on one line of a terminal."""
    return name if name.isprintable() else ascii(name)


def progress(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """A bar on a terminal; in a log a line now and then."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        yield from tqdm(items, total=total, desc=what, leave=False)
        return
    begin = last = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_LINES and done < total:
            last = now
            say(f"{what}: {done} of {total}, {(now - begin) * (total - done) / done:.0f} s left")


def run(
    command: Callable[[argparse.Namespace], int],
    arguments: argparse.Namespace,
    interrupted: str = "the same command goes on from here",
) -> int:
    """-> exit code. What a user can mend is one line; a bug is a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files need not be text
    try:
        return command(arguments)
    except KeyboardInterrupt:
        return _fail(f"interrupted; {interrupted}", 130)
    except ValueError as error:
        return _fail(str(error), 1)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _fail(
                f"the disk is full ({error.filename or 'writing'}); make room, the same command goes on from here", 1
            )
        return _fail(str(error), 1)


def _fail(line: str, code: int) -> int:
    print(f"error: {line}", file=sys.stderr, flush=True)
    return code
