"""S1: rows that a twinbus refuses, for ever or for now; how many are sent at a time.

Without Spark: what a task does with its rows, against a real bus behind a proxy.
"""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from twinbus.spark.bulk import bulk_sender
from twinbus.spark.bulk.bulk_sender import BulkSender
from twinbus.spark.patience import RetryPatience
from twinbus.spark.row_messages import EncodedRows, encode_rows
from twinbus.spark.row_sender import RowsRefused, SentRows
from twinbus.spark.write_options import WriteOptions, write_options
from twinbus.testing.clock import ManualClock

from .busy_front import BusyFront
from .harness import Namespace, numbered

TIMEOUT = "com.microsoft:timeout"
BUSY = "com.microsoft:server-busy"

TEXT = StringType()
SCHEMA = StructType([StructField("entity", TEXT), StructField("body", TEXT)])


class RefusingFront(BusyFront):
    """Refuses the rows of an entity in the next appends, with these conditions."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.conditions: dict[str, list[str]] = {}

    def _ask(
        self, request: BaseHTTPRequestHandler, port: int, body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        if not request.path.endswith("/append"):
            return super()._ask(request, port, body)
        rows = pa.ipc.open_stream(body).read_all()
        entities = rows.column("entity").to_pylist()
        said = {
            entity: self.conditions[entity].pop(0)
            for entity in set(entities)
            if self.conditions.get(entity)
        }
        taken = [row for row, entity in enumerate(entities) if entity not in said]
        status, content, headers = super()._ask(
            request, port, _ipc(rows.take(pa.array(taken, pa.int64())))
        )
        answer = json.loads(content)
        answer["known"] = [taken[row] for row in answer["known"]]
        for refused in answer["refused"]:
            refused["row"] = taken[refused["row"]]
        answer["refused"] += [
            {
                "row": row,
                "condition": said[entity],
                "message": f"'{entity}' takes nothing now.",
                "retryable": True,
            }
            for row, entity in enumerate(entities)
            if entity in said
        ]
        return status, json.dumps(answer).encode(), headers


def _ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


class Waits:
    """Time that passes when somebody waits."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.seconds: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.clock.advance(round(seconds * 1000))

    def patience(self, seconds: float) -> RetryPatience:
        return RetryPatience(seconds, clock=self.clock, sleep=self.sleep)


@pytest.fixture
def front(namespace: Namespace) -> Iterator[RefusingFront]:
    for queue in ("orders", "billing"):
        namespace.bus.create_queue(queue)
    with RefusingFront(namespace.bus.port) as made:
        yield made


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    made = Waits()
    monkeypatch.setattr(bulk_sender, "RetryPatience", made.patience)
    return made


def planned(namespace: Namespace, front: BusyFront, **options: str) -> WriteOptions:
    given = {"credential": namespace.credential, "namespace": front.address, **options}
    return write_options(given, SCHEMA, overwrite=False)


def encoded(options: WriteOptions, rows: list[tuple[str, str]]) -> EncodedRows:
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return encode_rows(pa.record_batch(columns, names=["entity", "body"]), options)


def send(options: WriteOptions, rows: list[tuple[str, str]]) -> SentRows:
    sender = BulkSender(options)
    try:
        sender.send(encoded(options, rows))
        return sender.finish()
    finally:
        sender.close()


def appends(front: BusyFront) -> int:
    return [name for name, _ in front.requests].count("append")


def test_rows_that_may_be_taken_later_keep_their_order(
    namespace: Namespace, front: RefusingFront, waits: Waits
) -> None:
    front.conditions["orders"] = [TIMEOUT, TIMEOUT]
    bodies = numbered("", range(200))
    rows = [(("orders", "billing")[int(body) % 2], body) for body in bodies]
    sent = send(planned(namespace, front, maxBytesPerRequest="1k"), rows)
    assert sent == SentRows(sent_count=200)
    assert namespace.bodies("orders") == bodies[::2]
    assert namespace.bodies("billing") == bodies[1::2]
    assert len(waits.seconds) == 2 and all(wait < 1 for wait in waits.seconds)


def test_a_busy_bus_is_given_ten_seconds(
    namespace: Namespace, front: RefusingFront, waits: Waits
) -> None:
    front.conditions["orders"] = [BUSY, BUSY]
    send(planned(namespace, front), [("orders", "a")])
    assert waits.seconds == [10.0, 10.0]
    assert namespace.bodies("orders") == ["a"]


def test_patience_has_an_end(
    namespace: Namespace, front: RefusingFront, waits: Waits
) -> None:
    front.conditions["orders"] = [BUSY] * 100
    options = planned(namespace, front, timeout="25s")
    with pytest.raises(RowsRefused) as caught:
        send(options, [("orders", "a"), ("billing", "b")])
    assert sum(waits.seconds) == pytest.approx(25)
    assert "A row for 'orders' was not sent: 'orders' takes nothing" in str(
        caught.value
    )
    assert namespace.bodies("billing") == ["b"]


def test_what_no_waiting_helps_is_told_at_once(
    namespace: Namespace, front: RefusingFront, waits: Waits
) -> None:
    front.conditions["orders"] = [BUSY]
    with pytest.raises(RowsRefused, match="A row for 'nowhere' was not sent"):
        send(planned(namespace, front), [("orders", "a"), ("nowhere", "b")])
    assert waits.seconds == []


def test_requests_are_within_the_limit_of_bytes(
    namespace: Namespace, front: RefusingFront
) -> None:
    rows = [("orders", "x" * 1000)] * 100
    send(planned(namespace, front, maxBytesPerRequest="10k"), rows)
    assert appends(front) == 12
    assert len(namespace.peek("orders")) == 100


def test_requests_are_within_the_limits_of_rows_and_entities(
    namespace: Namespace, front: RefusingFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_sender, "BULK_APPEND_ROWS", 40)
    send(planned(namespace, front), [("orders", "x")] * 100)
    assert appends(front) == 3
    monkeypatch.setattr(bulk_sender, "BULK_ENTITIES", 1)
    rows = [("orders", "x"), ("orders", "y"), ("billing", "z"), ("orders", "end")]
    send(planned(namespace, front), rows)
    assert appends(front) == 6
    assert namespace.bodies("orders")[-3:] == ["x", "y", "end"]


def test_the_largest_request_is_taken(
    namespace: Namespace, front: RefusingFront
) -> None:
    size = bulk_sender.MAX_REQUEST_BYTES
    rows = [("orders", "x" * 200_000)] * 41
    send(planned(namespace, front, maxBytesPerRequest=str(size)), rows)
    assert appends(front) == 1
    assert {status for _, status in front.requests} == {200}
