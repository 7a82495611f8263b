"""The second deadline of a test: for one that hangs again while it cleans up.

pytest-timeout raises in the test once. If that is not its end, the watchdog raises
again, some times, and then gives the process up; pytest-xdist reports the test as
failed and starts another worker. It runs in workers only.
"""

import os
import signal
import threading
import time

import pytest

_GRACE_SECONDS = float(os.environ.get("SB_TIMEOUT_GRACE", "45"))
_STRIKES = 3
_GIVEN_UP = 70


class Watchdog:
    """Watches the one test that runs in this process."""

    def __init__(self) -> None:
        # On the monotonic clock; None: nothing runs, or without a limit.
        self._deadline: float | None = None
        self._strike_count = 0

    def start(self) -> None:
        # Signals go to the main thread: where the tests are not there, no use.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, self._interrupt)
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def begin(self, timeout_seconds: float) -> None:
        self._strike_count = 0
        limit = time.monotonic() + timeout_seconds + _GRACE_SECONDS
        self._deadline = limit if timeout_seconds else None

    def end(self) -> None:
        self._deadline = None

    def _interrupt(self, *_: object) -> None:
        if self._deadline is not None:
            pytest.fail("it timed out, and hung again while it cleaned up")

    def _watch(self) -> None:
        while True:
            time.sleep(1)
            deadline = self._deadline
            if deadline is None or time.monotonic() < deadline:
                continue
            self._strike_count += 1
            if self._strike_count > _STRIKES:
                os._exit(_GIVEN_UP)
            self._deadline = time.monotonic() + _GRACE_SECONDS
            main_thread = threading.main_thread().ident
            assert main_thread is not None
            signal.pthread_kill(main_thread, signal.SIGUSR1)
