"""Browsing: ranges of messages as Arrow; they can be read several times."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from wire.codec import Long, Symbol, Timestamp
from wire.message import (
    DATA,
    Received,
    data_message,
    message,
    scheduled_message,
    section,
    value_message,
)
from wire.peer import Peer
from wire.test_send_via import sender_via

from twinbus.operations.bulk import ranges
from twinbus.testing import Bus

from .caller import Caller
from .sdk import Sdk, receive

INSTANT = pa.timestamp("us", tz="UTC")
SCHEMA = {
    **{"entity": pa.string(), "subqueue": pa.string(), "partition": pa.int32()},
    **{"sequence_number": pa.int64(), "enqueued_time": INSTANT},
    **{"message_id": pa.string(), "session_id": pa.string()},
    **{"partition_key": pa.string(), "correlation_id": pa.string()},
    **{"subject": pa.string(), "to": pa.string(), "reply_to": pa.string()},
    **{"reply_to_session_id": pa.string(), "content_type": pa.string()},
    **{"time_to_live_ms": pa.int64(), "scheduled_time": INSTANT},
    **{"expires_at": INSTANT, "delivery_count": pa.int32(), "state": pa.string()},
    **{"dead_letter_source": pa.string(), "dead_letter_reason": pa.string()},
    "dead_letter_description": pa.string(),
    "application_properties": pa.map_(pa.string(), pa.string()),
    "application_property_types": pa.map_(pa.string(), pa.string()),
    **{"body": pa.binary(), "amqp_types": pa.map_(pa.string(), pa.string())},
    **{"size_bytes": pa.int32(), "raw": pa.binary()},
}


def one_row(call: Caller, path: str, **more: Any) -> dict[str, Any]:
    [row] = call.rows(path, columns=list(SCHEMA), **more)
    return row


# --- columns ------------------------------------------------------------------


def test_the_schema_is_always_the_same(call: Caller, sdk: Sdk, queue: str) -> None:
    """Whatever is in the range, in this order, every field nullable."""
    expected = pa.schema(list(SCHEMA.items()))
    empty = call.browse(queue, columns=list(SCHEMA)).table
    sdk.send(queue, "a")
    filled = call.browse(queue, columns=list(reversed(SCHEMA))).table
    assert empty.schema.equals(expected) and filled.schema.equals(expected)
    assert (empty.num_rows, filled.num_rows) == (0, 1)
    usual = call.browse(queue).table.schema.names
    assert usual == [name for name in SCHEMA if name != "raw"]


def test_a_column_may_be_named_twice(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, "a", "b")
    for names in (["sequence_number"], ["body", "message_id"], ["entity"]):
        twice = call.browse(queue, columns=[*names, *names]).table
        assert twice == call.browse(queue, columns=names).table
        assert twice.num_rows == 2


def test_every_column(bus: Bus, call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(
        queue,
        ServiceBusMessage(
            b"\x00body",
            message_id="id",
            session_id="session",
            partition_key="session",
            correlation_id="correlation",
            subject="subject",
            to="to",
            reply_to="reply",
            reply_to_session_id="reply-session",
            content_type="text/plain",
            time_to_live=timedelta(hours=1),
            application_properties={"text": "ü", "number": 5, "flag": True},
        ),
    )
    row = one_row(call, queue)
    now = datetime.fromtimestamp(bus.clock.now() / 1000, UTC)
    raw = row.pop("raw")
    assert row.pop("size_bytes") > 100
    assert dict(row.pop("application_properties")) == {
        **{"text": "ü", "number": "5", "flag": "true"},
    }
    types = dict(row.pop("application_property_types"))
    assert types == {"number": "int", "flag": "boolean"}
    assert row == {
        **{"entity": queue, "subqueue": None, "partition": 0, "sequence_number": 1},
        **{"enqueued_time": now, "message_id": "id", "session_id": "session"},
        **{"partition_key": "session", "correlation_id": "correlation"},
        **{"subject": "subject", "to": "to", "reply_to": "reply"},
        **{"reply_to_session_id": "reply-session", "content_type": "text/plain"},
        **{"time_to_live_ms": 3_600_000, "scheduled_time": None},
        **{"expires_at": now + timedelta(hours=1), "delivery_count": 0},
        **{"state": "active", "dead_letter_source": None},
        **{"dead_letter_reason": None, "dead_letter_description": None},
        **{"body": b"\x00body", "amqp_types": None},
    }
    received = Received(raw)
    assert received.properties["message_id"] == "id"
    assert received.annotations["x-opt-sequence-number"] == 1


def test_a_message_with_nothing_in_it(call: Caller, queue: str) -> None:
    call.append([(queue, data_message(b""))])
    row = one_row(call, queue)
    kept = {name for name, value in row.items() if value is not None}
    assert kept == {
        *("entity", "partition", "sequence_number", "enqueued_time", "state"),
        *("delivery_count", "application_properties", "body", "size_bytes", "raw"),
        # The bus gives it one.
        "message_id",
    }
    assert (row["body"], row["application_properties"]) == (b"", [])


@pytest.mark.parametrize(
    ("encoded", "body"),
    [
        (value_message("text"), b"text"),
        (value_message(b"bytes"), b"bytes"),
        (value_message(None), None),
        (value_message({"a": [Long(1), None]}), b'{"a": [1, null]}'),
        (b"", None),
        (message(section(DATA, b"a") + section(DATA, b"b" * 300)), b"a" + b"b" * 300),
    ],
    ids=["text", "binary", "null", "map", "none", "two"],
)
def test_bodies_of_other_kinds(
    call: Caller, queue: str, encoded: bytes, body: bytes | None
) -> None:
    call.append([(queue, encoded)])
    assert one_row(call, queue)["body"] == body


def test_identifiers_and_properties_of_other_types(call: Caller, queue: str) -> None:
    properties = {"message_id": Long(7), "correlation_id": b"\x01", "subject": "s"}
    values = {
        **{"long": Long(-5), "time": Timestamp(1_000), "nothing": None},
        **{"symbol": Symbol("sym"), "binary": b"\x00", "x" * 300: "y" * 300},
    }
    call.append(
        [
            (
                queue,
                data_message("x", properties=properties, application_properties=values),
            )
        ]
    )
    row = one_row(call, queue)
    assert (row["message_id"], row["correlation_id"]) == ("7", "AQ==")
    assert dict(row["application_properties"]) == {
        **{"long": "-5", "time": "1000", "nothing": None, "symbol": "sym"},
        **{"binary": "AA==", "x" * 300: "y" * 300},
    }


# --- places -------------------------------------------------------------------


def test_dead_letters(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, "a")
    receiver = sdk.receiver(queue)
    [message] = receive(receiver, 1)
    receiver.dead_letter_message(message, reason="why", error_description="how")
    row = one_row(call, f"{queue}/$deadletterqueue")
    assert (row["entity"], row["subqueue"]) == (queue, "deadletter")
    assert (row["dead_letter_reason"], row["dead_letter_description"]) == ("why", "how")
    assert row["dead_letter_source"] == queue
    assert call.rows(queue) == []


def test_a_transfer_dead_letter_queue(bus: Bus, call: Caller, queue: str) -> None:
    """Where a message stays that was sent by way of the queue to nowhere."""
    with Peer(bus.port) as peer:
        assert peer.sasl_plain(bus.key_name, bus.key) == 0
        peer.start()
        sender_via(peer, queue, "nowhere").send(data_message("a"))
    row = one_row(call, f"{queue}/$Transfer/$DeadLetterQueue")
    assert (row["subqueue"], row["body"]) == ("transferdeadletter", b"a")
    assert row["dead_letter_reason"] == "TransferFailed"


def test_a_queue_of_a_paired_namespace(bus: Bus, call: Caller, sdk: Sdk) -> None:
    path = "away/x-servicebus-transfer/0"
    bus.create_queue(path)
    sdk.send(path, "a")
    row = one_row(call, path)
    assert (row["entity"], row["body"]) == (path, b"a")


def test_subscriptions_share_bodies(bus: Bus, call: Caller, sdk: Sdk) -> None:
    bus.create_topic("news")
    for name in ("one", "two"):
        bus.create_subscription("news", name)
    sdk.send("news", "a" * 5_000, "b")
    for name in ("one", "two"):
        path = f"news/Subscriptions/{name}"
        assert call.bodies(path) == ["a" * 5_000, "b"]
        assert {row["entity"] for row in call.rows(path)} == {path}


def test_messages_are_browsed_by_state(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    sdk.send(queue, "deferred", "active")
    receiver = sdk.receiver(queue)
    receiver.defer_message(receive(receiver, 2)[0])
    at = bus.now().replace(microsecond=0) + timedelta(minutes=1)
    sdk.schedule(queue, "scheduled", at)

    def found(*states: str) -> list[str]:
        rows = call.rows(queue, states=list(states), columns=["body", "state"])
        for row in rows:
            assert row["state"] == row["body"].decode()
        return [row["state"] for row in rows]

    assert found() == found("active") == ["active"]
    assert found("deferred") == ["deferred"]
    assert found("scheduled") == ["scheduled"]
    assert found("active", "deferred", "scheduled") == [
        *("deferred", "active", "scheduled")
    ]
    [row] = call.rows(queue, states=["scheduled"])
    assert row["scheduled_time"] == at.replace(
        microsecond=at.microsecond // 1000 * 1000
    )


def test_a_message_that_is_scheduled_for_ever(call: Caller, queue: str) -> None:
    """Later than its column can tell: null, and no reader is stopped by it."""
    call.append([(queue, scheduled_message("x", 1 << 62))])
    [row] = call.rows(queue, states=["scheduled"])
    assert (row["body"], row["scheduled_time"]) == (b"x", None)


def test_locked_messages_are_seen(call: Caller, sdk: Sdk, queue: str) -> None:
    """Browsing asks for no lease and takes nothing from anybody."""
    sdk.send(queue, *"ab")
    receiver = sdk.receiver(queue)
    messages = receive(receiver, 2)
    assert call.bodies(queue) == ["a", "b"]
    for item in messages:
        receiver.complete_message(item)
    assert call.bodies(queue) == []


# --- ranges -------------------------------------------------------------------


def test_a_range_ends_before_its_end(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, *"abcde")
    assert call.bodies(queue, first=2, end=4) == ["b", "c"]
    answer = call.browse(queue, 2, 4)
    assert answer.headers["x-twinbus-next"] == "4"
    assert answer.headers["x-twinbus-messages"] == "2"
    for first, end in ((4, 4), (9, 4)):
        answer = call.browse(queue, first, end)
        assert answer.headers["x-twinbus-messages"] == "0"


def test_a_range_that_is_larger_than_an_answer(call: Caller, queue: str) -> None:
    """Every answer says where to go on; no message is left out or told twice."""
    sizes = [(number * 7_919) % 40_000 for number in range(200)]
    call.append((queue, data_message(b"x" * size)) for size in sizes)
    at, found, answers = 0, [], 0
    while at < 201:
        answer = call.browse(queue, at, 201, columns=["body"], max_bytes=100_000)
        lengths = [len(row["body"]) for row in answer.table.to_pylist()]
        # The last one may pass the limit.
        assert sum(lengths[:-1]) < 100_000
        assert len(lengths) == int(answer.headers["x-twinbus-messages"]) > 0
        found += lengths
        at = int(answer.headers["x-twinbus-next"])
        answers += 1
    assert found == sizes
    assert answers > 10


def test_a_message_larger_than_an_answer(call: Caller, queue: str) -> None:
    """It comes alone."""
    call.append((queue, data_message(b"x" * 200_000)) for _ in range(2))
    answer = call.browse(queue, max_bytes=1, columns=["body"])
    [row] = answer.table.to_pylist()
    assert len(row["body"]) == 200_000
    assert answer.headers["x-twinbus-next"] == "2"
    assert len(call.bodies(queue, max_bytes=1)) == 2


def test_thousands_in_one_answer(call: Caller, queue: str) -> None:
    call.append((queue, data_message(str(number))) for number in range(5_000))
    answer = call.browse(queue, 0, 10_000, columns=["sequence_number", "body"])
    table = answer.table
    assert table["sequence_number"].to_pylist() == list(range(1, 5_001))
    assert table["body"].to_pylist()[-1] == b"4999"
    assert answer.headers["x-twinbus-next"] == "10000"


def test_the_same_range_is_read_again(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, *"abc")
    first = call.browse(queue, 1, 4, columns=["sequence_number", "body"])
    sdk.send(queue, "d")
    assert call.browse(queue, 1, 4, columns=["sequence_number", "body"]) == first


def test_few_among_many(
    call: Caller, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer looks at so many messages, and then says where to go on. For deferred
    ones alone the others are not looked at."""
    monkeypatch.setattr(ranges, "_SLICES", 4)
    call.append((queue, data_message(b"")) for _ in range(2_500))
    [epoch] = call.lease(queue)
    call.settle(queue, epoch, defer=[2_400])
    states = ["deferred", "scheduled"]
    answer = call.browse(queue, 0, 5_000, states=states, columns=["body"])
    assert answer.headers["x-twinbus-messages"] == "0"
    assert answer.headers["x-twinbus-next"] == str(4 * ranges._SLICE + 1)
    rows = call.rows(queue, end=5_000, states=states)
    assert [row["sequence_number"] for row in rows] == [2_400]
    answer = call.browse(queue, 0, 5_000, states=["deferred"])
    assert answer.table["sequence_number"].to_pylist() == [2_400]
    assert answer.headers["x-twinbus-next"] == "5000"


# --- what is not there --------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["gone", "orders/x", "orders/$management", "$bulk", "orders/$x", "é"]
)
def test_an_entity_that_is_not_there(call: Caller, queue: str, path: str) -> None:
    content = {"path": path, "generation": "g", "from": 0, "to": 1}
    assert call.ask("browse", content).refusal == (404, "amqp:not-found")


def test_a_topic_is_not_browsed(bus: Bus, call: Caller) -> None:
    bus.create_topic("news")
    content = {"path": "news", "generation": "g", "from": 0, "to": 1}
    answer = call.ask("browse", content)
    assert answer.refusal == (400, "amqp:not-allowed")
    assert "subscriptions" in answer.error["message"]


def test_another_life_is_not_browsed(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    old = call.generation(queue)
    bus.delete_queue(queue)
    bus.create_queue(queue)
    sdk.send(queue, "new")
    content = {"path": queue, "generation": old, "from": 0, "to": 9}
    answer = call.ask("browse", content)
    assert answer.refusal == (404, "amqp:not-found")
    assert answer.error["entity"] == queue


def test_dead_letters_by_peek_are_the_same(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, "a")
    [epoch] = call.lease(queue)
    call.settle(queue, epoch, dead_letter=[{"sequence_number": 1, "reason": "r"}])
    [peeked] = sdk.peek(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    row = one_row(call, f"{queue}/$DeadLetterQueue")
    assert row["sequence_number"] == peeked.sequence_number
    assert row["message_id"] == peeked.message_id
    assert row["dead_letter_reason"] == peeked.dead_letter_reason == "r"


# --- sessions ---------------------------------------------------------------------


def test_only_messages_of_named_sessions(call: Caller, sdk: Sdk, queue: str) -> None:
    """In a queue without sessions, too: its messages may name one."""
    ids = ["a", "b", None, "c", "a"]
    for n, session_id in enumerate(ids):
        sdk.send(queue, ServiceBusMessage(f"{n}", session_id=session_id))
    assert call.bodies(queue, sessions=["a"]) == ["0", "4"]
    assert call.bodies(queue, sessions=["c", "b", "nobody"]) == ["1", "3"]
    assert call.bodies(queue, sessions=["nobody"]) == []
    assert call.bodies(queue, sessions=[]) == ["0", "1", "2", "3", "4"]
    answer = call.browse(queue, sessions=["b"])
    assert answer.headers["x-twinbus-messages"] == "1"


@pytest.mark.parametrize("sessions", [[""], ["s" * 129], ["s"] * 101, [5], "s"])
def test_sessions_that_cannot_be_are_refused(
    call: Caller, queue: str, sessions: Any
) -> None:
    generation = call.generation(queue)
    content = {"path": queue, "generation": generation, "from": 0, "to": 9}
    answer = call.ask("browse", {**content, "sessions": sessions})
    assert answer.status == 400
    assert "'sessions'" in answer.error["message"]
