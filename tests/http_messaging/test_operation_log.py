"""What happens over HTTP is in the operation log, refusals among it."""

import time

from twinbus.cli.operation_log.stored_rows import stored_rows
from twinbus.log_export.blob_source import SqliteBlobs
from twinbus.testing import Bus

from .caller import Caller

# A bound against waiting for ever.
PATIENCE_SECONDS = 30.0


def logged(bus: Bus, count: int) -> list[tuple[str, str | None, str | None]]:
    """So many last rows: operation, key and reason. They are written within a second
    of the bus."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        source = SqliteBlobs(bus.folder / "messages.sqlite3")
        rows = [row for row in stored_rows(source) if row["key_name"] is not None]
        if len(rows) >= count:
            break
        assert time.monotonic() < deadline, rows
        bus.advance(1)
        time.sleep(0.01)
    return [(row["operation"], row["key_name"], row["reason"]) for row in rows]


def test_operations_and_refusals_over_http_are_logged(
    bus: Bus, call: Caller, queue: str
) -> None:
    root = bus.key_name
    assert call("POST", f"/{queue}/messages", b"x").status == 201
    lock = call("POST", f"/{queue}/messages/head?timeout=0").lock
    assert call("DELETE", lock).status == 200
    assert call("DELETE", lock).status == 404
    assert call("POST", f"/{queue}/messages/head?timeout=0").status == 204
    assert logged(bus, 5) == [
        ("send", root, None),
        ("lock", root, None),
        ("complete", root, None),
        ("refuse", root, "com.microsoft:message-lock-lost"),
        ("receive_empty", root, None),
    ]


def test_a_claim_that_is_missing_is_logged_with_the_key(bus: Bus, queue: str) -> None:
    listener = Caller.of(bus, claims=("Listen",))
    assert listener("POST", f"/{queue}/messages", b"x").status == 401
    listener.close()
    assert logged(bus, 1) == [("refuse", "listen-rule", "amqp:unauthorized-access")]
