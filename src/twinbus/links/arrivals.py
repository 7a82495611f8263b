"""Reads messages that a connection sends to an entity, and checks their sizes.

The limit is the one that the entity announces. A message with a twinbus id may be
slightly larger (the headroom), because the client that restores it added the id to a
message within the limit.

The records of restored messages are shared by all entities of a store. So a client that
may send only to one entity must not be able to block restores to another: the origin of
a message is used only if its sender may send to the whole namespace.
"""

from collections.abc import Callable, Sequence
from typing import final

from twinbus.broker.message import Message
from twinbus.encoding.batch import BATCH_FORMAT, data_bytes, encode_batch, read_batch
from twinbus.encoding.identity import restored_from
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import IDENTIFIED, IN_TRANSFER, RESTORED
from twinbus.errors import MessageSizeExceeded
from twinbus.limits import BATCH_ENVELOPE_BYTES, PROPERTIES_BYTES
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
        # The announced limit; that of a transfer queue includes the headroom.
        self.max_message_bytes: int = max_message_bytes
        # The same for messages with a twinbus id.
        self._max_identified_bytes: int = max_message_bytes
        if headroom_bytes == 0:
            self._max_identified_bytes += extensions.headroom_bytes
        # Larger deliveries are not read at all.
        self.tolerated_bytes: int = max(
            self._max_identified_bytes, max_message_bytes + BATCH_ENVELOPE_BYTES
        )
        self._properties_bytes: int = PROPERTIES_BYTES + headroom_bytes
        self._place: int = 0 if headroom_bytes == 0 else IN_TRANSFER
        # Whether the connection may send to the whole namespace at a given time.
        self._may_restore: Callable[[int], bool] = may_restore
        # Layout bits of the messages that were read last, combined.
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
        if len(payload) > self.max_message_bytes:
            self._check_size(payload, message_format, marks)
        self.marks = marks
        return messages

    def _check_size(self, payload: bytes, message_format: int, marks: int) -> None:
        """What an envelope adds does not count: SDKs fill batches up to the limit, and
        do not count it either. Raises MessageSizeExceeded."""
        limit = self.max_message_bytes
        if marks & IDENTIFIED != 0:
            limit = self._max_identified_bytes
        is_batch = message_format == BATCH_FORMAT
        if (data_bytes(payload) if is_batch else len(payload)) > limit:
            raise self.too_large()

    def read_one(self, payload: bytes, now: int) -> Message:
        """Read the single message of a request. Raises ArgumentError,
        MessageSizeExceeded."""
        if len(payload) > self.tolerated_bytes:
            raise MessageSizeExceeded.measured(
                len(payload),
                limit_bytes=self.max_message_bytes,
                entity_path=self._path,
            )
        return self.read(payload, 0, now)[0]

    def read_batch(self, encoded: Sequence[bytes], now: int) -> list[Message]:
        """Read the messages of a request that are one batch. Raises ArgumentError,
        MessageSizeExceeded."""
        return self.read(encode_batch(encoded), BATCH_FORMAT, now)

    def _judge(self, messages: list[Message], now: int) -> bool:
        """Whether the sender may name the origin of restored messages. If not, the
        origin is ignored. Raises ArgumentError."""
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
            f"'{self._path}'. Send a smaller message, or raise the limit.",
            entity_path=self._path,
        )
