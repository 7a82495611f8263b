"""A pause when there is nothing to read.

A query with the default trigger asks a hundred times a second whether something has
come; elsewhere each time is a request that is billed.
"""

import threading
from typing import Final

_IDLE_SECONDS: Final = 1.0


def rest() -> None:
    threading.Event().wait(_IDLE_SECONDS)
