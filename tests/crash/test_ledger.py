"""The auditor finds the errors that it is made for."""

import pytest

from crash.ledger import BrokenPromise, Found, Ledger, Place


def item(
    name: str, number: int = 1, place: Place = Place.ACTIVE, delivery_count: int = 0
) -> Found:
    return Found(name=name, place=place, number=number, delivery_count=delivery_count)


def ledger_of(*names: str) -> Ledger:
    """Accepted messages of one sender."""
    ledger = Ledger()
    ledger.sending(names, "sender")
    ledger.accepted(names)
    return ledger


def test_what_is_as_promised_passes() -> None:
    ledger = ledger_of("a", "b", "c", "d")
    ledger.sending(["never-answered"], "sender")
    ledger.asking("a", Place.SETTLED)
    ledger.confirmed("a", Place.SETTLED)
    ledger.asking("b", Place.DEFERRED)
    ledger.abandoning("d")
    found = [item("b", 2, Place.DEFERRED), item("c", 3), item("d", 4, Place.ACTIVE, 1)]
    ledger.audit(found)
    ledger.audit(found)


def test_an_accepted_message_that_is_missing() -> None:
    with pytest.raises(BrokenPromise, match="1 are lost, such as \\['b'\\]"):
        ledger_of("a", "b").audit([item("a")])


def test_messages_on_their_way_may_be_missing_up_to_a_count() -> None:
    ledger_of("a", "b").audit([item("a")], lost_in_hand_over=1)
    with pytest.raises(BrokenPromise, match="2 are lost"):
        ledger_of("a", "b").audit([], lost_in_hand_over=1)


def test_a_message_that_is_there_twice() -> None:
    with pytest.raises(BrokenPromise, match="a is there 2 times"):
        ledger_of("a").audit([item("a"), item("a", 2)])


@pytest.mark.parametrize("place", [Place.SETTLED, Place.DEFERRED, Place.DEAD_LETTERED])
def test_a_settled_message_that_comes_back(place: Place) -> None:
    ledger = ledger_of("a")
    ledger.asking("a", place)
    ledger.confirmed("a", place)
    with pytest.raises(BrokenPromise, match="but must be in"):
        ledger.audit([item("a")])


def test_a_message_that_was_seen_and_is_gone() -> None:
    ledger = Ledger()
    ledger.sending(["a"], "sender")
    ledger.seen(item("a"))
    with pytest.raises(BrokenPromise, match="are lost"):
        ledger.audit([])


def test_a_message_that_was_refused_and_is_there() -> None:
    ledger = Ledger()
    ledger.sending(["a"], "sender")
    ledger.refused(["a"])
    with pytest.raises(BrokenPromise, match="but must be in"):
        ledger.audit([item("a")])


def test_a_message_nobody_sent() -> None:
    with pytest.raises(BrokenPromise, match="a was never sent"):
        Ledger().audit([item("a")])


def test_half_a_batch() -> None:
    ledger = Ledger()
    ledger.sending(["a", "b"], "sender", is_batch=True)
    with pytest.raises(BrokenPromise, match="batches arrived in part"):
        ledger.audit([item("a")])


def test_a_delivery_count_that_recovery_raised() -> None:
    with pytest.raises(BrokenPromise, match="abandoned 0 to 0 times"):
        ledger_of("a").audit([item("a", delivery_count=1)])


def test_a_number_that_changed() -> None:
    ledger = ledger_of("a")
    ledger.seen(item("a", 1))
    with pytest.raises(BrokenPromise, match="had the number 1 before"):
        ledger.audit([item("a", 2)])


def test_messages_that_overtook_each_other() -> None:
    with pytest.raises(BrokenPromise, match="was sent after"):
        ledger_of("a", "b").audit([item("a", 2), item("b", 1)])
