"""Messages that were deleted for a client, which has withdrawn its credit meanwhile.

In receive-and-delete mode a message is sent when its removal is durable. SDKs set the
credit of a link anew for each receive, so it may be lower by then. These messages are
sent with the next credit, before all others. If the link ends first, they are lost:
that is what receive-and-delete allows.

A link has no more of them than the credit that it had before.
"""

from collections import deque
from typing import final

from twinbus.amqp.link import Link


@final
class OwedDeliveries:
    """Of one link. What it sends is settled, and has no tag, as in the service."""

    def __init__(self, link: Link) -> None:
        self._link: Link = link
        # Payloads and message formats.
        self._owed: deque[tuple[bytes, int]] = deque()

    def send(self, payload: bytes, message_format: int = 0) -> None:
        """Send the message now if there is credit, or with the next."""
        link = self._link
        if link.credit > 0 and not self._owed:
            link.send(payload, b"", True, None, message_format)
        else:
            self._owed.append((payload, message_format))

    def pay(self) -> bool:
        """Send what waits, as far as the credit and the window go; False if nothing
        was sent."""
        owed, link = self._owed, self._link
        if not owed:
            return False
        sent_count = 0
        while owed and link.credit > 0 and link.session.window_open():
            payload, message_format = owed.popleft()
            link.send(payload, b"", True, None, message_format)
            sent_count += 1
        return sent_count > 0
