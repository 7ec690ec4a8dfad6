"""What the commands have in common: how they end, and a file of text that is whole or not there."""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path


def run(command: Callable[[argparse.Namespace], int], given: argparse.Namespace) -> int:
    """-> exit code. What a user can mend is one line; so is SIGTERM, which undoes what was begun as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        return command(given)
    except KeyboardInterrupt as stopped:
        print("error: interrupted; nothing was written", file=sys.stderr)
        return 128 + (stopped.args[0] if stopped.args else signal.SIGINT)
    except (ValueError, OSError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)


def check_file(flag: str, path: Path) -> None:
    """Before the work."""
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{flag} {path} should be a file, in a folder that is there")


def write(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".tmp")
    try:
        unfinished.write_text(text)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _stop(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)
