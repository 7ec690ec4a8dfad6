"""Why a run should stop: a signal, its time, a file. Nothing stops at once; the loop asks between micro-steps."""

import signal
import time
from pathlib import Path
from types import FrameType
from typing import Final

from engine.training.ranks import Ranks

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_TIME, _FILE = 1000, 1001


class Stopping:
    """Signals that come again are ignored: the state is being saved."""

    def __init__(self, ranks: Ranks, file: Path, max_minutes: float | None) -> None:
        self._ranks = ranks
        self._file = file
        self._end = time.monotonic() + 60 * max_minutes if max_minutes else float("inf")
        self._heard = 0
        self._before = {one: signal.signal(one, self._hear) for one in _SIGNALS}

    def _hear(self, number: int, _: FrameType | None) -> None:
        self._heard = self._heard or number

    def close(self) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def reason(self) -> str | None:
        """The same on all ranks, which meet here."""
        heard = self._heard
        if not heard and time.monotonic() > self._end:
            heard = _TIME
        if not heard and self._ranks.first and self._file.exists():
            heard = _FILE
        agreed = self._ranks.agree(heard)
        if not agreed:
            return None
        return {_TIME: "run.max_minutes", _FILE: "stop file"}.get(agreed) or signal.Signals(agreed).name
