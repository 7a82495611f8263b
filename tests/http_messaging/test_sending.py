"""Sending over HTTP: what receivers of the vendor's SDK get."""

from datetime import UTC, timedelta

import pytest
from bulk.sdk import Sdk, receive

from conformance.inspection import limit_size
from twinbus.testing import Bus

from .caller import Caller


def test_sdk_receives_what_http_sent(call: Caller, sdk: Sdk, queue: str) -> None:
    call.send(
        queue,
        b"\x00body\xff",
        {
            "Content-Type": "application/x-thing",
            "Priority": '"High"',
            "Quote": r'"say \"h\u00e9\""',
            "Count": "3",
            "Large": "-5000000000",
            "Ratio": "0.5",
            "Urgent": "true",
            "Region": "north",
            "User-Agent": "nobody's property",
        },
        MessageId="m1",
        Label="M1",
        CorrelationId="c1",
        To="t1",
        ReplyTo="r1",
        ReplyToSessionId="rs1",
        PartitionKey="p1",
        TimeToLive=90,
        ForcePersistence=True,
        Unknown=[1],
    )
    [message] = receive(sdk.receiver(queue), 1)
    assert b"".join(message.body) == b"\x00body\xff"
    assert message.application_properties == {
        b"Priority": b"High",
        b"Quote": 'say "h\u00e9"'.encode(),
        b"Count": 3,
        b"Large": -5_000_000_000,
        b"Ratio": 0.5,
        b"Urgent": True,
        b"Region": b"north",
    }
    assert message.message_id == "m1"
    assert message.subject == "M1"
    assert message.correlation_id == "c1"
    assert message.to == "t1"
    assert message.reply_to == "r1"
    assert message.reply_to_session_id == "rs1"
    assert message.partition_key == "p1"
    assert message.content_type == "application/x-thing"
    assert message.time_to_live == timedelta(seconds=90)


def test_message_needs_nothing_but_a_path(call: Caller, sdk: Sdk, queue: str) -> None:
    call.send(queue, b"")
    [message] = receive(sdk.receiver(queue), 1)
    assert b"".join(message.body) == b""
    assert message.message_id
    assert not message.application_properties


def test_scheduled_message_comes_at_its_time(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    due = bus.now() + timedelta(hours=1)
    written = due.strftime("%a, %d %b %Y %H:%M:%S GMT")
    call.send(queue, b"later", ScheduledEnqueueTimeUtc=written)
    assert call.take(queue, 0).status == 204
    bus.advance(3601)
    assert call.take(queue).body == b"later"


def test_message_expires_over_http_as_elsewhere(
    bus: Bus, call: Caller, queue: str
) -> None:
    call.send(queue, b"short", TimeToLive=10)
    call.send(queue, b"long", TimeToLive=10_000_000)
    bus.advance(11)
    answer = call.take(queue, 0)
    assert (answer.body, answer.broker["TimeToLive"]) == (b"long", 10_000_000)


def test_duplicate_is_accepted_and_dropped(bus: Bus, call: Caller) -> None:
    bus.create_queue("once", requires_duplicate_detection=True)
    for body in (b"first", b"second"):
        call.send("once", body, MessageId="same")
    assert call.bodies("once") == [b"first"]


def test_message_with_a_session_is_received_by_the_sdk(
    bus: Bus, call: Caller, sdk: Sdk
) -> None:
    bus.create_queue("groups", requires_session=True)
    call.send("groups", b"one", SessionId="s1")
    [message] = receive(sdk.receiver("groups", session_id="s1"), 1)
    assert (message.session_id, str(message)) == ("s1", "one")
    answer = call("POST", "/groups/messages", b"none")
    assert answer.status == 400
    assert "'groups' requires sessions" in answer.detail


def test_topic_gives_its_subscriptions_a_copy(bus: Bus, call: Caller) -> None:
    bus.create_topic("news")
    bus.create_subscription("news", "all")
    call.send("news", b"hello", Label="L")
    for word in ("subscriptions", "Subscriptions", "SUBSCRIPTIONS"):
        answer = call.lock(f"news/{word}/all")
        assert (answer.body, answer.broker["Label"]) == (b"hello", "L")
        assert f"/news/{word}/all/messages/" in answer.lock
        assert call("PUT", answer.lock).status == 200
    assert call.take("NEWS/Subscriptions/ALL").body == b"hello"


# --- batches ----------------------------------------------------------------------


def test_batch_is_sent_whole(bus: Bus, call: Caller, sdk: Sdk, queue: str) -> None:
    due = (bus.now() - timedelta(days=1)).astimezone(UTC)
    messages = [
        {"Body": "first \u00e9"},
        {
            "Body": "second",
            "BrokerProperties": {
                "Label": "M2",
                "MessageId": "m2",
                "ContentType": "text/plain",
                "TimeToLiveTimeSpan": "00:00:40",
                "ScheduledEnqueueTimeUtc": due.isoformat(),
            },
            "UserProperties": {"a b": "\u00fc", "n": 7, "x": 1.5, "y": False},
        },
        {},
    ]
    assert call.batch(queue, messages).status == 201
    first, second, third = receive(sdk.receiver(queue), 3)
    assert str(first) == "first \u00e9"
    assert (str(second), str(third)) == ("second", "")
    assert (second.subject, second.message_id) == ("M2", "m2")
    assert second.content_type == "text/plain"
    assert second.time_to_live == timedelta(seconds=40)
    assert second.application_properties == {
        **{b"a b": "\u00fc".encode(), b"n": 7, b"x": 1.5, b"y": False}
    }


@pytest.mark.parametrize(
    "bad",
    [
        {"Body": 5},
        {"Body": "x", "BrokerProperties": {"TimeToLive": -1}},
        {"Body": "x", "BrokerProperties": {"MessageId": "i" * 129}},
        {"Body": "x", "BrokerProperties": [1]},
        {"Body": "x", "UserProperties": {"a": [1]}},
        {"Body": "x", "UserProperties": {"a": 1 << 63}},
        {"Body": "x", "UserProperties": {"\ud800": 1}},
        {"Body": "\udfff"},
        "text",
        None,
    ],
)
def test_bad_message_of_a_batch_keeps_all_from_being_sent(
    call: Caller, queue: str, bad: object
) -> None:
    answer = call.batch(queue, [{"Body": "good"}, bad])
    assert answer.status == 400, answer
    assert answer.detail.startswith("SubCode=40000. ")
    assert call.bodies(queue) == []


def test_batch_has_the_size_of_one_message(bus: Bus, call: Caller, queue: str) -> None:
    limit = 256 * 1024
    fits = [{"Body": "x" * 1000}] * (limit // 1100)
    assert call.batch(queue, fits).status == 201
    answer = call.batch(queue, [{"Body": "x" * 1000}] * (limit // 1000))
    assert answer.status == 403
    assert f"{limit} bytes, the limit of 'orders'" in answer.detail
    assert len(call.bodies(queue)) == len(fits)


def test_batch_with_two_keys_is_refused_where_it_must_be(
    bus: Bus, call: Caller
) -> None:
    bus.create_queue("wide", enable_partitioning=True)
    keyed = [{"BrokerProperties": {"PartitionKey": str(n)}} for n in range(2)]
    assert call.batch("wide", keyed).status == 400
    assert call.batch("wide", [keyed[0], keyed[0]]).status == 201
    assert len(call.bodies("wide")) == 2


# --- refusals ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broker", "said"),
    [
        ("{", "BrokerProperties is not valid JSON"),
        ("[]", "BrokerProperties must be a JSON object"),
        ('{"MessageId": 5}', "'MessageId' is '5'; expected a text"),
        ('{"TimeToLive": "x"}', "'TimeToLive' is 'x'; expected seconds"),
        ('{"TimeToLive": 0}', "more than 0"),
        ('{"TimeToLive": true}', "expected seconds"),
        ('{"TimeToLive": NaN}', "NaN is not JSON"),
        ('{"TimeToLiveTimeSpan": "1 hour"}', "a duration such as"),
        ('{"ScheduledEnqueueTimeUtc": "soon"}', "a time such as"),
        ('{"SessionId": "a", "PartitionKey": "b"}', "artition"),
        ('{"Label": "\\ud83d"}', "half of a surrogate pair"),
    ],
)
def test_bad_properties_are_refused_with_their_name(
    call: Caller, queue: str, broker: str, said: str
) -> None:
    answer = call("POST", f"/{queue}/messages", b"x", {"BrokerProperties": broker})
    assert answer.status == 400
    assert said in answer.detail
    assert call.bodies(queue) == []


def test_message_that_is_too_large_is_refused(bus: Bus, call: Caller) -> None:
    bus.create_queue("small", max_message_size_in_kilobytes=100)
    call.send("small", b"x" * 102_000)
    answer = call("POST", "/small/messages", b"x" * 102_400)
    assert answer.status == 403, "the body fits, and the message does not"
    assert "102400 bytes, the limit of 'small'" in answer.detail
    answer = call("POST", "/small/messages", b"x" * 150_000)
    assert answer.status == 403
    assert "may have 102400 bytes; it has 150000" in answer.detail
    assert answer.headers["connection"] == "close"
    assert len(call.bodies("small")) == 1


def test_quota_that_is_used_up_refuses_a_message(bus: Bus, call: Caller) -> None:
    bus.create_queue("full")
    limit_size(bus, "full", 50_000)
    body = b"x" * 20_000
    statuses = [call("POST", "/full/messages", body).status for _ in range(3)]
    assert statuses == [201, 201, 403]
    assert len(call.bodies("full")) == 2


def test_entity_that_does_not_exist_is_gone(call: Caller, queue: str) -> None:
    for method, target in (
        ("POST", "/nothing/messages"),
        ("POST", "/nothing/messages/head"),
        ("DELETE", "/nothing/messages/head?timeout=30"),
        ("DELETE", f"/nothing/messages/1/{'0' * 8}-0000-0000-0000-{'0' * 12}"),
        ("POST", "/orders/subscriptions/no/messages/head"),
    ):
        answer = call(method, target)
        assert answer.status == 410, (target, answer)
        assert "could not be found" in answer.detail


def test_disabled_entity_refuses(bus: Bus, call: Caller, queue: str) -> None:
    bus.update_queue(queue, status="SendDisabled")
    assert call("POST", "/orders/messages").status == 400
    bus.update_queue(queue, status="ReceiveDisabled")
    assert call("POST", "/orders/messages").status == 201
    assert call.lock(queue).status == 400


def test_nobody_sends_to_dead_letters(call: Caller, queue: str) -> None:
    answer = call("POST", f"/{queue}/$DeadLetterQueue/messages", b"x")
    assert answer.status == 400
    assert "by being dead-lettered" in answer.detail
