"""Send ids of rows: what makes a second attempt harmless.

Spark sends a row more than once: a task fails and is tried again, runs twice because it
is slow, or a whole batch is repeated after a crash. A bus that knows the id drops what
it has. The id is made of a value that the user names, and of a scope, which keeps
two uses of the same values apart; nothing else is in it, so that a second run of a
job, and a query with a new checkpoint, send nothing twice either.

It is not made of the row's position. After a shuffle rows come in whatever order they
arrive in, and a task that is tried again has them in another one: what stood in the
place of a row that was sent would be dropped, though nobody ever sent it.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

_ID_BYTES: Final = 16
_PERSON: Final = b"twinbus.spark"
"""No other sender's ids are made like this."""


def send_ids(scope: str, values: Sequence[bytes]) -> list[bytes]:
    """One id for each value."""
    start = blake2b(digest_size=_ID_BYTES, person=_PERSON)
    encoded = scope.encode()
    # With its length, so that no scope and value look like another's.
    start.update(len(encoded).to_bytes(4, "big") + encoded)
    ids = []
    for value in values:
        digest = start.copy()
        digest.update(value)
        ids.append(digest.digest())
    return ids
