"""A thread that notices when the loop does not turn any more, and ends the process.

It counts its own looks and not the time: a process that was stopped for a while, with
all its threads, is not stuck. A broker among others has less time: they end it when
it was not heard of for a term. So it leaves its data behind early, and goes on. If the
interpreter itself is stuck, no thread of Python runs. Then the stacks are left in a
file, without Python; whoever asks such a process for its health has to end it.
"""

import contextlib
import faulthandler
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TextIO

from twinbus.diagnosis.standstill import Standstill

_LOOKS: Final = 20
"""Looks at the loop until it counts as stuck."""

_EARLY_LOOKS: Final = 10
"""Looks at the loop until there is an early diagnosis."""

_EARLY_PAUSE_SECONDS: Final = 30.0
"""So long after an early diagnosis there is no other one."""

_WRITING_SECONDS: Final = 10.0
"""How long the data may take: the disk may be what is stuck."""

_LAST_RESORT_SECONDS: Final = 15.0


class Watchdog:
    """Of the loop of one process."""

    def __init__(
        self,
        patience_seconds: float,
        beat_count: Callable[[], int],
        on_stuck: Callable[[], object],
        exit_code: int,
    ) -> None:
        self._patience = patience_seconds
        self._pause = patience_seconds / _LOOKS
        # Rises with every turn of the loop.
        self._beat_count = beat_count
        # Leaves data behind.
        self._on_stuck = on_stuck
        self._exit_code = exit_code
        # Leaves data behind before others end the process; None: nobody would.
        self._on_silent: Callable[[], None] | None = None
        self._standstill = Standstill()
        self._is_over = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="watchdog", daemon=True
        )
        self._last_resort: TextIO | None = None

    def write_early(self, seconds: float, on_silent: Callable[[], None]) -> None:
        """Call it once for a loop that does not turn for so long. Before the start."""
        if seconds < self._patience:
            self._pause = min(self._pause, seconds / _EARLY_LOOKS)
            self._standstill = Standstill(
                round(seconds / self._pause), round(_EARLY_PAUSE_SECONDS / self._pause)
            )
            self._on_silent = on_silent

    def start(self, last_resort: Path) -> None:
        """`last_resort` gets the stacks if no thread of Python runs any more."""
        last_resort.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._last_resort = last_resort.open("w")
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        faulthandler.cancel_dump_traceback_later()
        if self._last_resort is not None:
            self._last_resort.close()
            _remove_if_empty(Path(self._last_resort.name))

    def _watch(self) -> None:
        standstill, most = self._standstill, round(self._patience / self._pause)
        while not self._is_over.wait(self._pause):
            standstill.look(self._beat_count())
            if standstill.missed_count >= most:
                self._end()
            if standstill.is_early_due() and self._on_silent is not None:
                # In a thread of its own, as in `_end`.
                threading.Thread(target=self._on_silent, daemon=True).start()
            self._arm()

    def _arm(self) -> None:
        """Without this thread's next look, the system writes the stacks by itself."""
        if self._last_resort is not None:
            seconds = self._patience + _LAST_RESORT_SECONDS
            faulthandler.dump_traceback_later(seconds, file=self._last_resort)

    def _end(self) -> None:
        # In a thread of its own: if the disk hangs, the process ends nevertheless.
        writing = threading.Thread(target=self._on_stuck, daemon=True)
        writing.start()
        writing.join(_WRITING_SECONDS)
        os._exit(self._exit_code)


def _remove_if_empty(file: Path) -> None:
    """The file, and the folders that were made for it if they have nothing else. A bus
    that keeps nothing leaves nothing behind."""
    if file.exists() and file.stat().st_size == 0:
        file.unlink()
    with contextlib.suppress(OSError):
        file.parent.rmdir()
        file.parent.parent.rmdir()
