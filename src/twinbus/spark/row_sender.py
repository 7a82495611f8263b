"""Sends the rows of one task, to any kind of namespace."""

from dataclasses import dataclass
from typing import Final, Protocol

from twinbus.amqp.errors import DecodeError
from twinbus.amqp.messaging import decode_message
from twinbus.spark.plain_error import PlainError
from twinbus.spark.row_messages import EncodedRows

_PATH_CHARACTERS: Final = 260
"""How much of a path is shown: as long as a path can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRows:
    """What happened to the rows of a task."""

    sent_count: int
    # Sent by an earlier attempt, and dropped now.
    known_count: int = 0


class RowSender(Protocol):
    """Lives in one task. Rows of an entity arrive in the order in which they came."""

    def send(self, rows: EncodedRows) -> None:
        """Send rows; some may be kept until the end. Raises RowsRefused, BulkError."""

    def finish(self) -> SentRows:
        """Send the rows that were kept. Raises like `send`."""

    def close(self) -> None: ...


class RowsRefused(PlainError):
    """A namespace refused rows. Rows that were sent before stay sent."""

    @classmethod
    def because(
        cls, entity: str, message: bytes, text: str, *, refused: int, of: int
    ) -> "RowsRefused":
        # Its path may be anything that a column had.
        row = f"A row for '{entity[:_PATH_CHARACTERS]}'{_named(message)}"
        return cls(
            f"{row} was not sent: {text} The request had {of} rows, of which {refused} "
            "were refused. The task fails; what was sent stays sent, and is sent again "
            "by the next attempt unless the rows have ids (option 'idColumn')."
        )


def _named(message: bytes) -> str:
    """By its message id, if it has one."""
    try:
        properties = decode_message(message).properties
    except DecodeError:
        return ""
    message_id = None if properties is None else properties.message_id
    return "" if message_id is None else f" with the message id '{message_id}'"
