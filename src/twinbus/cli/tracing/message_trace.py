"""Finds all operations on a message in operation logs.

The rows that sent it have its message id; all its rows have its uid, which is the same
in dead letters, after forwarding, in other stores and at both sites of a pair. So logs
of several sites and of paired senders can be read together.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

Row = dict[str, Any]

COLUMNS: Final = (
    *("source", "batch", "position", "occurred_at", "operation", "result"),
    *("namespace", "entity", "subqueue", "fragment", "sequence_number"),
    *("message_uid", "message_id", "session_id", "size_bytes", "age_ms"),
    *("latency_ms", "delivery_count", "reason", "destination", "key_name"),
    *("client", "purpose"),
)
_ORDER: Final = ("source", "batch", "position")


class TracedLog(Protocol):
    """One of the logs that are read together."""

    def uids(self, message_id: str) -> set[str]:
        """Of messages with that id or uid."""
        ...

    def rows(self, message_id: str, uids: Collection[str]) -> list[Row]:
        """Of these messages, with COLUMNS; `occurred_at` is a time."""
        ...

    def gaps(self) -> list[Row]:
        """What the log does not have."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrace:
    """What the logs say of a message, in the order in which it happened."""

    message_id: str
    uids: list[str]
    # Without what is null; `occurred_at` is a time in ISO 8601.
    events: list[dict[str, Any]]
    # What the logs do not have: source and reason of each.
    gaps: list[dict[str, Any]]


def traced(message_id: str, logs: Sequence[TracedLog]) -> MessageTrace:
    """By message id or uid. Raises Failure."""
    uids = {uid for log in logs for uid in log.uids(message_id)}
    rows = [row for log in logs for row in log.rows(message_id, uids)]
    rows.sort(key=_order)
    return MessageTrace(
        message_id=message_id,
        uids=sorted(uids),
        events=[_event(row) for row in rows],
        gaps=[gap for log in logs for gap in log.gaps()],
    )


def _order(row: Row) -> tuple[Any, ...]:
    """A topic notes its copies before what was sent; in one instant, sending is what
    happened first."""
    is_later = row["operation"] != "send"
    return (row["occurred_at"], is_later, *(row[name] for name in _ORDER))


def _event(row: dict[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if value is not None}
    shown["occurred_at"] = row["occurred_at"].isoformat(timespec="milliseconds")
    return shown
