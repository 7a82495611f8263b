"""What identifies a message: its id for duplicate detection, its keys."""

import pytest

from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.types import Symbol, ULong
from twinbus.broker.changes import LedgerRange
from twinbus.broker.message import Message as Accepted
from twinbus.encoding.identity import (
    check_keys,
    duplicate_key,
    restored_from,
    send_key,
)
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import EXTENSIONS
from twinbus.errors import ArgumentError, NotAllowed


def sent(
    partition_key: str | None = None,
    session_id: str | None = None,
    message_id: object = None,
) -> Accepted:
    annotations = {Symbol("x-opt-partition-key"): partition_key}
    return read_message(
        encode_message(
            Message(
                message_annotations=annotations if partition_key else None,
                properties=Properties(message_id=message_id, group_id=session_id),
                body=Data((b"x",)),
            )
        )
    )


def test_partition_key_and_session_id_may_agree() -> None:
    for partition_key, session_id in (
        ("a", "a"),
        ("a", None),
        (None, "a"),
        (None,) * 2,
    ):
        check_keys(sent(partition_key, session_id))


def test_partition_key_and_session_id_that_differ_are_refused() -> None:
    with pytest.raises(NotAllowed, match="'a' and the session id 'b'"):
        check_keys(sent("a", "b"))


def test_equal_ids_have_the_same_key_however_they_are_encoded() -> None:
    short = sent(message_id="id")
    long = Accepted(
        short.raw.replace(b"\xa1\x02id", b"\xb1\x00\x00\x00\x02id"), short.layout, 0, 0
    )
    # The list grew by three bytes, and so did its size.
    raw = bytearray(long.raw)
    at = raw.index(b"\x00\x53\x73") + 4
    raw[at] += 3
    long.raw = bytes(raw)
    assert duplicate_key(short) == duplicate_key(long) is not None


def test_ids_of_other_types_are_other_ids() -> None:
    keys = {duplicate_key(sent(message_id=value)) for value in ("1", ULong(1), b"1")}
    assert len(keys) == 3 and None not in keys


def test_message_without_an_id_has_no_key() -> None:
    assert duplicate_key(sent()) is None
    assert duplicate_key(read_message(b"\x00\x53\x75\xa0\x01x")) is None


def identified(annotations: dict[object, object], offered: int) -> Accepted:
    return read_message(
        encode_message(Message(message_annotations=annotations)), offered
    )


def test_send_id_has_a_key_of_its_own_kind() -> None:
    message = identified({Symbol("x-opt-twinbus-send-id"): b"1"}, EXTENSIONS)
    assert send_key(message) == b"s1"
    assert restored_from(message) is None
    assert duplicate_key(message) is None


def test_origin_is_a_range_of_one() -> None:
    annotations: dict[object, object] = {
        Symbol("x-opt-twinbus-restored-from"): "7@g@there"
    }
    message = identified(annotations, EXTENSIONS)
    assert send_key(message) is None
    assert restored_from(message) == LedgerRange(
        source="there", generation=b"g", first=7, last=7
    )


def test_ids_that_were_not_looked_for_are_not_there() -> None:
    annotations: dict[object, object] = {
        Symbol("x-opt-twinbus-send-id"): b"1",
        Symbol("x-opt-twinbus-restored-from"): "7@g@there",
    }
    message = identified(annotations, 0)
    assert send_key(message) is None and restored_from(message) is None


def test_origin_that_is_none_is_refused_by_who_asks() -> None:
    annotations: dict[object, object] = {Symbol("x-opt-twinbus-restored-from"): "7"}
    with pytest.raises(ArgumentError):
        restored_from(identified(annotations, EXTENSIONS))
