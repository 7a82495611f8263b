"""What an entity takes from one connection: sizes, and what messages may ask for.

The limit is that of the entity as it is announced. A message that carries an id of
twinbus's own may be larger by the head-room, because whoever restores it added the id
to a message that was within the limit (P10).

Ranges of restored messages are shared by all entities of a store, so a right to send to
one entity must not make the restores of another vanish: what a message was restored
from counts only if its sender may send to the whole namespace (D12).
"""

from collections.abc import Callable
from typing import final

from twinbus.broker.message import Message
from twinbus.encoding.batch import BATCH_FORMAT, read_batch
from twinbus.encoding.identity import restored_from
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import IDENTIFIED, IN_TRANSFER, RESTORED
from twinbus.errors import MessageSizeExceeded
from twinbus.limits import PROPERTIES_BYTES
from twinbus.links.extensions import Extensions


def _nobody(now: int) -> bool:
    return False


@final
class Arrivals:
    """Reads what is sent to one entity on one connection."""

    def __init__(
        self,
        path: str,
        extensions: Extensions,
        max_message_bytes: int,
        headroom_bytes: int = 0,
        may_restore: Callable[[int], bool] = _nobody,
    ) -> None:
        self._path: str = path
        self._offered: int = extensions.offered
        # As it is announced; that of a transfer queue has its head-room in it.
        self.max_message_bytes: int = max_message_bytes
        # What is not even read beyond.
        self.tolerated_bytes: int = max_message_bytes
        if headroom_bytes == 0:
            self.tolerated_bytes += extensions.headroom_bytes
        self._properties_bytes: int = PROPERTIES_BYTES + headroom_bytes
        self._place: int = 0 if headroom_bytes == 0 else IN_TRANSFER
        # Whether the connection may send to the whole namespace, at an instant.
        self._may_restore: Callable[[int], bool] = may_restore
        # Bits of the layouts of those that were read last, all together.
        self.marks: int = 0

    def read(self, payload: bytes, message_format: int, now: int) -> list[Message]:
        """The messages of one delivery. Raises ArgumentError, MessageSizeExceeded."""
        if message_format == BATCH_FORMAT:
            messages = read_batch(payload, self._offered, self._properties_bytes)
        else:
            messages = [read_message(payload, self._offered, self._properties_bytes)]
        marks = 0
        for message in messages:
            message.layout |= self._place
            marks |= message.layout
        if marks & RESTORED != 0 and not self._judge(messages, now):
            marks ^= RESTORED
        if len(payload) > self.max_message_bytes and marks & IDENTIFIED == 0:
            raise self.too_large()
        self.marks = marks
        return messages

    def read_one(self, payload: bytes, now: int) -> Message:
        """The one message of a request. Raises ArgumentError, MessageSizeExceeded."""
        if len(payload) > self.tolerated_bytes:
            raise MessageSizeExceeded.measured(
                len(payload),
                limit_bytes=self.max_message_bytes,
                entity_path=self._path,
            )
        return self.read(payload, 0, now)[0]

    def _judge(self, messages: list[Message], now: int) -> bool:
        """Whether the sender may say what the messages were restored from; if not,
        they do not say so. Raises ArgumentError."""
        may_restore = self._may_restore(now)
        for message in messages:
            if message.layout & RESTORED == 0:
                continue
            if may_restore:
                restored_from(message)
            else:
                message.layout ^= RESTORED
        return may_restore

    def too_large(self) -> MessageSizeExceeded:
        return MessageSizeExceeded(
            f"The message is larger than {self.max_message_bytes} bytes, the limit of "
            f"'{self._path}'. Send a smaller one, or raise it.",
            entity_path=self._path,
        )
