"""Which sessions must wait behind a backlog, where order is to be kept.

A session's diverted messages all go into one backlog queue, so that they stay in
order. While any of them may still wait there, a new message of that session must not
overtake them on the straight way. What waits in a queue is found by looking through it:
that also tells what an earlier process has left there, so a queue that was not looked
through since the start may hold something of every session. Only one that cannot be
looked at holds nobody up: a secondary that is away must not keep sends from a primary
that is well.

Pure: told what was diverted and what was seen, it says who must wait.
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
        # Queues that nobody has tried to look through yet, and those where it failed.
        self._unknown = set(queues)
        self._unread: set[str] = set()
        # Where something of a session waits, and the turn in which it last went there.
        self._behind: dict[SessionKey, tuple[str, int]] = {}
        # Counts diversions: what is diverted while a queue is looked through is newer
        # than the look.
        self._turn = 0

    def queue_of(self, key: SessionKey) -> str:
        """The queue of a session: where it waits, else one that depends on its name
        alone, so that every process and every life of it takes the same."""
        behind = self._behind.get(key)
        if behind is not None:
            return behind[0]
        return max(self._queues, key=lambda queue: _weight(queue, key))

    def knows(self, key: SessionKey) -> bool:
        """It is known where something of this session waits, or that nothing does. It
        may be in any queue: its own may have been out of use when it was diverted."""
        return key in self._behind or not self._unknown

    def is_behind(self, key: SessionKey) -> bool:
        """A message of this session must not go the straight way now."""
        return key in self._behind or bool(self._unknown)

    def diverted(self, key: SessionKey, queue: str) -> None:
        self._turn += 1
        self._behind[key] = (queue, self._turn)

    def to_look_through(self) -> list[str]:
        """Queues of which more must be known."""
        waited_for = {queue for queue, _ in self._behind.values()}
        waited_for |= self._unknown | self._unread
        return [queue for queue in self._queues if queue in waited_for]

    def unknown(self) -> list[str]:
        """Queues of which nothing is known yet."""
        return [queue for queue in self._queues if queue in self._unknown]

    def begin_look(self) -> int:
        """A queue is going to be looked through; to be handed to `looked`."""
        return self._turn

    def looked(self, queue: str, began: int, found: set[SessionKey]) -> None:
        """All of the queue was looked through, and these sessions are there."""
        self._unknown.discard(queue)
        self._unread.discard(queue)
        for key, (place, turn) in list(self._behind.items()):
            if place == queue and turn <= began and key not in found:
                del self._behind[key]
        for key in found:
            self._behind.setdefault(key, (queue, began))

    def could_not_look(self, queue: str) -> None:
        """What is known of the queue stays as it is."""
        if queue in self._unknown:
            self._unknown.discard(queue)
            self._unread.add(queue)


def _weight(queue: str, key: SessionKey) -> bytes:
    text = "\0".join((queue, *key))
    return blake2b(text.encode(), digest_size=8).digest()
