"""Which sessions wait for their backlog."""

from twinbus.pairing.session_order import SessionOrder

QUEUES = ["0", "1", "2"]
KEY = ("orders", "s")
OTHER = ("orders", "t")


def known() -> SessionOrder:
    """All queues were looked through, and had nothing."""
    order = SessionOrder(QUEUES)
    for queue in QUEUES:
        order.looked(queue, order.begin_look(), set())
    return order


def test_nothing_is_known_at_the_start() -> None:
    order = SessionOrder(QUEUES)
    assert order.is_behind(KEY)
    assert order.to_look_through() == QUEUES


def test_one_queue_that_was_not_seen_may_hold_any_session() -> None:
    # A session is in another queue than its own if that one had failed.
    order = SessionOrder(QUEUES)
    own = order.queue_of(KEY)
    order.looked(own, order.begin_look(), set())
    assert order.is_behind(KEY)


def test_empty_queues_let_everybody_go() -> None:
    order = known()
    assert not order.is_behind(KEY)
    assert order.to_look_through() == []


def test_queue_of_a_session_is_the_same_in_every_process() -> None:
    chosen = {SessionOrder(QUEUES).queue_of(("orders", f"s{i}")) for i in range(50)}
    assert chosen == set(QUEUES)
    assert SessionOrder(QUEUES).queue_of(KEY) == SessionOrder(QUEUES).queue_of(KEY)


def test_diverted_session_waits_where_it_went() -> None:
    order = known()
    order.diverted(KEY, "1")
    assert order.is_behind(KEY) and not order.is_behind(OTHER)
    assert order.queue_of(KEY) == "1"
    assert order.to_look_through() == ["1"]


def test_session_that_is_not_found_any_more_is_free() -> None:
    order = known()
    order.diverted(KEY, "1")
    order.looked("1", order.begin_look(), {OTHER})
    assert not order.is_behind(KEY)
    assert order.is_behind(OTHER)


def test_queue_that_cannot_be_looked_at_holds_nobody_up_and_is_tried_again() -> None:
    order = SessionOrder(QUEUES)
    for queue in QUEUES:
        order.could_not_look(queue)
    assert not order.is_behind(KEY)
    assert order.to_look_through() == QUEUES
    order.looked("1", order.begin_look(), {KEY})
    assert order.is_behind(KEY)
    assert order.to_look_through() == QUEUES


def test_queue_that_cannot_be_looked_at_any_more_keeps_what_it_had() -> None:
    order = known()
    order.diverted(KEY, "1")
    order.could_not_look("1")
    assert order.is_behind(KEY)


def test_look_at_another_queue_says_nothing() -> None:
    order = known()
    order.diverted(KEY, "1")
    order.looked("2", order.begin_look(), set())
    assert order.is_behind(KEY)


def test_what_is_diverted_during_a_look_is_newer_than_it() -> None:
    order = known()
    order.diverted(KEY, "1")
    began = order.begin_look()
    order.diverted(KEY, "1")
    order.looked("1", began, set())
    assert order.is_behind(KEY)


def test_what_an_earlier_process_left_is_found() -> None:
    order = SessionOrder(QUEUES)
    for queue in QUEUES:
        order.looked(queue, order.begin_look(), {KEY} if queue == "2" else set())
    assert order.is_behind(KEY)
    assert order.queue_of(KEY) == "2"
