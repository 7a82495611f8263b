"""Changes an encoded map without decoding its values.

Entries are copied as bytes, so all AMQP types are kept; only the named entries are
replaced or removed.
"""

from collections.abc import Collection, Mapping

from twinbus.amqp.codec import encode, skip
from twinbus.amqp.errors import DecodeError


def check_map(raw: bytes, at: int, end: int) -> None:
    """Raises DecodeError unless there is a whole map from `at` to `end`."""
    count, at = map_header(raw, at)
    if count % 2:
        raise DecodeError("a map has a key without a value")
    for _ in range(count):
        at = skip(raw, at)
    if at != end:
        raise DecodeError("a map's size does not match its entries")


def map_header(raw: bytes, at: int) -> tuple[int, int]:
    """The number of keys and values together, and the position of the first."""
    code = raw[at]
    if code == 0xC1 and at + 3 <= len(raw):
        return raw[at + 2], at + 3
    if code == 0xD1 and at + 9 <= len(raw):
        return int.from_bytes(raw[at + 5 : at + 9], "big"), at + 9
    raise DecodeError("a map was expected")


def changed_map(
    encoded: bytes, drop: Collection[bytes], add: Mapping[bytes, bytes]
) -> bytes:
    """An encoded map without the keys in `drop` (UTF-8 texts), followed by `add`, which
    has encoded keys and values."""
    entries = _kept_entries(encoded, drop) if encoded else []
    for key, value in add.items():
        entries += (key, value)
    body = b"".join(entries)
    if len(body) + 1 < 256 and len(entries) < 256:
        return bytes((0xC1, len(body) + 1, len(entries))) + body
    size = (len(body) + 4).to_bytes(4, "big")
    return b"\xd1" + size + len(entries).to_bytes(4, "big") + body


def map_entries(raw: bytes, at: int) -> list[tuple[int, int, int]]:
    """Start of key and value, and end, of each entry of the map at `at`."""
    count, at = map_header(raw, at)
    entries: list[tuple[int, int, int]] = []
    for _ in range(count // 2):
        value_at = skip(raw, at)
        end = skip(raw, value_at)
        entries.append((at, value_at, end))
        at = end
    return entries


def _kept_entries(encoded: bytes, drop: Collection[bytes]) -> list[bytes]:
    """Encoded keys and values, alternating."""
    kept: list[bytes] = []
    for at, value_at, end in map_entries(encoded, 0):
        if _text(encoded, at, value_at) not in drop:
            kept += (encoded[at:value_at], encoded[value_at:end])
    return kept


def _text(encoded: bytes, at: int, end: int) -> bytes | None:
    """The string or symbol at `at`, as bytes; None if it is another value."""
    code = encoded[at]
    if code == 0xA1 or code == 0xA3:
        return encoded[at + 2 : end]
    if code == 0xB1 or code == 0xB3:
        return encoded[at + 5 : end]
    return None


def encoded_strings(values: Mapping[str, str]) -> dict[bytes, bytes]:
    """Entries with string values, encoded for `changed_map`."""
    return {encode(key): encode(value) for key, value in values.items()}
