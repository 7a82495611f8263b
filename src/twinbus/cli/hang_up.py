"""What SIGHUP means: read the certificate again, or the terminal has gone.

Programs that run in the background take it as a request. To one in a terminal it comes
when that is closed, too, and then the server stops, so that it is not left behind.
"""

import asyncio
import signal
import sys
from collections.abc import Callable


def heed_hang_up(reload: Callable[[], None], stop: Callable[[], None]) -> None:
    """From now on SIGHUP calls one of these."""
    had_terminal = _has_terminal()

    def hung_up() -> None:
        if had_terminal and not _has_terminal():
            stop()
        else:
            reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up)


def _has_terminal() -> bool:
    """False once it is closed."""
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except (OSError, ValueError):
        return False
