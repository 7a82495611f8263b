"""SB-W-16xx: the restore ledger: a message is restored only once."""

import time

import pytest

from .codec import Long
from .frames import REJECTED
from .management import Cbs, Management, sas_token
from .own_annotations import SEND_ID, identified, restored

ORIGIN = "7@1f2e@secondary.example/away/x-servicebus-transfer/0"


def origin(number, generation="g", source="s"):
    return f"{number}@{generation}@{source}"


def test_second_restore_is_accepted_and_dropped(peer, make_queue, texts):
    """SB-W-1601 also at another entity."""
    queues = [make_queue(), make_queue()]
    for queue in queues:
        peer.sender(queue).send(restored("x", ORIGIN))
    assert [texts(queue) for queue in queues] == [["x"], []]


def test_number_generation_and_source_tell_messages_apart(peer, queue, texts):
    """SB-W-1602 any of them makes another one; a source may have any signs."""
    sender = peer.sender(queue)
    origins = [
        origin(1, "two", "there"),
        origin(2, "two", "there"),
        origin(1, "three", "there"),
        origin(1, "two", "there@all@"),
        origin(1, "two", "x" * 512),
    ]
    for text in [*origins, *origins]:
        sender.send(restored(text, text))
    assert texts(queue) == origins


def test_copies_of_one_turn_are_found(peer, queue, texts):
    """SB-W-1603 before anything of them is durable."""
    sender = peer.sender(queue)
    posted = [
        sender.post(restored(str(number), origin(number, "turn")))
        for number in (1, 2, 1, 3, 2)
    ]
    assert [sender.outcome_of(at)[1] for at in posted] == [None] * 5
    assert texts(queue) == ["1", "2", "3"]


def test_restores_in_order_are_one_range(bus, peer, queue):
    """SB-W-1604 however many they are."""
    sender = peer.sender(queue)
    posted = [
        sender.post(restored("x", origin(number, "order"))) for number in range(1, 301)
    ]
    assert {sender.outcome_of(at)[1] for at in posted} == {None}
    store = bus.owner.store
    known = bus._run(store.restored("s", b"order", list(range(400))))
    assert known == set(range(1, 301))
    rows = store._db.execute(
        "SELECT first, last FROM ledger_range WHERE generation = ?", (b"order",)
    ).fetchall()
    assert rows == [(1, 300)]


def test_what_its_send_id_drops_was_restored_too(bus, peer, queue, texts):
    """SB-W-1605 the message that came before the outage is the one that counts."""
    sender = peer.sender(queue)
    sender.send(identified("sent", b"1"))
    sender.send(restored("diverted", origin(1, "both"), **{SEND_ID: b"1"}))
    assert texts(queue) == ["sent"]
    found = bus._run(bus.owner.store.restored("s", b"both", [1]))
    assert found == {1}


@pytest.mark.parametrize(
    "given",
    [
        *("", "1", "1@g", "1@g@", "1@@s", "@g@s", "x@g@s", "-1@g@s", "1.0@g@s"),
        *("\u0661@g@s", f"{1 << 63}@g@s", f"{'1' * 5000}@g@s"),
        *(f"1@{'g' * 129}@s", f"1@g@{'s' * 513}", Long(5), b"1@g@s"),
    ],
    ids=str,
)
def test_what_is_no_origin_is_refused(peer, queue, given):
    """SB-W-1606 with the form that it should have."""
    sender = peer.sender(queue)
    code, error = sender.outcome_of(sender.post(restored("x", given)))
    assert (code, error.condition) == (REJECTED, "com.microsoft:argument-error")
    assert "SEQUENCE@GENERATION@SOURCE" in error.description


def test_right_to_one_entity_restores_nothing(bus, anonymous, peer, make_queue, texts):
    """SB-W-1607 its annotation is ignored, whatever it is: no restore of another
    entity can vanish because of it."""
    own, other = make_queue(), make_queue()
    stranger = anonymous()
    audience = f"sb://localhost/{own}"
    token = sas_token(audience, bus.key_name, bus.key, time.time() + 600)
    assert Cbs(stranger).put_token(audience, token).status == 202
    sender = stranger.sender(own)
    for text in (origin(1, "mine"), origin(1, "mine"), "nonsense"):
        sender.send(restored("theirs", text))
    peer.sender(other).send(restored("ours", origin(1, "mine")))
    assert texts(own) == ["theirs"] * 3
    assert texts(other) == ["ours"]


def test_schedule_requests_restore_too(peer, queue):
    """SB-W-1608 with 0 for what was restored before."""
    management = Management(peer, queue)
    entries = [{"message": restored("x", origin(1, "request"))}]
    for expected in ([1], [0]):
        answer = management.call("schedule-message", {"messages": entries})
        assert list(answer.body["sequence-numbers"]) == expected
    assert management.peek_texts() == ["x"]
