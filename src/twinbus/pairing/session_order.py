"""Which sessions must wait behind a backlog, where order is to be kept.

All diverted messages of a session go into one backlog queue, so they stay in order.
While one of them may still wait there, a new message of that session must not go to the
primary directly, because it would overtake.

Peeking through a queue tells which sessions wait in it, including messages that an
earlier process left. Until a queue was peeked through, it may have messages of any
session. A queue that cannot be peeked at makes no session wait: if the secondary is
away, sends to a healthy primary must go on.

Pure: it is told what was diverted and what was seen, and says which sessions wait.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import final

SessionKey = tuple[str, str]
"""Entity path and session id."""


@final
class SessionOrder:
    """What one process knows of sessions and backlog queues."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = tuple(queues)
        # Queues that were not peeked through yet, and those where that failed.
        self._unknown = set(queues)
        self._unread: set[str] = set()
        # Where something of a session waits, and the turn in which it last went there.
        self._behind: dict[SessionKey, tuple[str, int]] = {}
        # Counts diversions: what is diverted while a queue is looked through is newer
        # than the look.
        self._turn = 0

    def queue_of(self, key: SessionKey) -> str:
        """The queue of a session: the one where it waits, else one that follows from
        its name, so that every process takes the same one, also after a restart."""
        behind = self._behind.get(key)
        if behind is not None:
            return behind[0]
        return max(self._queues, key=lambda queue: _weight(queue, key))

    def knows(self, key: SessionKey) -> bool:
        """Whether we know where messages of this session wait, or that none do. They
        may be in any queue: its own may have been out of rotation at that time."""
        return key in self._behind or not self._unknown

    def is_behind(self, key: SessionKey) -> bool:
        """Whether a message of this session must not go to the primary directly now."""
        return key in self._behind or bool(self._unknown)

    def diverted(self, key: SessionKey, queue: str) -> None:
        self._turn += 1
        self._behind[key] = (queue, self._turn)

    def to_look_through(self) -> list[str]:
        """Queues that have to be peeked through."""
        waited_for = {queue for queue, _ in self._behind.values()}
        waited_for |= self._unknown | self._unread
        return [queue for queue in self._queues if queue in waited_for]

    def unknown(self) -> list[str]:
        """Queues that were never peeked through."""
        return [queue for queue in self._queues if queue in self._unknown]

    def begin_look(self) -> int:
        """Call before a queue is peeked through; pass the result to `looked`."""
        return self._turn

    def looked(self, queue: str, began: int, found: set[SessionKey]) -> None:
        """The whole queue was peeked through; these sessions wait in it."""
        self._unknown.discard(queue)
        self._unread.discard(queue)
        for key, (place, turn) in list(self._behind.items()):
            if place == queue and turn <= began and key not in found:
                del self._behind[key]
        for key in found:
            self._behind.setdefault(key, (queue, began))

    def could_not_look(self, queue: str) -> None:
        """Peeking through the queue failed: keep what we know of it."""
        if queue in self._unknown:
            self._unknown.discard(queue)
            self._unread.add(queue)


def _weight(queue: str, key: SessionKey) -> bytes:
    text = "\0".join((queue, *key))
    return blake2b(text.encode(), digest_size=8).digest()
