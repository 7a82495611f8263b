"""Appending rows to entities: each is sent, known already, or refused with a reason."""

import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from wire.message import data_message, expiring_message, scheduled_message
from wire.own_annotations import identified, ping, restored

from conformance.test_quotas import limit_size
from twinbus import limits
from twinbus.errors import EntityDisabled
from twinbus.testing import Bus

from .caller import Caller, append_body, arrow, token_of
from .sdk import Sdk, receive, texts_of


def applied(count: int) -> dict[str, Any]:
    return {"applied": count, "known": [], "refused": []}


def refused_rows(answer: dict[str, Any]) -> list[tuple[int, str]]:
    return [
        (row["row"], row["condition"].removeprefix("com.microsoft:"))
        for row in answer["refused"]
    ]


# --- what is sent -------------------------------------------------------------


def test_rows_become_messages(call: Caller, sdk: Sdk, queue: str) -> None:
    properties = {"message_id": "id", "subject": "s"}
    encoded = data_message("a", properties=properties)
    assert call.append([(queue, encoded), (f"/{queue}/", data_message("b"))]) == (
        applied(2)
    )
    receiver = sdk.receiver(queue)
    first, second = receive(receiver, 2)
    assert (str(first), first.message_id, first.subject) == ("a", "id", "s")
    assert str(second) == "b"
    assert len(second.message_id) == 32


def test_nothing_is_appended_by_no_rows(call: Caller) -> None:
    assert call.append([]) == applied(0)


def test_order_is_kept_for_each_entity(bus: Bus, call: Caller) -> None:
    """Over more rows than are sent at a time, however they are mixed and spelled."""
    names = ["a", "b", "c"]
    for name in names:
        bus.create_queue(name)
    rows, expected = [], {name: [] for name in names}
    for number in range(2_000):
        name = names[(number * number) % 3]
        rows.append((name.upper() if number % 5 else name, data_message(str(number))))
        expected[name].append(str(number))
    assert call.append(rows) == applied(2_000)
    for name in names:
        assert call.bodies(name, end=3_000) == expected[name]


def test_several_record_batches(call: Caller, queue: str) -> None:
    schema = pa.schema([("entity", pa.string()), ("message", pa.binary())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for text in "abc":
            writer.write_batch(
                pa.record_batch([[queue], [data_message(text)]], schema=schema)
            )
    answer = call.ask("append", sink.getvalue().to_pybytes())
    assert answer.json == applied(3)
    assert call.bodies(queue) == ["a", "b", "c"]


def test_other_columns_are_no_matter(call: Caller, queue: str) -> None:
    body = arrow(
        more=pa.array([1]),
        message=pa.array([data_message("a")], pa.binary()),
        entity=pa.array([queue]),
    )
    assert call.ask("append", body).json == applied(1)


def test_topics_and_their_rules(bus: Bus, call: Caller) -> None:
    bus.create_topic("news")
    bus.create_subscription("news", "all")
    bus.create_subscription("news", "none", rules=[])
    assert call.append([("news", data_message("a"))]) == applied(1)
    assert call.bodies("news/Subscriptions/all") == ["a"]
    assert call.bodies("news/Subscriptions/none") == []


def test_times_of_messages(bus: Bus, call: Caller, queue: str) -> None:
    due_at = bus.clock.now() + 60_000
    rows = [
        (queue, scheduled_message("later", due_at)),
        (queue, expiring_message("mortal", 30_000)),
    ]
    assert call.append(rows) == applied(2)
    found = call.fragment(queue)
    assert (found["active_count"], found["scheduled_count"]) == (1, 1)
    bus.advance(timedelta(seconds=200))
    assert call.bodies(queue) == ["later"]


def test_a_queue_with_sessions_refuses_rows_without_one(bus: Bus, call: Caller) -> None:
    bus.create_queue("sessions", requires_session=True)
    answer = call.append(
        [
            ("sessions", data_message("a", properties={"group_id": "s"})),
            ("sessions", data_message("b")),
        ]
    )
    assert answer["applied"] == 1
    assert refused_rows(answer) == [(1, "amqp:not-allowed")]
    assert "session" in answer["refused"][0]["message"]
    assert call.bodies("sessions") == ["a"]


def test_a_ping_is_no_message(call: Caller, queue: str) -> None:
    assert call.append([(queue, ping())]) == applied(1)
    assert call.bodies(queue) == []


def test_forwarding_goes_on(bus: Bus, call: Caller) -> None:
    bus.create_queue("target")
    bus.create_queue("source", forward_to="target")
    assert call.append([("source", data_message("a"))]) == applied(1)
    bus.advance(1)
    assert call.bodies("target") == ["a"]


def test_what_was_answered_is_durable(bus: Bus, call: Caller, queue: str) -> None:
    call.append((queue, data_message(str(number))) for number in range(1_000))
    bus.restart()
    call.close()
    assert call.fragment(queue)["active_count"] == 1_000


# --- what was there before ----------------------------------------------------


def test_send_ids_are_known(call: Caller, queue: str) -> None:
    rows = [(queue, identified(text, text.encode())) for text in "abc"]
    assert call.append(rows) == applied(3)
    again = [*rows[1:], (queue, identified("d", b"d")), rows[0]]
    answer = call.append(again)
    assert answer == {"applied": 1, "known": [0, 1, 3], "refused": []}
    assert call.bodies(queue) == ["a", "b", "c", "d"]


def test_a_send_id_twice_in_one_append(call: Caller, queue: str) -> None:
    rows = [(queue, identified("a", b"same"))] * 2
    assert call.append(rows) == {"applied": 1, "known": [1], "refused": []}


def test_restored_messages_are_known(bus: Bus, call: Caller, queue: str) -> None:
    """In whichever entity they are."""
    bus.create_queue("other")
    rows = [(queue, restored(str(n), f"{n}@life@source")) for n in (1, 2)]
    assert call.append(rows) == applied(2)
    again = [("other", restored(str(n), f"{n}@life@source")) for n in (1, 2, 3)]
    assert call.append(again) == {"applied": 1, "known": [0, 1], "refused": []}
    assert call.bodies("other") == ["3"]


def test_what_is_known_outlives_a_restart(bus: Bus, call: Caller, queue: str) -> None:
    row = (queue, restored("a", "1@life@source"))
    call.append([row])
    bus.restart()
    call.close()
    assert call.append([row])["known"] == [0]


def test_a_right_to_one_entity_restores_nothing(
    bus: Bus, call: Caller, queue: str
) -> None:
    """Its annotation is ignored: nobody else's restore may vanish because of it."""
    body = append_body([(queue, restored("theirs", "1@life@source"))] * 2)
    answer = call.ask("append", body, token_of(bus, resource=queue))
    assert answer.json == applied(2)
    assert call.append([(queue, restored("ours", "1@life@source"))]) == applied(1)


def test_detected_duplicates_are_known(bus: Bus, call: Caller) -> None:
    bus.create_queue("once", requires_duplicate_detection=True)
    row = ("once", data_message("a", properties={"message_id": "id"}))
    assert call.append([row, row]) == {"applied": 1, "known": [1], "refused": []}


# --- what is refused ----------------------------------------------------------


def test_rows_are_refused_one_by_one(bus: Bus, call: Caller, queue: str) -> None:
    bus.create_topic("news")
    bus.create_subscription("news", "all")
    bus.create_queue("closed", status="SendDisabled")
    good = data_message("good")
    answer = call.append(
        [
            (queue, good),
            ("gone", good),
            (queue, b"no message"),
            ("closed", good),
            ("news/Subscriptions/all", good),
            (f"{queue}/$DeadLetterQueue", good),
            (queue, data_message(b"x" * 300_000)),
            (queue, identified("x", b"y" * 65)),
            (queue, restored("x", "nonsense")),
            ("", good),
            (queue, good),
        ]
    )
    assert (answer["applied"], answer["known"]) == (2, [])
    assert refused_rows(answer) == [
        (1, "amqp:not-found"),
        (2, "argument-error"),
        (3, "entity-disabled"),
        (4, "amqp:not-allowed"),
        (5, "amqp:not-allowed"),
        (6, "amqp:link:message-size-exceeded"),
        (7, "argument-error"),
        (8, "argument-error"),
        (9, "amqp:not-found"),
    ]
    assert {row["retryable"] for row in answer["refused"]} == {False}
    assert call.bodies(queue) == ["good", "good"]


def test_a_full_queue_takes_nothing_more(bus: Bus, call: Caller) -> None:
    """Not even what would still fit: whoever sends it again finds the order kept."""
    bus.create_queue("full")
    bus.create_queue("free")
    limit_size(bus, "full", 1_000_000)
    rows = [("full", data_message(f"{n:04}" + "x" * 2_000)) for n in range(1_000)]
    small = [("full", data_message("small")), ("free", data_message("small"))]
    answer = call.append([*rows, *small])
    refused = refused_rows(answer)
    first = refused[0][0]
    assert refused == [
        (row, "amqp:resource-limit-exceeded") for row in range(first, 1_001)
    ]
    assert 0 < first < 1_000
    assert answer["applied"] == first + 1
    found = call.bodies("full", end=2_000)
    assert [text[:4] for text in found] == [f"{n:04}" for n in range(first)]
    assert call.bodies("free") == ["small"]


def test_an_entity_that_was_closed_for_a_moment_takes_nothing_more(
    call: Caller, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is disabled between two portions of a request, and enabled again."""
    states = iter(["Active", "SendDisabled", "Active"])

    def check_may_send(handle: object) -> None:
        if next(states) != "Active":
            raise EntityDisabled(entity_path=queue)

    monkeypatch.setattr("twinbus.operations.sending.check_may_send", check_may_send)
    answer = call.append([(queue, data_message(str(n))) for n in range(600)])
    assert refused_rows(answer) == [(row, "entity-disabled") for row in range(250, 600)]
    assert answer["applied"] == 250


@pytest.fixture
def full_store(bus: Bus, queue: str) -> Iterator[None]:
    """A store that has no room for a while."""
    owner = bus.owner
    owner.refuses_until = bus.clock.now() + 5_000
    yield
    owner.refuses_until = 0


def test_a_busy_server_says_try_again(
    bus: Bus, call: Caller, queue: str, full_store: None
) -> None:
    rows = [(queue, data_message(str(number))) for number in range(600)]
    answer = call.append(rows)
    assert answer["applied"] == 0
    assert refused_rows(answer) == [(row, "server-busy") for row in range(600)]
    assert {row["retryable"] for row in answer["refused"]} == {True}
    bus.advance(6)
    assert call.append(rows) == applied(600)


# --- what is no append --------------------------------------------------------

TEXTS = pa.array(["orders"])
BINARIES = pa.array([b"x"], pa.binary())


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "Arrow IPC stream"),
        (b"{}", "Arrow IPC stream"),
        (b"\xff" * 1_000, "Arrow IPC stream"),
        (append_body([("orders", b"x")])[:-20], "Arrow IPC stream"),
        (append_body([("orders", b"x")])[8:], "Arrow IPC stream"),
        (arrow(entity=TEXTS), "'message' (binary)"),
        (arrow(message=BINARIES), "'entity' (string)"),
        (arrow(Entity=TEXTS, message=BINARIES), "'entity' (string)"),
        (arrow(entity=TEXTS, message=TEXTS), "'message' must be of type binary"),
        (arrow(entity=BINARIES, message=BINARIES), "'entity' must be of type string"),
        (arrow(entity=pa.array([1]), message=BINARIES), "it is int64"),
        (
            arrow(entity=TEXTS, message=BINARIES.cast(pa.large_binary())),
            "large_binary",
        ),
        (append_body([(None, b"x")]), "null"),
        (append_body([("orders", None)]), "null"),
        (append_body([("orders", b"x"), ("orders", None)]), "null"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_append_is_refused_whole(
    call: Caller, queue: str, body: bytes, word: str
) -> None:
    answer = call.ask("append", body)
    assert answer.refusal == (400, "argument-error")
    assert word in answer.error["message"]
    assert call.fragment(queue)["active_count"] == 0


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_body_is_refused_unread(
    call: Caller, queue: str, compression: str
) -> None:
    table = pa.table({"entity": [queue], "message": [data_message("x" * 9_000)]})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    answer = call.ask("append", sink.getvalue().to_pybytes())
    assert answer.refusal == (400, "argument-error")
    assert "Send it uncompressed" in answer.error["message"]


def test_a_column_twice_is_refused(call: Caller, queue: str) -> None:
    schema = pa.schema(
        [("entity", pa.string()), ("message", pa.binary()), ("entity", pa.string())]
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        columns = [[queue], [data_message("x")], ["other"]]
        writer.write_batch(pa.record_batch(columns, schema=schema))
    answer = call.ask("append", sink.getvalue().to_pybytes())
    assert answer.refusal == (400, "argument-error")


def test_offsets_that_lie_are_refused(call: Caller, queue: str) -> None:
    """A body whose texts are said to end beyond its bytes, or before they begin."""
    paths = (queue, f"/{queue}/", f"{queue}/")
    honest = append_body((path, data_message("x")) for path in paths)
    offsets = struct.pack("<4i", 0, 6, 14, 21)
    assert honest.count(offsets) == 1
    for lie in (
        (0, 6, 14, 2**31 - 1),
        (0, 2**20, 14, 21),
        (0, 14, 6, 21),
        (-5, 6, 14, 21),
    ):
        body = honest.replace(offsets, struct.pack("<4i", *lie))
        assert call.ask("append", body).refusal == (400, "argument-error")
    assert call.ask("append", honest).json == applied(3)


def test_too_many_rows(call: Caller, queue: str) -> None:
    most = limits.BULK_APPEND_ROWS
    answer = call.ask("append", append_body([(queue, b"")] * (most + 1)))
    assert answer.refusal == (400, "argument-error")
    assert f"{most + 1} rows or more; at most {most}" in answer.error["message"]


def test_too_many_entities(call: Caller) -> None:
    rows = [(f"q-{number}", b"") for number in range(limits.BULK_ENTITIES + 1)]
    answer = call.ask("append", append_body(rows))
    assert answer.refusal == (400, "argument-error")
    assert "entities" in answer.error["message"]


def test_appending_under_a_lease(call: Caller, sdk: Sdk, queue: str) -> None:
    """Senders go on, whoever reads."""
    [epoch] = call.lease(queue)
    call.append([(queue, data_message("a"))])
    planned = call.plan(queue, epoch=epoch)
    assert call.settle(queue, epoch, to=planned["to"])["completed"] == 1
    call.append([(queue, data_message("b"))])
    released = [{"path": queue, "epoch": epoch}]
    call.post("lease", reader="reader-1", release=True, entities=released)
    assert texts_of(receive(sdk.receiver(queue), 1)) == ["b"]
