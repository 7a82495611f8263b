"""Messages expire in order, once, and only while they are ready."""

from twinbus.broker.expiry_heap import ExpiryHeap
from twinbus.broker.message import LEAVING, LOCKED, READY, Message


def watched(heap: ExpiryHeap, body: bytes, expires_at: int) -> Message:
    message = Message(body, 0, 1, 0)
    message.expires_at = expires_at
    message.place = READY
    heap.watch(message)
    return message


def test_messages_come_due_in_the_order_of_their_ends() -> None:
    heap = ExpiryHeap()
    late, soon = watched(heap, b"late", 20), watched(heap, b"soon", 10)
    never = watched(heap, b"later", 31)
    assert heap.due(9) == []
    assert heap.due(30) == [soon, late]
    assert [soon.place, late.place, never.place] == [LEAVING, LEAVING, READY]
    assert heap.due(30) == []


def test_messages_of_one_instant_come_due_in_the_order_of_the_queue() -> None:
    heap = ExpiryHeap()
    first, second = watched(heap, b"first", 0), watched(heap, b"second", 0)
    for number, message in enumerate((first, second), start=1):
        message.row_id, message.expires_at = number, 10
    for returned in (second, first):
        heap.watch(returned)
    assert heap.due(10) == [first, second]


def test_what_does_not_wait_any_more_is_passed_over() -> None:
    heap = ExpiryHeap()
    watched(heap, b"locked", 10).place = LOCKED
    assert heap.due(10) == []
    assert len(heap) == 0


def test_message_that_came_back_comes_due_once() -> None:
    heap = ExpiryHeap()
    message = watched(heap, b"back", 10)
    heap.watch(message)
    assert heap.due(10) == [message]


def test_two_forms_of_one_row_do_not_hurt_each_other() -> None:
    """One that the window let go of, and the same read again from disk."""
    heap = ExpiryHeap()
    for _ in range(5):
        watched(heap, b"same", 10).place = LOCKED
    again = watched(heap, b"same", 10)
    assert heap.due(10) == [again]


def test_stale_entries_are_swept_before_they_pile_up() -> None:
    heap = ExpiryHeap()
    waiting = watched(heap, b"waiting", 5)
    for _ in range(10_000):
        watched(heap, b"taken", 10).place = LOCKED
    assert len(heap) < 2_100
    assert heap.due(10) == [waiting]
