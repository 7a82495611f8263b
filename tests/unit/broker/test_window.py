"""The window: the head of the queue in memory, in order and within its limits."""

from twinbus.broker.message import LEAVING, NOWHERE, READY, Message
from twinbus.broker.row_id import base_of
from twinbus.broker.window import Window
from twinbus.limits import (
    IDLE_WINDOW_BYTES,
    IDLE_WINDOW_MESSAGES,
    WINDOW_BYTES,
    WINDOW_MESSAGES,
)


def messages(*sequences: int, size: int = 1) -> list[Message]:
    made = []
    for sequence in sequences:
        message = Message(bytes(size), 0, 0, 0)
        message.row_id = base_of(0) + sequence
        made.append(message)
    return made


def numbers(found: list[Message]) -> list[int]:
    return [message.row_id - base_of(0) for message in found]


def taken(window: Window) -> list[int]:
    found = []
    while (message := window.take()) is not None:
        found.append(message)
    return numbers(found)


def test_published_messages_are_ready_in_order() -> None:
    window = Window(0)
    window.publish(messages(1, 2))
    window.publish(messages(3))
    assert numbers(window.ready_messages()) == [1, 2, 3]
    assert (window.ready_count(), window.has_ready()) == (3, True)
    assert (window.loaded_through, window.tail) == (3, 3)
    assert taken(window) == [1, 2, 3]
    assert not window.has_ready()


def test_window_keeps_few_while_nobody_receives() -> None:
    window = Window(0)
    made = messages(*range(1, 31))
    window.publish(made)
    assert window.ready_count() == IDLE_WINDOW_MESSAGES
    assert (window.loaded_through, window.tail) == (IDLE_WINDOW_MESSAGES, 30)
    assert made[-1].place == NOWHERE


def test_later_messages_wait_on_disk_behind_those_that_are_there_already() -> None:
    window = Window(5)
    window.publish(messages(6))
    assert (window.has_ready(), window.loaded_through, window.tail) == (False, 0, 6)
    assert window.wants_refill()
    window.refill(messages(1, 4, 6), 6)
    assert not window.wants_refill()
    window.publish(messages(7))
    assert taken(window) == [1, 4, 6, 7]


def test_refill_that_finds_nothing_reaches_as_far_as_it_looked() -> None:
    window = Window(5)
    window.refill([], 5)
    assert not window.wants_refill()


def test_refill_is_wanted_at_half() -> None:
    window = Window(100)
    window.refill(messages(*range(1, 17)), 16)
    assert (window.wants_refill(), window.room()) == (False, 0)
    for _ in range(8):
        window.take()
    assert not window.wants_refill()
    window.take()
    assert (window.wants_refill(), window.room()) == (True, 9)


def test_large_messages_make_the_window_short() -> None:
    window = Window(0)
    window.open_wide()
    size = WINDOW_BYTES // 4
    window.publish(messages(*range(1, 11), size=size))
    assert window.ready_count() == 5
    for _ in range(3):
        window.take()
    window.refill(messages(6, 7, size=size), 7)
    assert window.ready_count() == 4


def test_messages_that_came_back_go_first_and_in_order() -> None:
    window = Window(0)
    window.publish(messages(1, 2, 3, 4))
    first, second, third = window.take(), window.take(), window.take()
    assert first is not None and second is not None and third is not None
    for message in (third, first):
        window.give_back(message)
    assert first.place == READY
    assert numbers(window.ready_messages()) == [1, 3, 4]
    assert taken(window) == [1, 3, 4]


def test_leaving_messages_are_passed_over() -> None:
    window = Window(0)
    made = messages(1, 2, 3, 4)
    window.publish(made)
    back = window.take()
    assert back is made[0]
    window.give_back(back)
    made[0].place = made[2].place = LEAVING
    assert numbers(window.ready_messages()) == [2, 4]
    assert taken(window) == [2, 4]


def test_window_opens_wide_and_shrinks_again() -> None:
    window = Window(0)
    window.open_wide()
    assert window.is_wide()
    made = messages(*range(1, WINDOW_MESSAGES + 2))
    window.publish(made)
    assert window.ready_count() == WINDOW_MESSAGES
    made[500].place = LEAVING
    window.shrink()
    assert not window.is_wide()
    assert window.ready_count() == window.loaded_through == IDLE_WINDOW_MESSAGES
    assert made[16].place == NOWHERE
    assert made[500].place == LEAVING
    assert window.tail == WINDOW_MESSAGES + 1


def test_bytes_are_counted_through_shrinking() -> None:
    window = Window(0)
    window.open_wide()
    window.publish(messages(*range(1, 41), size=WINDOW_BYTES // 50))
    window.shrink()
    window.open_wide()
    window.refill(messages(*range(17, 41), size=WINDOW_BYTES // 50), 40)
    window.publish(messages(*range(41, 80), size=WINDOW_BYTES // 50))
    assert window.ready_count() == 51


def one(sequence: int, size: int = 1) -> Message:
    return messages(sequence, size=size)[0]


def without_bytes(sequence: int) -> Message:
    made = one(sequence)
    made.leave_body()
    return made


def test_nothing_overtakes_what_came_back_without_its_bytes() -> None:
    window = Window(9)
    window.open_wide()
    window.refill(messages(8, 9), 9)
    back, next_back = without_bytes(3), one(5)
    window.give_back(next_back)
    window.give_back(back)
    assert not window.has_ready()
    assert window.take() is None
    assert window.wants_refill()
    assert window.absent(1_000_000) == [back]
    window.bring_body(back, b"again")
    assert not window.wants_refill()
    assert taken(window) == [3, 5, 8, 9]


def test_what_expired_without_its_bytes_is_passed_over() -> None:
    window = Window(9)
    window.refill(messages(8), 9)
    back = without_bytes(3)
    window.give_back(back)
    back.place = LEAVING
    assert window.has_ready()
    assert taken(window) == [8]


def test_bytes_are_read_again_in_portions() -> None:
    window = Window(9)
    back = [without_bytes(n) for n in (4, 3, 2, 1)]
    for item in back:
        window.give_back(item)
    size = back[0].absent_bytes
    assert numbers(window.absent(2 * size)) == [1, 2]
    assert numbers(window.absent(0)) == [1]


def test_what_comes_back_keeps_as_many_bytes_as_a_head() -> None:
    window = Window(99)
    back = messages(1, 2, 3, size=WINDOW_BYTES // 2)
    for item in back:
        window.give_back(item)
    assert [item.absent_bytes for item in back] == [0, 0, WINDOW_BYTES // 2]
    assert [item.size_bytes() for item in back] == [WINDOW_BYTES // 2] * 3


def test_a_window_that_nobody_uses_keeps_few_bytes() -> None:
    window = Window(0)
    window.publish(messages(*range(1, 10), size=IDLE_WINDOW_BYTES // 2 + 1))
    assert window.ready_count() == 2
    assert window.wants_refill()
    window.shrink()
    assert window.ready_count() == 1
    assert window.loaded_through == 1
