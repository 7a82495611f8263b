"""The envelope of a message between two stores: its bytes and what the bus added.

    AMQP list, then the encoded message as it was sent

    list: format, layout, time to live, scheduled time, session id, annex, [uid]
    annex: null, or a list of the fields of `Annex` in their order

It is a part of the stored format: entries of an outbox are envelopes. A newer format
gets a new number, and the first one is still read. The uid came later without a new
format: it is at the end of the list, where older code does not look, and absent for
most messages.
"""

from typing import Final

from twinbus.amqp.codec import decode, encode
from twinbus.broker.message import Annex, Message
from twinbus.encoding.identity import locate_id

_FORMAT: Final = 1
_UID: Final = 6


def encode_envelope(message: Message) -> bytes:
    """The message for another store; its fragment there gives it a number and times."""
    head: list[object] = [
        _FORMAT,
        message.layout,
        message.ttl_ms,
        message.scheduled_at,
        message.session_id,
        _annex_fields(message.annex),
    ]
    if message.uid:
        head.append(message.uid)
    return encode(head) + message.raw


def _annex_fields(annex: Annex | None) -> list[object] | None:
    if annex is None:
        return None
    return [
        annex.dead_letter_reason,
        annex.dead_letter_description,
        annex.dead_letter_source,
        dict(annex.modified),
        annex.enqueued_sequence_number,
        annex.forwarded_count,
    ]


def decode_envelope(envelope: bytes) -> Message:
    """The message as it was. Raises ValueError if a newer version has written it."""
    head, end = decode(envelope, 0)
    assert isinstance(head, list)
    if head[0] != _FORMAT:
        raise ValueError(f"envelope format {head[0]}, this bus reads {_FORMAT}")
    message = Message(envelope[end:], int(head[1]), int(head[2]), int(head[3]))
    session_id = head[4]
    message.session_id = None if session_id is None else str(session_id)
    message.annex = _annex_of(head[5])
    if len(head) > _UID:
        message.uid = bytes(head[_UID])
    locate_id(message)
    return message


def _annex_of(fields: object) -> Annex | None:
    if fields is None:
        return None
    assert isinstance(fields, list)
    reason, description, source, modified, number, forwarded_count = fields
    assert isinstance(modified, dict)
    return Annex(
        dead_letter_reason=_text(reason),
        dead_letter_description=_text(description),
        dead_letter_source=_text(source),
        modified={str(name): bytes(value) for name, value in modified.items()},
        enqueued_sequence_number=int(number),
        forwarded_count=int(forwarded_count),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
