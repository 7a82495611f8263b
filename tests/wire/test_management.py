"""SB-W-7xx: `$management`: forms of the answers, peek, schedule, deferred messages."""

import uuid

import pytest

from .codec import Array, Int, Long, Symbol, Timestamp, Ubyte, Uint, Ulong
from .frames import MODIFIED, LinkRefused, outcome
from .management import Management, longs, uuids
from .message import Received, data_message, scheduled_message, value_message


@pytest.fixture
def management(peer, queue):
    """The `$management` node of the queue."""
    return Management(peer, queue)


def _peek(start=1, count=10):
    return {"from-sequence-number": Long(start), "message-count": Int(count)}


def _send(peer, queue, *texts):
    sender = peer.sender(queue)
    for text in texts:
        sender.send(data_message(text))


def _defer(peer, queue, *texts):
    """Send and defer; gives the sequence numbers."""
    _send(peer, queue, *texts)
    link = peer.receiver(queue)
    deliveries = link.take(len(texts))
    for delivery in deliveries:
        link.settle(delivery.delivery_id, outcome(MODIFIED, None, True))
        link.verdict_of(delivery.delivery_id)
    return [delivery.message.sequence_number for delivery in deliveries]


def test_answer_has_camel_case_properties_of_the_right_types(peer, queue, management):
    """SB-W-701 `statusCode` int, `statusDescription` string."""
    _send(peer, queue, "x")
    properties = management.call("peek-message", _peek()).message.application_properties
    assert type(properties["statusCode"]) is Int
    assert properties["statusCode"] == 200
    assert type(properties.get("statusDescription", "")) is str


def test_error_answer_has_a_condition_symbol(management):
    """SB-W-702 `errorCondition` is a symbol: .NET unboxes it as one."""
    body = {"sequence-numbers": longs(99), "receiver-settle-mode": Uint(1)}
    answer = management.call("receive-by-sequence-number", body)
    properties = answer.message.application_properties
    assert type(properties["statusCode"]) is Int
    assert type(properties["errorCondition"]) is Symbol
    assert (answer.status, answer.condition) == (404, "com.microsoft:message-not-found")


@pytest.mark.parametrize(
    "message_id",
    [uuid.UUID(int=9), "an id", Ulong(77), Ulong(2**50), b"\x01\x02"],
    ids=["uuid", "string", "small", "ulong", "binary"],
)
def test_correlation_id_has_the_type_of_the_message_id(management, message_id):
    """SB-W-703 the answer's correlation id equals the request's id, type included."""
    assert management.call("peek-message", _peek(), message_id=message_id).status == 204


@pytest.mark.parametrize(
    ("target", "link_name", "reply_to"),
    [
        ("a-target", None, None),
        ("a-target", None, "a-target"),
        (None, "a-link-name", "a-link-name"),
    ],
    ids=["none", "target", "name"],
)
def test_reply_finds_its_way(peer, queue, target, link_name, reply_to):
    """SB-W-704 no reply-to, reply-to = target, reply-to = link name."""
    management = Management(peer, queue, target=target, link_name=link_name)
    answer = management.call("peek-message", _peek(), reply_to=reply_to)
    assert answer.status == 204


def test_replies_go_to_the_link_that_was_named(peer, make_queue):
    """SB-W-705 with several request links on a session each gets its own answers."""
    one, two = make_queue(), make_queue()
    first = Management(peer, one, target="first")
    second = Management(peer, two, target="second")
    _send(peer, two, "x")
    answer = second.call("peek-message", _peek(), reply_to="second")
    assert answer.status == 200
    assert first.call("peek-message", _peek(), reply_to="first").status == 204


def test_several_requests_are_answered_without_waiting(management):
    """SB-W-706 pipelined requests are each answered, in order."""
    ids = [f"pipelined-{n}" for n in range(20)]
    for one in ids:
        management.sender.post(
            value_message(
                _peek(),
                properties={"message_id": one},
                application_properties={"operation": "com.microsoft:peek-message"},
            )
        )
    assert [management.answer_to(one).status for one in ids] == [204] * 20


def test_unknown_operation_is_refused(management):
    """SB-W-707 an operation that does not exist: an error, the link lives on."""
    answer = management.call("no-such-operation", {})
    assert answer.status in (400, 404, 501)
    assert management.call("peek-message", _peek()).status == 204


@pytest.mark.parametrize(
    "body",
    [None, "text", {}, {"from-sequence-number": "one", "message-count": Int(1)}],
    ids=repr,
)
def test_malformed_request_is_a_bad_request(management, body):
    """SB-W-708 wrong or missing fields: 400, the link lives on."""
    assert management.call("peek-message", body).status == 400
    assert management.call("peek-message", _peek()).status == 204


def test_management_of_an_unknown_queue_is_refused(peer):
    """SB-W-709 attaching to `$management` of nothing: not found."""
    with pytest.raises(LinkRefused) as refused:
        Management(peer, "no-such-queue")
    assert refused.value.error.condition == "amqp:not-found"


def test_peek_of_nothing_is_204(management):
    """SB-W-710 JavaScript reads the body of anything else."""
    assert management.call("peek-message", _peek()).status == 204


def test_peek_is_a_list_of_maps(peer, queue, management):
    """SB-W-711 `messages` is a list; each entry has `message`, binary and whole."""
    _send(peer, queue, "a", "b")
    entries = management.call("peek-message", _peek()).body["messages"]
    assert type(entries) is list
    assert all(type(entry["message"]) is bytes for entry in entries)
    messages = [Received(entry["message"]) for entry in entries]
    assert [m.text for m in messages] == ["a", "b"]
    assert messages[0].raw[:3] == b"\x00\x53\x70"
    assert type(messages[0].annotations[Symbol("x-opt-message-state")]) is Int
    assert all("lock-token" not in entry for entry in entries)


@pytest.mark.parametrize("width", [Int, Long, Uint, Ulong, Ubyte])
def test_numbers_of_a_request_have_any_width(peer, queue, management, width):
    """SB-W-712 counts and numbers may come in any integer type."""
    _send(peer, queue, "x")
    body = {"from-sequence-number": width(0), "message-count": width(1)}
    assert management.call("peek-message", body).status == 200


def test_peek_does_not_lock_or_count(peer, queue, management):
    """SB-W-713 after two peeks the first delivery has count 0."""
    _send(peer, queue, "x")
    management.peek(1, 1)
    management.peek(1, 1)
    (delivery,) = peer.receiver(queue).take()
    assert delivery.message.header["delivery_count"] == 0


def test_schedule_answers_an_array_of_longs(bus, queue, management):
    """SB-W-714 `sequence-numbers` is an AMQP array of 8-byte longs, in order."""
    due_at = int(bus.now().timestamp() * 1000) + 60_000
    entries = [
        {"message": scheduled_message(text, due_at), "message-id": text}
        for text in ("a", "b")
    ]
    answer = management.call("schedule-message", {"messages": entries})
    numbers = answer.body["sequence-numbers"]
    assert (answer.status, list(numbers)) == (200, [1, 2])
    assert isinstance(numbers, Array) and numbers.constructor == 0x81
    peeked = management.peek(1, 10)
    states = [m.annotations[Symbol("x-opt-message-state")] for m in peeked]
    assert states == [2, 2]
    due = peeked[0].annotations[Symbol("x-opt-scheduled-enqueue-time")]
    assert (type(due), due) == (Timestamp, due_at)


def test_schedule_is_all_or_nothing(bus, management):
    """SB-W-715 a broken message in the list keeps all of them out."""
    due_at = int(bus.now().timestamp() * 1000) + 60_000
    good = {"message": scheduled_message("a", due_at), "message-id": "a"}
    bad = {"message": b"\xff\xff\xff", "message-id": "b"}
    answer = management.call("schedule-message", {"messages": [good, bad]})
    assert answer.status == 400
    assert management.peek_texts() == []


def test_cancel_answers_an_empty_map(bus, management):
    """SB-W-716 cancel: 200 and a map; cancelled twice: 404."""
    due_at = int(bus.now().timestamp() * 1000) + 60_000
    entry = {"message": scheduled_message("a", due_at), "message-id": "a"}
    management.call("schedule-message", {"messages": [entry]})
    body = {"sequence-numbers": longs(1)}
    answer = management.call("cancel-scheduled-message", body)
    assert (answer.status, answer.body) == (200, {})
    again = management.call("cancel-scheduled-message", body)
    assert (again.status, again.condition) == (404, "com.microsoft:message-not-found")


def test_receive_by_number_with_lock(peer, queue, management):
    """SB-W-717 mode 1: list of maps with `message` and `lock-token` (uuid)."""
    numbers = _defer(peer, queue, "a", "b")
    body = {"sequence-numbers": longs(*numbers), "receiver-settle-mode": Uint(1)}
    answer = management.call("receive-by-sequence-number", body)
    assert answer.status == 200
    entries = answer.body["messages"]
    assert type(entries) is list
    assert all(type(entry["lock-token"]) is uuid.UUID for entry in entries)
    messages = [Received(entry["message"]) for entry in entries]
    assert sorted(m.text for m in messages) == ["a", "b"]
    for received in messages:
        until = received.annotations[Symbol("x-opt-locked-until")]
        assert type(until) is Timestamp
    tokens = uuids(*(entry["lock-token"] for entry in entries))
    settle = {"disposition-status": "completed", "lock-tokens": tokens}
    assert management.call("update-disposition", settle).status == 200
    assert management.peek_texts() == []


@pytest.mark.parametrize("mode", [Uint(0), Ubyte(0)], ids=["uint", "ubyte"])
def test_receive_by_number_and_delete(peer, queue, management, mode):
    """SB-W-718 mode 0: no lock token, and the message is gone."""
    (number,) = _defer(peer, queue, "x")
    body = {"sequence-numbers": longs(number), "receiver-settle-mode": mode}
    (entry,) = management.call("receive-by-sequence-number", body).body["messages"]
    assert Received(entry["message"]).text == "x"
    assert entry.get("lock-token") is None
    assert management.peek_texts() == []


@pytest.mark.parametrize("mode", [Uint(0), Uint(1)], ids=["delete", "lock"])
def test_receive_by_number_is_all_or_nothing(peer, queue, management, mode):
    """SB-W-719 one unknown number: 404, never 204, and nothing is taken."""
    (number,) = _defer(peer, queue, "x")
    body = {"sequence-numbers": longs(number, 4711), "receiver-settle-mode": mode}
    answer = management.call("receive-by-sequence-number", body)
    assert (answer.status, answer.condition) == (404, "com.microsoft:message-not-found")
    good = {"sequence-numbers": longs(number), "receiver-settle-mode": Uint(1)}
    assert management.call("receive-by-sequence-number", good).status == 200


def test_management_of_the_dead_letters_is_its_own(peer, queue):
    """SB-W-720 `queue/$DeadLetterQueue/$management` peeks the sub-queue."""
    _send(peer, queue, "x")
    dead_letters = Management(peer, f"{queue}/$DeadLetterQueue")
    assert dead_letters.call("peek-message", _peek()).status == 204
    assert Management(peer, f"/{queue}").peek_texts() == ["x"]


def test_listen_claim_is_enough_for_rules(bus, dial):
    """SB-W-721 the SDKs' rule managers have the key of who receives."""
    bus.create_topic("news")
    bus.create_subscription("news", "all")
    text = bus.connection_string_for("Listen")
    settings = dict(part.split("=", 1) for part in text.strip(";").split(";"))
    peer = dial()
    name, key = settings["SharedAccessKeyName"], settings["SharedAccessKey"]
    assert peer.sasl_plain(name, key) == 0
    peer.start()
    management = Management(peer, "news/Subscriptions/all")
    description = {"sql-filter": {"expression": "amount > 100"}}
    rule = {"rule-name": "large", "rule-description": description}
    assert management.call("add-rule", rule).status == 200
    assert management.call("remove-rule", {"rule-name": "$Default"}).status == 200
    listed = management.call("enumerate-rules", {"top": Int(10), "skip": Int(0)})
    assert len(listed.body["rules"]) == 1
