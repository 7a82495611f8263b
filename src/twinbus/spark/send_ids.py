"""Send ids of rows, which make a second attempt harmless.

Spark may send a row more than once: a task fails and is repeated, or runs twice because
it is slow, or a whole batch is repeated after a crash. A bus drops a message whose id
it knows. The id is made from the value of a column that the user names, and from a
scope, which separates two uses of the same values. It has nothing else in it, so a
second run of a job, or a query with a new checkpoint, sends no message twice either.

The id is not made from the row's position. After a shuffle, rows come in any order, and
a repeated task has them in another order: a row that was never sent would get the id of
one that was, and would be dropped.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

_ID_BYTES: Final = 16
_PERSON: Final = b"twinbus.spark"
"""Separates our ids from those of other senders."""


def send_ids(scope: str, values: Sequence[bytes]) -> list[bytes]:
    """One id for each value."""
    start = blake2b(digest_size=_ID_BYTES, person=_PERSON)
    encoded = scope.encode()
    # With its length, so that two pairs of scope and value never look the same.
    start.update(len(encoded).to_bytes(4, "big") + encoded)
    ids = []
    for value in values:
        digest = start.copy()
        digest.update(value)
        ids.append(digest.digest())
    return ids
