"""The window: the head of a fragment's ready messages, held in memory.

Memory must not grow with the backlog (D3), so only the first messages are here;
the rest is on disk and is read in portions. Two parts, delivered in this order:
what came back (abandoned, released, lock expired), lowest sequence number first,
and the head of what was never delivered. Everything that came back was delivered
before, so it is always older than the head, and one comparison is never needed.

    disk: . . . . . . . . . . . . . . . . . . . .
              returned    head          not loaded
              (holes)     |----------|  ........
                                     loaded_through      tail

A message that expires while it waits here is marked `LEAVING` and skipped when its
turn comes; taking it out of the middle of a deque would cost a scan.
"""

from collections import deque
from heapq import heappop, heappush
from typing import final

from twinbus.broker.message import LEAVING, NOWHERE, READY, Message
from twinbus.broker.row_id import sequence_of
from twinbus.limits import IDLE_WINDOW_MESSAGES, WINDOW_BYTES, WINDOW_MESSAGES


@final
class Window:
    """Ready messages of one fragment, or of one held session."""

    def __init__(self, tail: int) -> None:
        self._head: deque[Message] = deque()
        self._returned: list[tuple[int, Message]] = []
        # Bytes of the messages in the head.
        self._head_bytes: int = 0
        # Highest sequence number that has been in the head.
        self.loaded_through: int = 0
        # Highest sequence number that is durable.
        self.tail: int = tail
        # How many the head may hold; small while nobody receives.
        self._limit: int = IDLE_WINDOW_MESSAGES

    def has_ready(self) -> bool:
        """Something may be taken now. It may turn out to be expired."""
        return bool(self._returned) or bool(self._head)

    def ready_count(self) -> int:
        """How many could be taken, counting those about to expire."""
        return len(self._returned) + len(self._head)

    def wants_refill(self) -> bool:
        """The head runs low and there is more on disk."""
        return self.loaded_through < self.tail and 2 * len(self._head) < self._limit

    def room(self) -> int:
        """How many messages a refill may bring."""
        return self._limit - len(self._head)

    def publish(self, messages: list[Message]) -> None:
        """New messages are durable; the head takes them if it reaches to the tail."""
        head = self._head
        was_complete = self.loaded_through == self.tail
        self.tail = sequence_of(messages[-1].row_id)
        if not was_complete:
            return
        for message in messages:
            if len(head) >= self._limit or self._head_bytes > WINDOW_BYTES:
                return
            self._append(message)

    def refill(self, messages: list[Message], through: int) -> None:
        """What a store read after `loaded_through`, up to `through`."""
        for message in messages:
            self._append(message)
        self.loaded_through = max(self.loaded_through, through)

    def _append(self, message: Message) -> None:
        self._head.append(message)
        self._head_bytes += len(message.raw)
        message.place = READY
        self.loaded_through = sequence_of(message.row_id)

    def give_back(self, message: Message) -> None:
        """A delivered message is ready again, before everything newer."""
        message.place = READY
        heappush(self._returned, (message.row_id, message))

    def take(self) -> Message | None:
        """The next message, or None; the caller checks whether it has expired."""
        while self._returned:
            message = heappop(self._returned)[1]
            if message.place != LEAVING:
                return message
        head = self._head
        while head:
            message = head.popleft()
            self._head_bytes -= len(message.raw)
            if message.place != LEAVING:
                return message
        return None

    def open_wide(self) -> None:
        """Somebody receives: hold a full window."""
        self._limit = WINDOW_MESSAGES

    def is_wide(self) -> bool:
        return self._limit == WINDOW_MESSAGES

    def shrink(self) -> None:
        """Nobody receives any more: let go of all but a few."""
        self._limit = IDLE_WINDOW_MESSAGES
        head = self._head
        while len(head) > IDLE_WINDOW_MESSAGES:
            message = head.pop()
            self._head_bytes -= len(message.raw)
            self.loaded_through = sequence_of(message.row_id) - 1
            if message.place == READY:
                message.place = NOWHERE

    def let_go(self) -> None:
        """Nobody will take from here any more: all is the disk's again."""
        for _, message in self._returned:
            if message.place == READY:
                message.place = NOWHERE
        for message in self._head:
            if message.place == READY:
                message.place = NOWHERE
        self._returned = []
        self._head = deque()
        self._head_bytes = 0

    def ready_messages(self) -> list[Message]:
        """All that could be taken, in order: for batch delete and for tests."""
        returned = [message for _, message in sorted(self._returned)]
        ready = returned + list(self._head)
        return [message for message in ready if message.place == READY]
