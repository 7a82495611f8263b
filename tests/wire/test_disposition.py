"""SB-W-6xx: settling on the link: outcomes, ranges, settled or not, what is echoed."""

import uuid
from datetime import timedelta

import pytest

from .codec import Described, Symbol, Uint, Ulong
from .frames import (
    ACCEPTED,
    DISPOSITION,
    MODIFIED,
    REJECTED,
    RELEASED,
    SENDER,
    outcome,
)
from .management import Management, longs, uuids
from .message import data_message

LOCK_LOST = "com.microsoft:message-lock-lost"


def _dead_letter(info, description=None):
    """The outcome by which SDKs dead-letter."""
    condition = Symbol("com.microsoft:dead-letter")
    return outcome(REJECTED, Described(Ulong(0x1D), [condition, description, info]))


@pytest.fixture
def link(peer, queue):
    """A receiver of the queue."""
    return peer.receiver(queue)


@pytest.fixture
def locked(peer, queue, link):
    """Sends messages and gives their deliveries, locked by `link`."""

    def make(*texts):
        sender = peer.sender(queue)
        for text in texts:
            sender.send(data_message(text))
        return link.take(len(texts))

    return make


def _count(delivery):
    """Past deliveries, as the header says."""
    return int(delivery.message.header["delivery_count"])


@pytest.mark.parametrize(
    "state",
    [
        outcome(ACCEPTED),
        outcome(MODIFIED),
        outcome(MODIFIED, True, False),
        outcome(MODIFIED, None, True),
        _dead_letter({Symbol("DeadLetterReason"): "r"}),
        outcome(REJECTED),
        outcome(RELEASED),
    ],
    ids="accepted abandon abandon-py defer dead-letter rejected released".split(),
)
def test_outcome_is_echoed_settled_and_without_error(locked, link, state):
    """SB-W-601 role sender, settled, the same kind; a rejected one has no error."""
    (delivery,) = locked("x")
    link.settle(delivery.delivery_id, state)
    assert link.verdict_of(delivery.delivery_id) == (int(state.descriptor), None)


@pytest.mark.parametrize(
    "fields", [(), (False,), (True,), (None, False), (True, False), (False, False)]
)
def test_every_modified_that_is_deliverable_is_an_abandon(locked, link, fields):
    """SB-W-602 delivery-failed does not matter: the message returns with count 1."""
    (delivery,) = locked("x")
    link.settle(delivery.delivery_id, outcome(MODIFIED, *fields))
    link.verdict_of(delivery.delivery_id)
    (again,) = link.take()
    assert _count(again) == 1
    assert type(again.message.header["delivery_count"]) is Uint


@pytest.mark.parametrize("failed", [None, False, True])
def test_undeliverable_here_defers(peer, queue, locked, link, failed):
    """SB-W-603 undeliverable-here = true: deferred, whatever delivery-failed says."""
    (delivery,) = locked("x")
    link.settle(delivery.delivery_id, outcome(MODIFIED, failed, True))
    link.verdict_of(delivery.delivery_id)
    link.nothing_comes()
    (peeked,) = Management(peer, queue).peek(1, 10)
    assert peeked.annotations[Symbol("x-opt-message-state")] == 1


@pytest.mark.parametrize("settled", [False, True])
def test_released_message_returns_with_its_count_unchanged(locked, link, settled):
    """SB-W-604 released, settled or not: delivered again with count 0."""
    (delivery,) = locked("x")
    link.settle(delivery.delivery_id, outcome(RELEASED), settled=settled)
    (again,) = link.take()
    assert again.message.text == "x"
    assert _count(again) == 0


def test_released_messages_keep_their_order(locked, link):
    """SB-W-605 three released in one range come back in their old order."""
    first, _, third = locked("a", "b", "c")
    link.settle(first.delivery_id, outcome(RELEASED), last=third.delivery_id)
    link.verdict_of(third.delivery_id)
    assert [d.message.text for d in link.take(3)] == ["a", "b", "c"]


def test_rejected_without_error_dead_letters(peer, queue, locked, link):
    """SB-W-606 .NET may dead-letter with no error at all: no reason is made up."""
    (delivery,) = locked("x")
    link.settle(delivery.delivery_id, outcome(REJECTED))
    link.verdict_of(delivery.delivery_id)
    (dead,) = peer.receiver(f"{queue}/$DeadLetterQueue").take()
    assert dead.message.text == "x"
    assert "DeadLetterReason" not in dead.message.application_properties


@pytest.mark.parametrize("key", [str, Symbol], ids=["string", "symbol"])
def test_dead_letter_info_becomes_application_properties(
    peer, queue, locked, link, key
):
    """SB-W-607 reason and description as strings, whatever the type of the keys."""
    (delivery,) = locked("x")
    info = {key("DeadLetterReason"): "r", key("DeadLetterErrorDescription"): "d"}
    link.settle(delivery.delivery_id, _dead_letter(info))
    link.verdict_of(delivery.delivery_id)
    (dead,) = peer.receiver(f"{queue}/$DeadLetterQueue").take()
    properties = dead.message.application_properties
    assert properties == {"DeadLetterReason": "r", "DeadLetterErrorDescription": "d"}
    assert all(type(name) is str for name in properties)


def test_dead_letter_info_may_hold_nulls(peer, queue, locked, link):
    """SB-W-608 null reason and description, as Python sends them."""
    (delivery,) = locked("x")
    info = {"DeadLetterReason": None, "DeadLetterErrorDescription": None}
    link.settle(delivery.delivery_id, _dead_letter(info))
    assert link.verdict_of(delivery.delivery_id) == (REJECTED, None)
    (dead,) = peer.receiver(f"{queue}/$DeadLetterQueue").take()
    assert dead.message.application_properties.get("DeadLetterReason") is None


def test_properties_to_modify_are_written_into_the_message(locked, link):
    """SB-W-609 annotations of a modified become application properties."""
    (delivery,) = locked("x")
    changes = {Symbol("attempt"): "first", Symbol("tries"): Uint(1)}
    link.settle(delivery.delivery_id, outcome(MODIFIED, True, False, changes))
    link.verdict_of(delivery.delivery_id)
    (again,) = link.take()
    properties = again.message.application_properties
    assert (properties["attempt"], properties["tries"]) == ("first", 1)


def test_range_settles_all_of_its_deliveries(peer, queue, locked, link):
    """SB-W-610 one disposition for ten deliveries; each is answered and gone."""
    deliveries = locked(*(str(n) for n in range(10)))
    first, last = deliveries[0].delivery_id, deliveries[-1].delivery_id
    link.settle(first, outcome(ACCEPTED), last=last)
    for delivery in deliveries:
        assert link.verdict_of(delivery.delivery_id) == (ACCEPTED, None)
    assert Management(peer, queue).peek_texts() == []


def test_range_over_settled_deliveries_settles_the_rest(peer, queue, locked, link):
    """SB-W-611 a range with ids that are settled already: the others are applied."""
    deliveries = locked("a", "b", "c")
    first, middle, last = (delivery.delivery_id for delivery in deliveries)
    link.settle(middle, outcome(ACCEPTED))
    link.verdict_of(middle)
    link.settle(first, outcome(ACCEPTED), last=last)
    assert link.verdict_of(first) == (ACCEPTED, None)
    assert link.verdict_of(last) == (ACCEPTED, None)
    assert Management(peer, queue).peek_texts() == []


def test_unknown_delivery_id_is_answered(locked, link):
    """SB-W-612 an id that the bus never gave out gets an answer: lock lost."""
    (delivery,) = locked("x")
    unknown = delivery.delivery_id + 1000
    link.settle(unknown, outcome(ACCEPTED))
    code, error = link.verdict_of(unknown)
    assert (code, error.condition) == (REJECTED, LOCK_LOST)


def test_settled_disposition_is_applied_in_silence(peer, queue, locked, link):
    """SB-W-613 settled = true: the message is gone and nothing is answered."""
    (delivery,) = locked("x")
    link.settle(delivery.delivery_id, outcome(ACCEPTED), settled=True)
    assert Management(peer, queue).peek_texts() == []
    answers = [
        frame
        for frame in peer.frames
        if frame.code == DISPOSITION and frame.role is SENDER
    ]
    assert answers == []


def test_settling_twice_is_lock_lost(locked, link):
    """SB-W-614 the second disposition of a delivery is rejected, with its error."""
    (delivery,) = locked("x")
    link.settle(delivery.delivery_id, outcome(MODIFIED))
    assert link.verdict_of(delivery.delivery_id) == (MODIFIED, None)
    answered = len(link.peer.frames)
    link.settle(delivery.delivery_id, outcome(ACCEPTED))
    frame = link.peer.find(
        DISPOSITION, lambda frame: link.peer.frames.index(frame) >= answered
    )
    assert frame.state.descriptor == REJECTED
    assert frame.state.value[0].value[0] == LOCK_LOST


def test_settling_after_expiry_is_lock_lost(bus, peer, make_queue):
    """SB-W-615 after the lock ran out: rejected with lock lost; then redelivered."""
    queue = make_queue(lock_duration=timedelta(seconds=10))
    peer.sender(queue).send(data_message("x"))
    link = peer.receiver(queue)
    (delivery,) = link.take()
    bus.advance(11)
    link.settle(delivery.delivery_id, outcome(ACCEPTED))
    code, error = link.verdict_of(delivery.delivery_id)
    assert (code, error.condition) == (REJECTED, LOCK_LOST)
    (again,) = link.take()
    assert _count(again) == 1


def test_lock_outlives_its_link(peer, queue, locked, link):
    """SB-W-616 after a detach the token still settles over `$management`."""
    (delivery,) = locked("x")
    link.detach()
    other = peer.receiver(queue)
    token = uuid.UUID(bytes_le=delivery.tag)
    other.nothing_comes()
    management = Management(peer, queue)
    body = {"disposition-status": "completed", "lock-tokens": uuids(token)}
    assert management.call("update-disposition", body).status == 200
    assert management.peek_texts() == []


def test_deferred_by_disposition_is_received_by_number(peer, queue, locked, link):
    """SB-W-617 defer on the link, then receive-by-sequence-number."""
    (delivery,) = locked("x")
    link.settle(delivery.delivery_id, outcome(MODIFIED, None, True))
    link.verdict_of(delivery.delivery_id)
    body = {
        "sequence-numbers": longs(delivery.message.sequence_number),
        "receiver-settle-mode": Uint(1),
    }
    answer = Management(peer, queue).call("receive-by-sequence-number", body)
    assert answer.status == 200
