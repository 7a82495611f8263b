"""Delivery states: the outcome of a delivery (AMQP 1.0 part 3, 3.4).

Decoded states are values. The states that are sent for every message also exist as
prebuilt bytes, so that a disposition needs no encoding.
"""

from dataclasses import dataclass
from typing import Final

from twinbus.amqp.composite import (
    BOOLEAN,
    COMPOSITE,
    FIELDS,
    UINT,
    ULONG,
    composite,
    decode_composite,
    encode_composite,
)
from twinbus.amqp.errors import AmqpError


@composite(0x23, "amqp:received:list", section_number=UINT, section_offset=ULONG)
@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    section_number: int
    section_offset: int


@composite(0x24, "amqp:accepted:list")
@dataclass(frozen=True, slots=True)
class Accepted:
    pass


@composite(0x25, "amqp:rejected:list", error=COMPOSITE)
@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    error: object | None = None


@composite(0x26, "amqp:released:list")
@dataclass(frozen=True, slots=True)
class Released:
    pass


@composite(
    0x27,
    "amqp:modified:list",
    delivery_failed=BOOLEAN,
    undeliverable_here=BOOLEAN,
    message_annotations=FIELDS,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Modified:
    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: dict[object, object] | None = None


Outcome = Accepted | Rejected | Released | Modified

# Every decoded accepted state is this instance.
ACCEPTED_OUTCOME: Final = Accepted()

ACCEPTED: Final = encode_composite(ACCEPTED_OUTCOME)
RELEASED: Final = encode_composite(Released())
MODIFIED: Final = encode_composite(Modified())
REJECTED: Final = encode_composite(Rejected())


def encode_rejected(error: AmqpError | None) -> bytes:
    return REJECTED if error is None else encode_composite(Rejected(error=error))


def decode_state(buf: bytes, at: int) -> tuple[object, int]:
    """Decode a delivery state; an unknown one stays a Described value."""
    return decode_composite(buf, at)
