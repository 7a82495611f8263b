"""What the key of a message is, and that a batch has one."""

from typing import Any

import pytest

from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.types import Symbol
from twinbus.broker import message as stored
from twinbus.encoding.incoming import read_message
from twinbus.errors import NotAllowed
from twinbus.fragments.partition_key import common_key, id_key_of, key_of


def sent(
    *,
    session: str | None = None,
    key: object = None,
    message_id: object = None,
    annotations: dict[Any, object] | None = None,
) -> stored.Message:
    said = dict(annotations or {})
    if key is not None:
        said[Symbol("x-opt-partition-key")] = key
    encoded = encode_message(
        Message(
            message_annotations=said or None,
            properties=Properties(message_id=message_id, group_id=session),
            body=Data((b"hi",)),
        )
    )
    return read_message(encoded, 0, 64 * 1024)


def test_session_id_comes_before_partition_key_and_message_id() -> None:
    assert key_of(sent(session="s", key="s", message_id="m"), True) == "s"
    assert key_of(sent(key="k", message_id="m"), True) == "k"


def test_message_id_is_a_key_only_where_duplicates_are_detected() -> None:
    assert key_of(sent(message_id="m"), False) is None
    found = key_of(sent(message_id="m"), True)
    assert found is not None and found == key_of(sent(message_id="m"), True)
    assert found != key_of(sent(message_id="n"), True)
    assert key_of(sent(), True) is None


def test_key_that_is_no_text_is_none() -> None:
    assert key_of(sent(key=17), False) is None


def test_batch_with_one_key_has_that_key() -> None:
    assert common_key([sent(key="k"), sent(key="k")], False, "q") == "k"
    assert common_key([sent(), sent()], False, "q") is None


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        (sent(key="a"), sent(key="b"), "'a' and 'b'"),
        (sent(key="a"), sent(), "'a' and none"),
        (sent(), sent(session="s"), "none and 's'"),
    ],
)
def test_batch_with_different_keys_is_refused(
    first: stored.Message, second: stored.Message, shown: str
) -> None:
    with pytest.raises(NotAllowed, match=f"partitioned entity 'orders'.*{shown}"):
        common_key([first, second], False, "orders")


def test_batch_with_different_message_ids_is_refused_without_telling_them() -> None:
    messages = [sent(message_id="m"), sent(message_id="n")]
    with pytest.raises(NotAllowed, match="a message id and a message id"):
        common_key(messages, True, "orders")


def test_message_without_a_twinbus_id_has_no_id_key() -> None:
    assert id_key_of(sent(key="k", message_id="m")) is None
