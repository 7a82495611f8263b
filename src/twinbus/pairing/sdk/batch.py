"""A batch that leaves room for what a paired sender adds to messages.

The pair's ids are part of a message's size, so they are added to the copy in the batch.
So a full batch can still be sent. A batch that is diverted is taken apart.
"""

from secrets import token_bytes
from typing import Any, Final
from uuid import uuid4

from azure.servicebus import ServiceBusMessageBatch

from twinbus.pairing.sdk.messages import outgoing_copy, stamp
from twinbus.sdk_internals.messages import as_messages

_SEND_ID_BYTES: Final = 16


class PairedMessageBatch(ServiceBusMessageBatch):
    """Made by `create_message_batch` of a paired sender."""

    def __init__(self, max_size_in_bytes: int, *, assign_message_ids: bool) -> None:
        super().__init__(max_size_in_bytes=max_size_in_bytes)
        self._assign_message_ids = assign_message_ids

    def add_message(self, message: Any) -> None:
        """Raises MessageSizeExceededError if it does not fit."""
        [own] = as_messages(message)
        copy = outgoing_copy(own)
        message_id = uuid4().hex if self._assign_message_ids else None
        stamp(copy, token_bytes(_SEND_ID_BYTES), message_id)
        super().add_message(copy)
