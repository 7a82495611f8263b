"""A thread that notices when the loop does not turn any more, and ends the process.

It counts its own looks and not the time: a process that was stopped for a while, with
all its threads, is not stuck. If the interpreter itself is stuck, no thread of Python
runs. Then the stacks are left in a file, without Python; whoever asks such a process
for its health has to end it.
"""

import contextlib
import faulthandler
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TextIO

_LOOKS: Final = 20
"""Looks at the loop until it counts as stuck."""

_WRITING_SECONDS: Final = 10.0
"""How long the data may take: the disk may be what is stuck."""

_LAST_RESORT_SECONDS: Final = 15.0


class Watchdog:
    """Of the loop of one process."""

    def __init__(
        self,
        patience_seconds: float,
        beat_count: Callable[[], int],
        on_stuck: Callable[[], None],
        exit_code: int,
    ) -> None:
        self._patience = patience_seconds
        # Rises with every turn of the loop.
        self._beat_count = beat_count
        # Leaves data behind.
        self._on_stuck = on_stuck
        self._exit_code = exit_code
        self._is_over = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="watchdog", daemon=True
        )
        self._last_resort: TextIO | None = None

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
        beat, missed = -1, 0
        while not self._is_over.wait(self._patience / _LOOKS):
            latest = self._beat_count()
            missed = 0 if latest != beat else missed + 1
            beat = latest
            if missed >= _LOOKS:
                self._end()
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
