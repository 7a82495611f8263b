"""Changing an encoded map without decoding its values.

Entries are copied as bytes, so every AMQP type an application used comes out as it
went in; only the named entries are replaced or left out.
"""

from collections.abc import Collection, Mapping

from twinbus.amqp.codec import decode, encode, skip
from twinbus.amqp.errors import DecodeError


def changed_map(
    encoded: bytes, drop: Collection[str], add: Mapping[bytes, bytes]
) -> bytes:
    """An encoded map without the keys in `drop`, followed by `add`, whose keys and
    values are encoded already."""
    entries = _kept_entries(encoded, drop) if encoded else []
    for key, value in add.items():
        entries += (key, value)
    body = b"".join(entries)
    if len(body) + 1 < 256 and len(entries) < 256:
        return bytes((0xC1, len(body) + 1, len(entries))) + body
    size = (len(body) + 4).to_bytes(4, "big")
    return b"\xd1" + size + len(entries).to_bytes(4, "big") + body


def _kept_entries(encoded: bytes, drop: Collection[str]) -> list[bytes]:
    """Keys and values in turn, as bytes."""
    code = encoded[0]
    if code == 0xC1:
        count, at = encoded[2], 3
    elif code == 0xD1:
        count, at = int.from_bytes(encoded[5:9], "big"), 9
    else:
        raise DecodeError("a map was expected")
    kept: list[bytes] = []
    for _ in range(count // 2):
        value_at = skip(encoded, at)
        end = skip(encoded, value_at)
        key, _ = decode(encoded, at)
        if key not in drop:
            kept += (encoded[at:value_at], encoded[value_at:end])
        at = end
    return kept


def encoded_strings(values: Mapping[str, str]) -> dict[bytes, bytes]:
    """String entries, encoded for `changed_map`."""
    return {encode(key): encode(value) for key, value in values.items()}
