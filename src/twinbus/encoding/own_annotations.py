"""Message annotations of twinbus that identify a message.

    x-opt-twinbus-send-id         binary of 1 to 64 bytes, or a string as its UTF-8:
                                  all copies of one send have the same
    x-opt-twinbus-restored-from   SEQUENCE@GENERATION@SOURCE, a string: the message of
                                  another queue that this one restores

They stay in the stored message. Only receivers of a transfer queue get them: see
`outgoing.py`.
"""

from collections.abc import Mapping
from typing import Final

from twinbus.broker.changes import LedgerRange
from twinbus.errors import ArgumentError
from twinbus.limits import (
    RESTORE_GENERATION_CHARACTERS,
    RESTORE_SOURCE_CHARACTERS,
    SEND_ID_BYTES,
)

SEND_ID: Final = "x-opt-twinbus-send-id"
RESTORED_FROM: Final = "x-opt-twinbus-restored-from"

_HIGHEST: Final = (1 << 63) - 2
"""A store keeps numbers of 63 bits, and also needs the one after the last."""


def send_id_of(annotations: Mapping[object, object]) -> bytes:
    """The send id in these annotations, which must have one. Raises ArgumentError."""
    given = annotations.get(SEND_ID)
    send_id = given.encode() if isinstance(given, str) else given
    # Decimals are bytes in Python, too, but not binary in AMQP.
    if isinstance(send_id, bytes) and type(send_id) is bytes:
        if 0 < len(send_id) <= SEND_ID_BYTES:
            return send_id
    raise ArgumentError(
        f"The annotation '{SEND_ID}' must be binary, or a string, of 1 to "
        f"{SEND_ID_BYTES} bytes."
    )


def restored_from_of(annotations: Mapping[object, object]) -> LedgerRange:
    """The origin that these annotations name, as a range of one number. Raises
    ArgumentError."""
    given = annotations.get(RESTORED_FROM)
    parts = given.split("@", 2) if isinstance(given, str) else []
    if len(parts) == 3:
        number, generation, source = parts
        if (
            number.isascii()
            and number.isdecimal()
            and len(number) <= len(str(_HIGHEST))
            and int(number) <= _HIGHEST
            and 0 < len(generation) <= RESTORE_GENERATION_CHARACTERS
            and 0 < len(source) <= RESTORE_SOURCE_CHARACTERS
        ):
            at = int(number)
            return LedgerRange(
                source=source, generation=generation.encode(), first=at, last=at
            )
    raise ArgumentError(
        f"The annotation '{RESTORED_FROM}' must be a string "
        "SEQUENCE@GENERATION@SOURCE: a number, up to "
        f"{RESTORE_GENERATION_CHARACTERS} and up to {RESTORE_SOURCE_CHARACTERS} "
        "characters."
    )
