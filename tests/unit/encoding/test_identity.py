"""What identifies a message: its id for duplicate detection, its keys."""

import pytest

from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.types import Symbol, ULong
from twinbus.broker.message import Message as Accepted
from twinbus.encoding.identity import check_keys, duplicate_key
from twinbus.encoding.incoming import read_message
from twinbus.errors import NotAllowed


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
