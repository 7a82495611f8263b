"""A pause when there is nothing to read.

A query with the default trigger asks a hundred times a second whether something has
come. At a twinbus each time is a request or two, and under a lease a commit; elsewhere
it is billed.
"""

import threading
from typing import Final

TWINBUS_SECONDS: Final = 0.1
AMQP_SECONDS: Final = 1.0


def rest(seconds: float) -> None:
    threading.Event().wait(seconds)
