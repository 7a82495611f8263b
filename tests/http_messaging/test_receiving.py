"""Receiving over HTTP: what senders of the vendor's SDK have sent."""

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageProperties
from bulk.sdk import Sdk, receive

from twinbus.testing import Bus

from .caller import Caller

SCHEDULED = datetime(2020, 5, 17, 12, 30, 15, tzinfo=UTC)


def test_http_receives_what_the_sdk_sent(call: Caller, sdk: Sdk, queue: str) -> None:
    message = ServiceBusMessage(
        b"\x00body\xff",
        application_properties={
            "Text": 'say "h\u00e9"\n',
            "Whole": 5,
            "Long": 2_000_000_000,
            "Ratio": 0.25,
            "Yes": True,
            "When": SCHEDULED,
            "Id": UUID(int=5),
        },
        message_id="m1",
        subject="M1",
        correlation_id="c1",
        to="t1",
        reply_to="r1",
        content_type="text/x-thing",
        partition_key="p1",
    )
    sdk.send(queue, message)
    answer = call.take(queue)
    assert (answer.status, answer.body) == (200, b"\x00body\xff")
    assert "location" not in answer.headers
    assert answer.headers["content-type"] == "text/x-thing"
    properties = {
        name: json.loads(answer.headers[name])
        for name in ("Text", "Whole", "Long", "Ratio", "Yes", "When", "Id")
    }
    assert properties == {
        "Text": 'say "h\u00e9"\n',
        "Whole": 5,
        "Long": 2_000_000_000,
        "Ratio": 0.25,
        "Yes": True,
        "When": "Sun, 17 May 2020 12:30:15 GMT",
        "Id": str(UUID(int=5)),
    }
    broker = answer.broker
    enqueued = broker.pop("EnqueuedTimeUtc")
    assert enqueued.endswith(" GMT")
    assert broker == {
        "DeliveryCount": 1,
        "EnqueuedSequenceNumber": 0,
        "SequenceNumber": 1,
        "State": "Active",
        "TimeToLive": 922337203685.4775,
        "MessageId": "m1",
        "Label": "M1",
        "CorrelationId": "c1",
        "To": "t1",
        "ReplyTo": "r1",
        "ContentType": "text/x-thing",
        "PartitionKey": "p1",
    }


def test_property_that_cannot_be_a_header_is_told(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    """Above all those that would be another header of the response."""
    given = {"a b": 1, "Content-Length": "3", "\u00e9": "x\r\ny: z", "Host": "evil"}
    sdk.send(queue, ServiceBusMessage("body", application_properties={**given}))
    answer = call.take(queue)
    assert answer.body == b"body"
    assert json.loads(answer.headers["x-twinbus-properties"]) == given
    assert "y" not in answer.headers


def test_content_type_that_cannot_be_a_header_is_left_out(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    sdk.send(queue, ServiceBusMessage("body", content_type="a\r\nx: y"))
    answer = call.take(queue)
    assert "x" not in answer.headers
    assert "content-type" not in answer.headers
    assert answer.broker["ContentType"] == "a\r\nx: y"


@pytest.mark.parametrize(
    ("body", "shown", "kind", "content_type"),
    [
        ({"value_body": "t\u00e9xt"}, "t\u00e9xt".encode(), "value", None),
        ({"value_body": b"\x01\x02"}, b"\x01\x02", "value", None),
        ({"value_body": 5}, b"5", "value", "application/json"),
        ({"value_body": [None]}, b"[null]", "value", "application/json"),
        (
            {"value_body": {"a": [1, b"\x01", True]}},
            b'{"a": [1, "AQ==", true]}',
            *("value", "application/json"),
        ),
        (
            {"sequence_body": [1, "two", 3.5]},
            b'[1, "two", 3.5]',
            *("sequence", "application/json"),
        ),
        ({"data_body": [b"one", b"two"]}, b"onetwo", None, None),
    ],
)
def test_bodies_of_every_kind(
    call: Caller,
    sdk: Sdk,
    queue: str,
    body: dict[str, object],
    shown: bytes,
    kind: str | None,
    content_type: str | None,
) -> None:
    with sdk.client.get_queue_sender(queue) as sender:
        sender.send_messages(AmqpAnnotatedMessage(**body))
    answer = call.take(queue)
    assert answer.body == shown
    assert answer.headers.get("x-twinbus-body") == kind
    assert answer.headers.get("content-type") == content_type


def test_ids_that_are_no_texts_are_shown_as_texts(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    properties = AmqpMessageProperties(message_id=UUID(int=7), correlation_id=9)
    with sdk.client.get_queue_sender(queue) as sender:
        sender.send_messages(
            AmqpAnnotatedMessage(data_body=b"x", properties=properties)
        )
    broker = call.take(queue).broker
    assert broker["MessageId"] == str(UUID(int=7))
    assert broker["CorrelationId"] == "9"


def test_order_is_that_of_sending(call: Caller, queue: str) -> None:
    for number in range(40):
        call.send(queue, str(number).encode())
    assert call.bodies(queue) == [str(number).encode() for number in range(40)]


def test_dead_letters_are_received_in_any_case(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    sdk.send(queue, "a", "b", "c")
    receiver = sdk.receiver(queue)
    for message in receive(receiver, 3):
        receiver.dead_letter_message(message, reason="why", error_description="so")
    answer = call.lock("Orders/$deadletterqueue")
    assert answer.broker["DeadLetterSource"] == queue
    assert json.loads(answer.headers["DeadLetterReason"]) == "why"
    assert json.loads(answer.headers["DeadLetterErrorDescription"]) == "so"
    assert call("DELETE", answer.lock).status == 200
    assert call.take("orders/$DeadLetterQueue").status == 200
    assert call.take("orders/%24deadletterQUEUE").status == 200
    assert call.take("orders/$DeadLetterQueue", 0).status == 204


def test_sessions_cannot_be_received(bus: Bus, call: Caller) -> None:
    bus.create_queue("groups", requires_session=True)
    call.send("groups", b"x", SessionId="s")
    for answer in (call.take("groups"), call.lock("groups")):
        assert answer.status == 400
        assert "cannot be received over HTTP. Receive them over AMQP" in answer.detail


def test_topic_cannot_be_received_from(bus: Bus, call: Caller) -> None:
    bus.create_topic("news")
    assert call.lock("news").status == 400


# --- locks ------------------------------------------------------------------------


def test_locked_message_is_completed(call: Caller, queue: str) -> None:
    call.send(queue, b"one")
    answer = call.lock(queue)
    assert answer.broker["LockToken"] in answer.headers["location"]
    assert answer.broker["SequenceNumber"] == 1
    assert call.lock(queue, 0).status == 204
    assert call("DELETE", answer.lock).status == 200
    again = call("DELETE", answer.lock)
    assert again.status == 404
    assert "The lock supplied for a message of 'orders' is invalid" in again.detail
    assert call.bodies(queue) == []


def test_message_is_named_by_its_id_as_well(call: Caller, queue: str) -> None:
    call.send(queue, b"one", MessageId="my/id %2F")
    token = call.lock(queue).broker["LockToken"]
    assert call("DELETE", f"/{queue}/messages/my%2Fid%20%252F/{token}").status == 200


def test_unlocked_message_comes_back_with_a_higher_count(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    call.send(queue, b"one")
    answer = call.lock(queue)
    assert answer.broker["DeliveryCount"] == 1
    assert call("PUT", answer.lock).status == 200
    assert call.lock(queue).broker["DeliveryCount"] == 2


def test_lock_is_renewed(bus: Bus, call: Caller, queue: str) -> None:
    call.send(queue, b"one")
    answer = call.lock(queue)
    bus.advance(40)
    renewed = call("POST", answer.lock)
    assert renewed.status == 200
    assert renewed.broker["LockedUntilUtc"] > answer.broker["LockedUntilUtc"]
    bus.advance(40)
    assert call("DELETE", answer.lock).status == 200


def test_lock_runs_out(bus: Bus, call: Caller, queue: str) -> None:
    call.send(queue, b"one")
    answer = call.lock(queue)
    bus.advance(61)
    for method in ("POST", "PUT", "DELETE"):
        assert call(method, answer.lock).status == 404
    assert call.lock(queue).broker["DeliveryCount"] == 2


def test_lock_is_the_same_over_amqp(call: Caller, sdk: Sdk, queue: str) -> None:
    call.send(queue, b"one")
    receiver = sdk.receiver(queue)
    [message] = receive(receiver, 1)
    token = message.lock_token
    path = f"/{queue}/messages/{message.sequence_number}/{token}"
    assert call("PUT", path).status == 200
    [message] = receive(receiver, 1)
    assert message.delivery_count == 1
    path = f"/{queue}/messages/{message.sequence_number}/{message.lock_token}"
    assert call("DELETE", path).status == 200
    assert sdk.peek(queue) == []


def test_what_is_no_token_locks_nothing(call: Caller, queue: str) -> None:
    for token in ("x", "0" * 32, "{" + "0" * 34 + "}", "%00" * 36):
        for method in ("POST", "PUT", "DELETE"):
            assert call(method, f"/{queue}/messages/1/{token}").status == 404


def test_message_of_one_entity_is_not_settled_at_another(
    bus: Bus, call: Caller, queue: str
) -> None:
    bus.create_queue("other")
    call.send(queue, b"one")
    locked = call.lock(queue).lock
    assert call("DELETE", locked.replace("orders", "other")).status == 404
    assert call("DELETE", locked).status == 200
