"""The window: the head of a fragment's ready messages, held in memory.

Memory must not grow with the backlog. So only the first messages are here; the rest is
read from disk in portions. There are two parts, delivered in this order: returned
messages (abandoned, released, lock expired), lowest sequence number first, and then the
head of those never delivered. Returned messages were delivered before, so they are
older than the head, and no comparison with the head is needed.

    disk: . . . . . . . . . . . . . . . . . . . .
              returned    head          not loaded
              (holes)     |----------|  ........
                                     loaded_through      tail

The bytes of a returned message may be in the store only. It keeps its place, and
nothing after it is delivered before the bytes are read again.

A message that expires in the window is marked `LEAVING` and skipped at its turn,
because removing it from the middle of a deque would need a scan.
"""

from collections import deque
from heapq import heappop, heappush, nsmallest
from typing import final

from twinbus.broker.message import LEAVING, NOWHERE, READY, Message
from twinbus.broker.row_id import sequence_of
from twinbus.limits import (
    IDLE_WINDOW_BYTES,
    IDLE_WINDOW_MESSAGES,
    WINDOW_BYTES,
    WINDOW_MESSAGES,
)


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
        # Limits of the head, in messages and bytes; small while there are no receivers.
        self._limit: int = IDLE_WINDOW_MESSAGES
        self._limit_bytes: int = IDLE_WINDOW_BYTES
        # Bytes of the returned messages that are in memory.
        self._returned_bytes: int = 0

    def has_ready(self) -> bool:
        """True if a message may be taken now. It may turn out to be expired."""
        if self._returned and self.lacks_bodies():
            return False
        return bool(self._returned) or bool(self._head)

    def lacks_bodies(self) -> bool:
        """True if the bytes of the next message are only in the store."""
        returned = self._returned
        while returned and returned[0][1].place == LEAVING:
            self._returned_bytes -= len(heappop(returned)[1].raw)
        return bool(returned) and returned[0][1].absent_bytes != 0

    def absent(self, limit_bytes: int) -> list[Message]:
        """The next messages whose bytes must be read: at least one, if any."""
        found: list[Message] = []
        size_bytes = 0
        for _, message in nsmallest(WINDOW_MESSAGES, self._returned):
            if message.absent_bytes == 0 or message.place == LEAVING:
                continue
            if found and size_bytes + message.absent_bytes > limit_bytes:
                break
            size_bytes += message.absent_bytes
            found.append(message)
        return found

    def bring_body(self, message: Message, raw: bytes) -> None:
        """The bytes of a returned message were read."""
        message.bring_body(raw)
        self._returned_bytes += len(raw)

    def ready_count(self) -> int:
        """How many messages could be taken, including those about to expire."""
        return len(self._returned) + len(self._head)

    def wants_refill(self) -> bool:
        """True if the head is low and the disk has more, or the next body is
        missing."""
        if self._returned and self.lacks_bodies():
            return True
        return self.loaded_through < self.tail and 2 * len(self._head) < self._limit

    def room(self) -> int:
        """How many messages a refill may add."""
        return self._limit - len(self._head)

    def publish(self, messages: list[Message]) -> None:
        """New messages are durable. The head takes them if it has all before them."""
        head = self._head
        was_complete = self.loaded_through == self.tail
        self.tail = sequence_of(messages[-1].row_id)
        if not was_complete:
            return
        for message in messages:
            if len(head) >= self._limit or self._head_bytes > self._limit_bytes:
                return
            if message.absent_bytes != 0:
                return  # a dead letter whose bytes only the store has seen
            self._append(message)

    def refill(self, messages: list[Message], through: int) -> None:
        """Add what the store read after `loaded_through`, up to `through`."""
        for message in messages:
            self._append(message)
        self.loaded_through = max(self.loaded_through, through)

    def _append(self, message: Message) -> None:
        self._head.append(message)
        self._head_bytes += len(message.raw)
        message.place = READY
        self.loaded_through = sequence_of(message.row_id)

    def give_back(self, message: Message) -> None:
        """A delivered message is ready again, before all newer ones."""
        message.place = READY
        if self._returned_bytes + len(message.raw) > WINDOW_BYTES:
            # The limit for returned messages is the same as for the head.
            message.leave_body()
        self._returned_bytes += len(message.raw)
        heappush(self._returned, (message.row_id, message))

    def take(self) -> Message | None:
        """The next message, or None. The caller checks whether it has expired."""
        if self._returned and self.lacks_bodies():
            return None
        if self._returned:
            message = heappop(self._returned)[1]
            self._returned_bytes -= len(message.raw)
            return message
        head = self._head
        while head:
            message = head.popleft()
            self._head_bytes -= len(message.raw)
            if message.place != LEAVING:
                return message
        return None

    def open_wide(self) -> None:
        """A receiver is attached: hold a full window."""
        self._limit = WINDOW_MESSAGES
        self._limit_bytes = WINDOW_BYTES

    def is_wide(self) -> bool:
        return self._limit == WINDOW_MESSAGES

    def shrink(self) -> None:
        """No receiver is left: keep only a few messages."""
        self._limit = IDLE_WINDOW_MESSAGES
        self._limit_bytes = IDLE_WINDOW_BYTES
        head = self._head
        while len(head) > IDLE_WINDOW_MESSAGES or (
            head and self._head_bytes > IDLE_WINDOW_BYTES
        ):
            message = head.pop()
            self._head_bytes -= len(message.raw)
            self.loaded_through = sequence_of(message.row_id) - 1
            if message.place == READY:
                message.place = NOWHERE

    def let_go(self) -> None:
        """The window is no longer used: its messages are only on disk."""
        for _, message in self._returned:
            if message.place == READY:
                message.place = NOWHERE
        for message in self._head:
            if message.place == READY:
                message.place = NOWHERE
        self._returned = []
        self._head = deque()
        self._head_bytes = 0
        self._returned_bytes = 0

    def ready_messages(self) -> list[Message]:
        """All messages that could be taken, in order: for batch delete and tests."""
        returned = [message for _, message in sorted(self._returned)]
        ready = returned + list(self._head)
        return [message for message in ready if message.place == READY]
