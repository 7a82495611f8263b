"""Transfer queues: where a paired namespace keeps what its primary could not take.

    {primary}/x-servicebus-transfer/{index}

A backlog queue is an ordinary queue with such a path (P4). That it takes messages a
little above the limit is all that makes it differ (P10).
"""

import re
from typing import Final

_PATH: Final = re.compile(r"(.+)/x-servicebus-transfer/[0-9]+", re.IGNORECASE)


def is_transfer_queue(path: str) -> bool:
    return _PATH.fullmatch(path) is not None


def primary_of(path: str) -> str:
    """The name of the namespace whose messages the queue of this path keeps."""
    match = _PATH.fullmatch(path)
    assert match is not None, f"{path} is no transfer queue"
    return match[1]
