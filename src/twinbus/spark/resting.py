"""A pause when there is nothing to read.

A query with the default trigger asks a hundred times a second for new messages. Each
time costs a twinbus a request or two, and with a lease a commit. The vendor's service
bills each request.
"""

import threading
from typing import Final

TWINBUS_SECONDS: Final = 0.1
AMQP_SECONDS: Final = 1.0


def rest(seconds: float) -> None:
    threading.Event().wait(seconds)
