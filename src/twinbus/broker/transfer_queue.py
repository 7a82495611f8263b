"""Transfer queues: they keep messages of a paired namespace while its primary is away.

    {primary}/x-servicebus-transfer/{index}

A backlog queue is an ordinary queue with such a path. The only difference is that it
accepts messages slightly above the size limit.
"""

import re
from typing import Final

_PATH: Final = re.compile(r"(.+)/x-servicebus-transfer/[0-9]+", re.IGNORECASE)


def is_transfer_queue(path: str) -> bool:
    return _PATH.fullmatch(path) is not None


def primary_of(path: str) -> str:
    """The name of the primary namespace in the path of a transfer queue."""
    match = _PATH.fullmatch(path)
    assert match is not None, f"{path} is not a transfer queue"
    return match[1]
