"""Which backlog queues are used."""

from collections.abc import Sequence

from twinbus.pairing.rotation import Rotation

QUEUES = ["0", "1", "2"]


def last(queues: Sequence[str]) -> str:
    return queues[-1]


def rotation() -> Rotation:
    return Rotation(QUEUES, last)


def test_sender_stays_with_the_queue_it_has() -> None:
    assert rotation().pick(0, "1") == "1"


def test_sender_without_a_queue_gets_any() -> None:
    assert rotation().pick(0) == "2"


def test_failed_queue_is_avoided_until_its_time_has_come() -> None:
    one = rotation()
    one.take_out("2", 100)
    assert one.pick(99, "2") == "1"
    assert one.out_of_rotation(99) == ["2"]
    assert one.pick(100, "2") == "2"
    assert one.out_of_rotation(100) == []


def test_none_is_left_when_all_have_failed() -> None:
    one = rotation()
    for queue in QUEUES:
        one.take_out(queue, 100)
    assert one.pick(99) is None
    assert one.pick(99, "1") is None


def test_queue_that_takes_a_message_is_news_once() -> None:
    one = rotation()
    one.take_out("0", 100)
    assert one.put_back("0")
    assert not one.put_back("0")
    assert not one.put_back("1")
    assert one.is_in("0", 0)


def test_later_failure_prolongs_the_pause() -> None:
    one = rotation()
    one.take_out("0", 100)
    one.take_out("0", 200)
    assert not one.is_in("0", 150)


def test_with_none_left_the_one_that_failed_longest_ago_is_tried_again() -> None:
    one = rotation()
    for queue in ("1", "2", "0"):
        one.take_out(queue, 100)
    assert one.again(50) == "1"
    one.take_out("1", 150)
    assert one.again(50) == "2"


def test_a_queue_that_asked_for_patience_gets_it() -> None:
    one = rotation()
    for queue in QUEUES:
        one.take_out(queue, 100, is_busy=True)
    assert one.again(99) is None
    one.take_out("1", 200)
    assert one.again(99) == "1"
