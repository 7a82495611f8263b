"""What is read from a message of a backlog queue, and the text of its dead letter."""

import pytest

from twinbus.pairing.detour import Detour
from twinbus.pairing.syphon.reading import read


def test_a_diverted_message_is_read() -> None:
    found = read({"x-ms-path": "/orders/", "x-ms-timetolive": "PT30S"})
    assert found == (Detour(path="orders", time_to_live_ms=30_000), None)


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, "MissingPath"),
        ({"x-ms-path": 1}, "InvalidPath"),
        ({"x-ms-path": "/"}, "InvalidPath"),
        ({"x-ms-path": "orders/$DeadLetterQueue"}, "InvalidPath"),
        ({"x-ms-path": "$cbs"}, "InvalidPath"),
        ({"x-ms-path": "o" * 261}, "InvalidPath"),
        ({"x-ms-path": "orders\nall is well"}, "InvalidPath"),
        ({"x-ms-path": "orders", "x-ms-sessionid": 1}, "InvalidProperty"),
        ({"x-ms-path": "orders", "x-ms-timetolive": "soon"}, "InvalidProperty"),
        ({"x-ms-path": "orders", "x-ms-scheduledenqueuetimeutc": "x"}, None),
        ({"x-ms-path": "orders", "x-ms-scheduledenqueuetimeutc": 2**64 - 1}, None),
        ({"x-ms-path": "orders", "x-ms-timetolive": "x" * 60_000}, None),
    ],
)
def test_what_cannot_be_read_says_why(
    properties: dict[str, object], reason: str | None
) -> None:
    detour, fault = read(properties)
    assert detour is None
    assert fault is not None
    assert fault.reason == (reason or "InvalidProperty")
    assert 0 < len(fault.description) < 500
    assert fault.description.isprintable()
