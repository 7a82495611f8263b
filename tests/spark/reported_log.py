"""A log with a small story, whose figures can be counted by hand.

`orders` has four fragments and two sessions. Sends to it fail from 10:20:00 on, ten
messages are diverted, and an answer comes again at 10:24:30. Dead letters have three
reasons. In the second hour little happens.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.operation_log_writer import LogWriter

AT = datetime(2026, 11, 1, 10, tzinfo=UTC)
BACKLOG = "site-a/x-servicebus-transfer/0"

ORDERS = 40
DIVERTED = 10

Row = dict[str, Any]


def at(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def uid(number: int) -> str:
    return f"{number:032x}"


def write_story(folder: Path) -> tuple[Path, ...]:
    """The logs of both sites and of a sender; their folders."""
    primary = LogWriter(folder / "site-a", "site-a", name="a")
    primary.write_rows(_sorted(_messages(), _dead_letters(), _returns()), at(1_700))
    primary.write_rows(list(second_hour(5)), at(5_400))
    secondary = LogWriter(folder / "site-b", "site-b", name="b")
    secondary.write_rows(_sorted(_backlog()), at(5_400))
    sender = LogWriter(folder / "senders", "site-a", kind="sender", name="s")
    sender.write_rows(_sorted(_failures()), at(5_400))
    return tuple(folder / name for name in ("site-a", "site-b", "senders"))


def _sorted(*parts: Iterator[Row]) -> list[Row]:
    rows = [row for part in parts for row in part]
    return sorted(rows, key=lambda row: row["occurred_at"])


def _row(operation: str, seconds: float, **columns: Any) -> Row:
    place = {"entity": "orders", "entity_kind": "queue", "fragment": 0}
    return {"operation": operation, "occurred_at": at(seconds), **place, **columns}


def _messages() -> Iterator[Row]:
    """Message n is delivered after n + 1 tenths of a second, and completed 50 ms after
    its last delivery. Every tenth is delivered twice. Half are in fragment 1."""
    for number in range(ORDERS):
        fragment = 1 if number % 2 else number % 4
        columns: Row = {
            "fragment": fragment,
            "sequence_number": number,
            "message_uid": uid(number),
            "session_id": "red" if number < 30 else "blue",
            "size_bytes": 100,
        }
        age = 100 * (number + 1)
        sent = 10 * number
        yield _row("send", sent, **columns, message_id=f"m-{number}", latency_ms=2.0)
        if number % 10 == 0:
            yield _row("lock", sent + 5, **columns, age_ms=age, delivery_count=1)
            yield _row("abandon", sent + 6, **columns, age_ms=age + 10)
            again = age + 1_000
        else:
            again = age
        yield _row("lock", sent + 7, **columns, age_ms=again, delivery_count=2)
        yield _row("complete", sent + 8, **columns, age_ms=again + 50)


def _dead_letters() -> Iterator[Row]:
    """Three by a receiver, two by the bus, one of a subscription."""
    for number in range(100, 105):
        by_receiver = number < 103
        reason = "Out of $tock" if by_receiver else "MaxDeliveryCountExceeded"
        message: Row = {"message_uid": uid(number), "size_bytes": 50}
        seconds = 600 + number
        yield _row("send", seconds, **message, message_id=f"m-{number}")
        yield _row(
            "dead_letter" if by_receiver else "abandon",
            seconds + 1,
            **message,
            reason=reason if by_receiver else None,
            delivery_count=1 if by_receiver else 10,
            client="host-2" if by_receiver else "host-3",
        )
        yield _row(
            "arrive",
            seconds + 1,
            **message,
            subqueue="$deadletterqueue",
            sequence_number=number,
            reason=reason,
        )
    yield _row(
        "arrive",
        900,
        entity="billing/subscriptions/audit",
        entity_kind="subscription",
        subqueue="$deadletterqueue",
        message_uid=uid(105),
        reason="TTLExpiredException",
        sequence_number=7,
    )


def _failures() -> Iterator[Row]:
    """What the sender saw: two failures, ten detours, pings."""
    yield _row("send", 1_200, result="failed", reason="amqp:connection:forced")
    yield _row("send", 1_201, result="unknown", message_uid=uid(200))
    for number in range(DIVERTED):
        uid_of = uid(200 + number)
        yield _row("divert", 1_202 + number, message_uid=uid_of, destination=BACKLOG)
    for minute in range(3):
        yield _row("ping", 1_230 + 60 * minute, result="failed")
    # The store has this one, too.
    yield _row("ping", 1_440)


def _backlog() -> Iterator[Row]:
    """Message n is in the backlog queue for 300 - n seconds."""
    for number in range(DIVERTED):
        columns: Row = {
            "entity": BACKLOG,
            "message_uid": uid(200 + number),
            "sequence_number": number,
            "size_bytes": 100,
        }
        waited = 300 - number
        yield _row("send", 1_202 + number, **columns)
        yield _row("lock", 1_501, **columns, age_ms=1_000 * waited - 100)
        yield _row("complete", 1_502, **columns, age_ms=1_000 * waited)


def _returns() -> Iterator[Row]:
    """The primary answers a ping and a send, and gets what was diverted."""
    yield _row("ping", 1_440)
    yield _row("send", 1_470, message_uid=uid(300), message_id="direct")
    for number in range(DIVERTED):
        yield _row("send", 1_501, message_uid=uid(200 + number), purpose="syphon")


def second_hour(count: int) -> Iterator[Row]:
    for number in range(count):
        yield _row("send", 3_600 + number, message_uid=uid(400 + number), size_bytes=10)
