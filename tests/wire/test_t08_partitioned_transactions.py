"""T8: transactions on partitioned entities have one key, frame by frame."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from twinbus.testing import Bus

from .message import data_message
from .peer import Peer
from .transactions import ROLLBACK, Controller, send_in, settle_in

NOT_ALLOWED = "amqp:not-allowed"


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with Bus(stores=3) as running:
        yield running


@pytest.fixture
def queue(make_queue: Callable[..., str]) -> str:
    return make_queue(enable_partitioning=True)


def keyed(body: str, key: str) -> bytes:
    return data_message(body, annotations={"x-opt-partition-key": key})


def test_t08_messages_with_one_key_are_committed_together(
    peer: Peer, queue: str, texts: Callable[[str], list[str]]
) -> None:
    controller, sender = Controller(peer), peer.sender(queue)
    txn_id = controller.declare()
    assert send_in(txn_id, sender, keyed("a", "blue")) is None
    assert send_in(txn_id, sender, keyed("b", "blue")) is None
    assert texts(queue) == []
    assert controller.commit(txn_id) is None
    assert texts(queue) == ["a", "b"]


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (keyed("b", "red"), "another key"),
        (data_message("b"), "without a key"),
        (data_message("b", properties={"message_id": "1"}), "without a key"),
    ],
)
def test_t08_another_key_or_none_is_refused_and_nothing_happens(
    peer: Peer,
    queue: str,
    texts: Callable[[str], list[str]],
    second: bytes,
    text: str,
) -> None:
    controller, sender = Controller(peer), peer.sender(queue)
    txn_id = controller.declare()
    assert send_in(txn_id, sender, keyed("a", "blue")) is None
    refusal = send_in(txn_id, sender, second)
    assert refusal is not None and refusal.condition == NOT_ALLOWED
    assert text in str(refusal.description) and queue in str(refusal.description)
    ended = controller.commit(txn_id)
    assert ended is not None and ended.condition == ROLLBACK
    assert texts(queue) == []


def test_t08_message_id_is_the_key_where_duplicates_are_detected(
    peer: Peer,
    make_queue: Callable[..., str],
    texts: Callable[[str], list[str]],
) -> None:
    queue = make_queue(enable_partitioning=True, requires_duplicate_detection=True)
    controller, sender = Controller(peer), peer.sender(queue)
    txn_id = controller.declare()
    first = data_message("a", properties={"message_id": "same"})
    assert send_in(txn_id, sender, first) is None
    assert send_in(txn_id, sender, first) is None
    other = data_message("b", properties={"message_id": "other"})
    assert send_in(txn_id, sender, other) is not None
    assert controller.roll_back(txn_id) is None
    assert texts(queue) == []


def test_t08_key_of_a_queue_with_sessions_is_the_session(
    peer: Peer, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(enable_partitioning=True, requires_session=True)
    controller, sender = Controller(peer), peer.sender(queue)
    txn_id = controller.declare()

    def of_session(session_id: str) -> bytes:
        return data_message("x", properties={"group_id": session_id})

    assert send_in(txn_id, sender, of_session("a")) is None
    refusal = send_in(txn_id, sender, of_session("b"))
    assert refusal is not None and refusal.condition == NOT_ALLOWED


def test_t08_conventional_queue_takes_several_sessions_in_one_transaction(
    peer: Peer, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(requires_session=True)
    controller, sender = Controller(peer), peer.sender(queue)
    txn_id = controller.declare()
    for session_id in ("a", "b"):
        message = data_message("x", properties={"group_id": session_id})
        assert send_in(txn_id, sender, message) is None
    assert controller.commit(txn_id) is None


def test_t08_settlement_and_send_in_one_fragment_are_committed_together(
    peer: Peer, queue: str, texts: Callable[[str], list[str]]
) -> None:
    controller, sender = Controller(peer), peer.sender(queue)
    sender.send(keyed("in", "blue"))
    receiver = peer.receiver(queue)
    delivery: Any
    [delivery] = receiver.take(1)
    txn_id = controller.declare()
    assert settle_in(txn_id, receiver, delivery.delivery_id) is None
    assert send_in(txn_id, sender, keyed("out", "blue")) is None
    assert controller.commit(txn_id) is None
    assert texts(queue) == ["out"]
