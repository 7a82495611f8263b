"""SB-W-12xx: sessions frame by frame: waiting attaches, their answers,
`$management`."""

import uuid
from datetime import timedelta

import pytest

from .codec import (
    Array,
    Byte,
    Described,
    Int,
    Long,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
)
from .frames import (
    ACCEPTED,
    ATTACH,
    DETACH,
    FLOW,
    MODIFIED,
    RECEIVER,
    REJECTED,
    LinkRefused,
    error_of,
    outcome,
    terminus,
)
from .management import Management, longs, uuids
from .message import Received, data_message, scheduled_message
from .peer import ReceiverLink

FILTER = "com.microsoft:session-filter"
LOCKED_UNTIL = "com.microsoft:locked-until-utc"
TIMEOUT = "com.microsoft:timeout"
EPOCH_TICKS = 621_355_968_000_000_000
ALL_SESSIONS = Timestamp(253_402_300_800_000)
LONG_AGO = Timestamp(0)


@pytest.fixture
def queue(make_queue):
    """A queue that requires sessions."""
    return make_queue(requires_session=True, lock_duration=timedelta(seconds=60))


def source(address, session_id):
    """A source that asks for a session; null for the next one."""
    filters = {Symbol(FILTER): session_id}
    return Described(Ulong(0x28), [address, *[None] * 6, filters])


def accept(peer, queue, session_id, **changes):
    return peer.receiver(queue, source=source(queue, session_id), **changes)


def ask(peer, queue, session_id=None, **changes):
    """Send the attach for a session without waiting for the answer."""
    return peer.send_attach(
        RECEIVER,
        **{
            "snd_settle_mode": Ubyte(0),
            "rcv_settle_mode": Ubyte(1),
            "source": source(queue, session_id),
            "target": terminus(0x29, None),
            **changes,
        },
    )


def send(peer, queue, session_id, *texts):
    sender = peer.sender(queue)
    for text in texts:
        sender.send(data_message(text, properties={"group_id": session_id}))


def refusal(attach, *args, **changes):
    with pytest.raises(LinkRefused) as refused:
        attach(*args, **changes)
    return refused.value.error


def test_attach_to_a_session_is_answered_with_its_name_and_lock(peer, bus, queue):
    """SB-W-1201 the source as sent, the id in its filter; a long, in ticks."""
    send(peer, queue, "mine", "x")
    address = f"amqps://localhost/{queue}"
    properties = {Symbol("com.microsoft:receiver-name"): "me"}
    attached = peer.receiver(
        queue, source=source(address, None), properties=properties
    ).attached
    assert attached.source.value[0] == address
    filters = attached.source.value[7]
    assert filters == {FILTER: "mine"}
    assert [type(key) for key in filters] == [Symbol]
    assert type(filters[FILTER]) is str
    ticks = attached.properties[LOCKED_UNTIL]
    assert type(ticks) is Long
    left_ms = (ticks - EPOCH_TICKS) // 10_000 - bus.clock.now()
    assert 0 < left_ms <= 60_000
    assert attached.properties["com.microsoft:receiver-name"] == "me"
    assert attached.initial_delivery_count == 0


@pytest.mark.parametrize("descriptor", [Symbol(FILTER), Ulong(0x137000000C)])
@pytest.mark.parametrize("asked", ["mine", None])
def test_described_filter_is_answered_described(peer, queue, descriptor, asked):
    """SB-W-1202 as the standard wants it; Go takes no answer of another form."""
    send(peer, queue, "mine", "x")
    attached = accept(peer, queue, Described(descriptor, asked)).attached
    answered = attached.source.value[7][FILTER]
    assert (answered.descriptor, answered.value) == (descriptor, "mine")
    assert (type(answered.descriptor), type(answered.value)) == (type(descriptor), str)


@pytest.mark.parametrize("value", [Int(7), b"bytes", ["list"]])
def test_filter_that_names_no_session_is_refused(peer, queue, value):
    """SB-W-1203 argument-error; the text says what is expected."""
    error = refusal(accept, peer, queue, value)
    assert error.condition == "com.microsoft:argument-error"
    assert "expected the id of a session" in error.description


def test_attach_waits_for_a_session(peer, connect, queue):
    """SB-W-1204 no answer until there is one, while other links go on; credit that
    came before the answer counts."""
    name, handle = ask(peer, queue)
    window = [Uint(0), Uint(1_000_000), Uint(0), Uint(1_000_000)]
    peer.send(FLOW, [*window, Uint(handle), None, Uint(5)])
    send(peer, queue, "late", "x")
    attached, _ = peer.answer_to(name, handle)
    names = [frame.name for frame in peer.frames if frame.code == ATTACH]
    assert names[-1] == name
    assert attached.source.value[7] == {FILTER: "late"}
    assert ReceiverLink(peer, attached, handle).next().message.text == "x"


@pytest.mark.parametrize("number", [Uint, Long, Int, Ulong, Byte])
def test_attach_waits_no_longer_than_the_client_says(peer, queue, number):
    """SB-W-1205 `com.microsoft:timeout`, of any integer type, in milliseconds."""
    properties = {Symbol(TIMEOUT): number(50)}
    error = refusal(accept, peer, queue, None, properties=properties)
    assert error.condition == "com.microsoft:timeout"


def test_who_waited_and_left_gets_nothing(peer, connect, queue):
    """SB-W-1206 a detach, and a lost connection, end the waiting."""
    name, handle = ask(peer, queue)
    gone = connect()
    ask(gone, queue)
    gone.socket.close()
    peer.send(DETACH, [Uint(handle), True])
    answer = peer.expect(ATTACH, lambda frame: frame.name == name)
    assert (answer.source, answer.target) == (None, None)
    peer.expect(DETACH, lambda frame: frame.handle == answer.handle)
    send(peer, queue, "a", "x")
    assert accept(peer, queue, None).take()[0].message.text == "x"


def test_those_who_wait_are_served_in_turn(peer, connect, queue):
    """SB-W-1207 first come, first served."""
    first, second = connect(), connect()
    waiting = []
    for client in (first, second):
        waiting.append(ask(client, queue))
        # Its attach has been read when another link of the connection is answered.
        client.sender(queue)
    send(peer, queue, "a", "x")
    assert first.answer_to(*waiting[0])[0].source.value[7] == {FILTER: "a"}
    send(peer, queue, "b", "y")
    assert second.answer_to(*waiting[1])[0].source.value[7] == {FILTER: "b"}


def test_who_waits_is_told_when_the_queue_goes(peer, bus, queue):
    """SB-W-1208 deleted: not-found; disabled: entity-disabled."""
    waiting = ask(peer, queue)
    peer.sender(queue)
    bus.update_queue(queue, status="ReceiveDisabled")
    error = refusal(peer.answer_to, *waiting)
    assert error.condition == "com.microsoft:entity-disabled"
    bus.update_queue(queue, status="Active")
    waiting = ask(peer, queue)
    peer.sender(queue)
    bus.delete_queue(queue)
    assert refusal(peer.answer_to, *waiting).condition == "amqp:not-found"


def test_session_is_asked_for_where_it_must_be_and_only_there(peer, make_queue, queue):
    """SB-W-1209 not-allowed: a plain link to a session queue, a session of another."""
    error = refusal(peer.receiver, queue)
    assert error.condition == "amqp:not-allowed"
    assert "requires sessions" in error.description
    plain = make_queue()
    for address in (plain, f"{queue}/$DeadLetterQueue"):
        error = refusal(accept, peer, address, "a")
        assert error.condition == "amqp:not-allowed"
        assert "does not require sessions" in error.description
    peer.receiver(f"{queue}/$DeadLetterQueue")


def test_lost_session_detaches_its_link(peer, bus, queue):
    """SB-W-1210 session-lock-lost, with the session's name; to settle is refused."""
    send(peer, queue, "mine", "x")
    link = accept(peer, queue, "mine")
    [delivery] = link.take()
    until = delivery.message.annotations["x-opt-locked-until"]
    assert type(until) is Timestamp
    assert until == (link.attached.properties[LOCKED_UNTIL] - EPOCH_TICKS) // 10_000
    bus.advance(61)
    detach = peer.expect(DETACH, lambda frame: frame.handle == link.remote_handle)
    assert detach.closed is True
    error = error_of(detach.error)
    assert error.condition == "com.microsoft:session-lock-lost"
    assert "'mine'" in error.description
    link.settle(delivery.delivery_id, outcome(ACCEPTED))
    code, error = link.verdict_of(delivery.delivery_id)
    assert (code, error.condition) == (REJECTED, "com.microsoft:session-lock-lost")


def test_drain_is_answered_within_a_session(peer, queue):
    """SB-W-1211 also where the session is empty."""
    send(peer, queue, "a", "x")
    link = accept(peer, queue, "a")
    assert link.take()[0].message.text == "x"
    link.nothing_comes()
    accept(peer, queue, "empty").nothing_comes()


def test_renewal_of_a_session_lock(peer, bus, queue):
    """SB-W-1212 `expiration` is a timestamp; 410 for who does not hold it."""
    management = Management(peer, queue)
    answer = management.call("renew-session-lock", {"session-id": "a"})
    lost = (410, "com.microsoft:session-lock-lost")
    assert (answer.status, answer.condition) == lost
    accept(peer, queue, "a")
    bus.advance(10)
    answer = management.call("renew-session-lock", {"session-id": "a"})
    assert answer.status == 200
    assert type(answer.body["expiration"]) is Timestamp
    assert answer.body["expiration"] == bus.clock.now() + 60_000


def test_session_state(peer, queue):
    """SB-W-1213 binary or null, the key is always there; 410 for who does not hold."""
    management = Management(peer, queue)
    named = {"session-id": "a"}
    for operation in ("get-session-state", "set-session-state"):
        answer = management.call(operation, {**named, "session-state": b"x"})
        assert answer.status == 410
        assert answer.condition == "com.microsoft:session-lock-lost"
    accept(peer, queue, "a")
    assert management.call("get-session-state", named).body == {"session-state": None}
    # No byte at all is no state, as it is to the service.
    for state in (b"state", None, b"more", b""):
        body = {**named, "session-state": state}
        answer = management.call("set-session-state", body)
        assert (answer.status, answer.body) == (200, {})
        answer = management.call("get-session-state", named)
        assert answer.body == {"session-state": state or None}
    answer = management.call("set-session-state", {**named, "session-state": "text"})
    assert (answer.status, answer.condition) == (400, "com.microsoft:argument-error")


def test_session_state_counts_towards_the_size(peer, bus, queue):
    """SB-W-1214 as a message of that size does, and no longer than it is kept."""
    accept(peer, queue, "a")
    management = Management(peer, queue)
    entity = bus.server.namespace.entity(queue)
    sizes = []
    for state in (bytes(100), bytes(300), bytes(50), None):
        body = {"session-id": "a", "session-state": state}
        assert management.call("set-session-state", body).status == 200
        sizes.append(entity.size_bytes())
    assert sizes == [100, 300, 50, 0]


def test_list_of_sessions(peer, queue):
    """SB-W-1215 an array of strings, and how many were seen; 204 where none is."""
    management = Management(peer, queue)

    def listed(skip, top):
        body = {"last-updated-time": ALL_SESSIONS, "skip": Int(skip), "top": Int(top)}
        return management.call("get-message-sessions", body)

    answer = listed(0, 100)
    assert (answer.status, answer.condition) == (204, "com.microsoft:session-not-found")
    for number in range(5):
        send(peer, queue, f"s{number}", "x")
    answer = listed(0, 2)
    assert isinstance(answer.body["sessions-ids"], Array)
    assert answer.body["sessions-ids"] == ["s0", "s1"]
    assert (type(answer.body["skip"]), answer.body["skip"]) == (Int, 2)
    assert listed(2, 2).body["sessions-ids"] == ["s2", "s3"]
    assert listed(4, 2).body["sessions-ids"] == ["s4"]
    assert listed(5, 2).status == 204
    # From where no page has ended.
    assert listed(3, 2).body["sessions-ids"] == ["s3", "s4"]
    assert listed(1, 1).body["skip"] == 2
    assert listed(99, 1).status == 204


def test_peek_and_deferred_messages_of_sessions(peer, queue):
    """SB-W-1216 peek with and without a session; deferred messages with one alone."""
    send(peer, queue, "a", "a1", "a2")
    send(peer, queue, "b", "b1")
    management = Management(peer, queue)
    assert management.peek_texts() == ["a1", "a2", "b1"]
    body = {"from-sequence-number": Long(0), "message-count": Int(9)}
    answer = management.call("peek-message", {**body, "session-id": "a"})
    messages = [Received(entry["message"]) for entry in answer.body["messages"]]
    assert [message.text for message in messages] == ["a1", "a2"]
    assert management.call("peek-message", {**body, "session-id": "c"}).status == 204
    link = accept(peer, queue, "a")
    [delivery] = link.take()
    link.settle(delivery.delivery_id, outcome(MODIFIED, None, True))
    link.verdict_of(delivery.delivery_id)
    number = delivery.message.sequence_number
    body = {"sequence-numbers": longs(number), "receiver-settle-mode": Uint(1)}
    answer = management.call("receive-by-sequence-number", body)
    assert (answer.status, answer.condition) == (400, "com.microsoft:argument-error")
    answer = management.call("receive-by-sequence-number", {**body, "session-id": "b"})
    assert (answer.status, answer.condition) == (
        410,
        "com.microsoft:session-lock-lost",
    )
    answer = management.call("receive-by-sequence-number", {**body, "session-id": "a"})
    [entry] = answer.body["messages"]
    annotations = Received(entry["message"]).annotations
    ticks = link.attached.properties[LOCKED_UNTIL]
    assert annotations["x-opt-locked-until"] == (ticks - EPOCH_TICKS) // 10_000
    settle = {"disposition-status": "completed"}
    settle["lock-tokens"] = uuids(entry["lock-token"])
    answer = management.call("update-disposition", {**settle, "session-id": "b"})
    assert answer.condition == "com.microsoft:session-lock-lost"
    answer = management.call("update-disposition", {**settle, "session-id": "a"})
    assert answer.status == 200
    assert management.peek_texts() == ["a2", "b1"]


def test_settling_by_token_within_a_session(peer, queue):
    """SB-W-1217 works while the session is held; the token is lost with it."""
    send(peer, queue, "a", "x", "y")
    management = Management(peer, queue)
    link = accept(peer, queue, "a")
    first, second = link.take(2)

    def settled(delivery):
        token = uuid.UUID(bytes_le=delivery.tag)
        body = {"disposition-status": "completed", "lock-tokens": uuids(token)}
        answer = management.call("update-disposition", {**body, "session-id": "a"})
        return answer.status, answer.condition

    assert settled(first) == (200, None)
    link.detach()
    assert settled(second) == (410, "com.microsoft:session-lock-lost")


def test_message_lock_in_a_session_ends_with_the_session(peer, bus, queue):
    """SB-W-1218 renewing it changes nothing and says when that is."""
    send(peer, queue, "a", "x")
    link = accept(peer, queue, "a")
    [delivery] = link.take()
    bus.advance(10)
    body = {"lock-tokens": uuids(uuid.UUID(bytes_le=delivery.tag))}
    answer = Management(peer, queue).call("renew-lock", body)
    ticks = link.attached.properties[LOCKED_UNTIL]
    assert answer.body["expirations"] == [(ticks - EPOCH_TICKS) // 10_000]


def test_batch_delete_with_sessions(peer, queue):
    """SB-W-1219 of one session or of all; what is locked stays."""
    send(peer, queue, "a", "a1", "a2", "a3")
    send(peer, queue, "b", "b1", "b2")
    link = accept(peer, queue, "a")
    link.take()
    management = Management(peer, queue)

    def deleted(**more):
        body = {
            "message-count": Int(2),
            "enqueued-time-utc": Timestamp(253_402_300_799_999),
            **more,
        }
        answer = management.call("batch-delete-messages", body)
        return answer.status, answer.body["message-count"]

    assert deleted(**{"session-id": "b"}) == (200, 2)
    assert deleted(**{"session-id": "b"}) == (204, 0)
    assert management.peek_texts() == ["a1", "a2", "a3"]
    assert deleted() == (200, 2)
    assert management.peek_texts() == ["a1"]
    link.nothing_comes()


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("renew-session-lock", {}),
        ("get-session-state", {}),
        ("set-session-state", {"session-state": b"x"}),
        ("peek-message", {"from-sequence-number": Long(0), "message-count": Int(1)}),
        (
            "get-message-sessions",
            {"last-updated-time": LONG_AGO, "skip": Int(0), "top": Int(1)},
        ),
    ],
)
def test_sessions_are_asked_for_where_there_are_none(peer, make_queue, operation, body):
    """SB-W-1220 not-allowed on a queue without sessions."""
    management = Management(peer, make_queue())
    answer = management.call(operation, {**body, "session-id": "a"})
    assert (answer.status, answer.condition) == (400, "amqp:not-allowed")


def test_scheduled_message_needs_a_session_id(peer, bus, queue):
    """SB-W-1221 one without it is refused when it is scheduled, not when it is due."""
    raw = scheduled_message("x", bus.clock.now() + 10_000)
    body = {"messages": [{"message": raw, "message-id": "1"}]}
    answer = Management(peer, queue).call("schedule-message", body)
    assert (answer.status, answer.condition) == (400, "amqp:not-allowed")
