"""The stored form of what the bus wrote to a message after it was sent.

One blob beside the sender's bytes, absent for most messages: the fields of
`Annex`, when an active message was scheduled for, which only messages that were
scheduled know, and the uid of messages that were moved or have a send id. All SQL
stores use it; a change of the format raises theirs.

    format, flags, numbers, [reason], [description], [source], [modified], [forwarded],
    [uid]

Format 1 knew no forwarding; otherwise it is the same, and it is still read. The uid
came later without a new format: it is at the end, where older code does not look.
"""

import struct
from typing import Final

from twinbus.broker.message import Annex

_FORMAT: Final = 2
_HEAD: Final = struct.Struct("<BB")
_NUMBERS: Final = struct.Struct("<qq")
_LENGTH: Final = struct.Struct("<I")

# Flags: which parts follow.
_REASON: Final = 1
_DESCRIPTION: Final = 2
_SOURCE: Final = 4
_MODIFIED: Final = 8
# The annex itself is None; only `scheduled_at` is kept.
_NO_ANNEX: Final = 16
_FORWARDED: Final = 32
_UID: Final = 64


def encode_annex(
    annex: Annex | None, scheduled_at: int, uid: bytes = b""
) -> bytes | None:
    """The blob, or None if there is nothing to keep."""
    if annex is None:
        if scheduled_at == 0 and not uid:
            return None
        numbers = _NUMBERS.pack(0, scheduled_at)
        if not uid:
            return _HEAD.pack(_FORMAT, _NO_ANNEX) + numbers
        return _HEAD.pack(_FORMAT, _NO_ANNEX | _UID) + numbers + _counted(uid)
    flags = 0
    parts = [_NUMBERS.pack(annex.enqueued_sequence_number, scheduled_at)]
    for flag, text in (
        (_REASON, annex.dead_letter_reason),
        (_DESCRIPTION, annex.dead_letter_description),
        (_SOURCE, annex.dead_letter_source),
    ):
        if text is not None:
            flags |= flag
            parts.append(_counted(text.encode()))
    if annex.modified:
        flags |= _MODIFIED
        parts.append(_LENGTH.pack(len(annex.modified)))
        for name, value in annex.modified.items():
            parts.append(_counted(name.encode()))
            parts.append(_counted(value))
    if annex.forwarded_count:
        flags |= _FORWARDED
        parts.append(_LENGTH.pack(annex.forwarded_count))
    if uid:
        flags |= _UID
        parts.append(_counted(uid))
    return _HEAD.pack(_FORMAT, flags) + b"".join(parts)


def _counted(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


def decode_annex(blob: bytes) -> tuple[Annex | None, int, bytes]:
    """The annex, when the message was scheduled for (0: never), and its uid."""
    version, flags = _HEAD.unpack_from(blob, 0)
    if not 1 <= version <= _FORMAT:
        raise ValueError(f"annex format {version}, this bus reads up to {_FORMAT}")
    enqueued_sequence_number, scheduled_at = _NUMBERS.unpack_from(blob, _HEAD.size)
    at = _HEAD.size + _NUMBERS.size
    if flags & _NO_ANNEX:
        return None, scheduled_at, _read_uid(blob, at, flags)
    texts: list[str | None] = []
    for flag in (_REASON, _DESCRIPTION, _SOURCE):
        if flags & flag:
            value, at = _read_counted(blob, at)
            texts.append(value.decode())
        else:
            texts.append(None)
    modified: dict[str, bytes] = {}
    if flags & _MODIFIED:
        modified, at = _read_modified(blob, at)
    forwarded_count = 0
    if flags & _FORWARDED:
        forwarded_count = _LENGTH.unpack_from(blob, at)[0]
        at += _LENGTH.size
    annex = Annex(
        dead_letter_reason=texts[0],
        dead_letter_description=texts[1],
        dead_letter_source=texts[2],
        modified=modified,
        enqueued_sequence_number=enqueued_sequence_number,
        forwarded_count=forwarded_count,
    )
    return annex, scheduled_at, _read_uid(blob, at, flags)


def _read_uid(blob: bytes, at: int, flags: int) -> bytes:
    return _read_counted(blob, at)[0] if flags & _UID else b""


def _read_counted(blob: bytes, at: int) -> tuple[bytes, int]:
    begin = at + _LENGTH.size
    end = begin + _LENGTH.unpack_from(blob, at)[0]
    return blob[begin:end], end


def _read_modified(blob: bytes, at: int) -> tuple[dict[str, bytes], int]:
    modified = {}
    count = _LENGTH.unpack_from(blob, at)[0]
    at += _LENGTH.size
    for _ in range(count):
        name, at = _read_counted(blob, at)
        value, at = _read_counted(blob, at)
        modified[name.decode()] = value
    return modified, at
