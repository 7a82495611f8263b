"""The layout number: the positions of an encoded message's sections, in one integer.

It is computed once, when the message arrives, and kept with it, so that a delivery can
copy the sender's bytes without reading them again:

    bit  0      the sender set message or delivery annotations
    bit  1      the sender's header says durable
    bits 2-9    the sender's priority
    bit  10     the sender's header has a priority
    bit  11     the sender's header has a durable field
    bit  12     it is a ping: never stored, so never set in a stored number
    bit  13     it has a send id
    bit  14     it names its origin, and its sender may do so
    bit  15     it is in a transfer queue, whose receivers get these ids, too
    bits 16-    offset of the bare message: properties and everything after

The number is part of the stored format.
"""

from typing import Final

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78

ANNOTATED: Final = 1
DURABLE: Final = 2

SAYS_PRIORITY: Final = 1 << 10
SAYS_DURABLE: Final = 1 << 11

PING: Final = 1 << 12
SENT_ONCE: Final = 1 << 13
RESTORED: Final = 1 << 14
IN_TRANSFER: Final = 1 << 15

IDENTIFIED: Final = SENT_ONCE | RESTORED
"""Bits of messages that have a twinbus id."""

EXTENSIONS: Final = PING | IDENTIFIED
"""Bits of extensions that Service Bus does not have."""

HEADER_BITS: Final = 0xFFE
"""Bits that the header of a delivery depends on."""

PRIORITY_SHIFT: Final = 2
BARE_SHIFT: Final = 16

DEFAULT_PRIORITY: Final = 4


def pack_layout(annotated: bool, durable: bool, priority: int, bare_at: int) -> int:
    layout = bare_at << BARE_SHIFT | priority << PRIORITY_SHIFT
    if annotated:
        layout |= ANNOTATED
    if durable:
        layout |= DURABLE
    return layout


def bare_offset(layout: int) -> int:
    """Where the bare message starts."""
    return layout >> BARE_SHIFT


def priority_of(layout: int) -> int:
    return layout >> PRIORITY_SHIFT & 0xFF


def is_durable(layout: int) -> bool:
    return layout & DURABLE != 0
