"""The memory that all slow clients together can use is limited."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from wire.message import data_message

from twinbus.testing import Bus

from .caller import PATIENCE_SECONDS, Caller, append_body

LIMIT = 500_000
# More than the system takes off the bus's hands.
MESSAGES, MESSAGE_CHARACTERS = 36, 220_000


@pytest.fixture
def filled(bus: Bus, call: Caller, queue: str) -> str:
    message = data_message("x" * MESSAGE_CHARACTERS)
    for _ in range(MESSAGES // 12):
        assert call.ask("append", append_body([(queue, message)] * 12)).status == 200
    bus.server.held.limit = LIMIT
    return queue


def browse_all(call: Caller, path: str) -> dict[str, object]:
    found = call.runtime(path)
    [part] = found["fragments"]
    bounds = {"from": part["first"], "to": part["next"]}
    return {"path": path, "generation": found["generation"], **bounds}


def until_held(bus: Bus, least: int, most: int | None = None) -> None:
    ends_at, pause = time.monotonic() + PATIENCE_SECONDS, threading.Event()
    while not least <= bus.server.held.held <= (least if most is None else most):
        assert time.monotonic() < ends_at, f"{bus.server.held.held} bytes are held"
        pause.wait(0.01)


@contextmanager
def sent(bus: Bus, call: Caller, name: str, body: bytes, size: int) -> Iterator[None]:
    """A request of that size, of which this is what was sent so far. Nothing of an
    answer is read."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", bus.port))
        head = (
            f"POST /$bulk/{name} HTTP/1.1\r\nhost: bus\r\ncontent-length: {size}\r\n"
            f"authorization: {call.token}\r\n\r\n"
        )
        client.sendall(head.encode() + body)
        yield


def test_answers_that_nobody_reads(bus: Bus, call: Caller, filled: str) -> None:
    wanted = browse_all(call, filled)
    body = json.dumps(wanted).encode()
    with sent(bus, call, "browse", body, len(body)):
        until_held(bus, LIMIT, MESSAGES * MESSAGE_CHARACTERS * 2)
        refused = call.ask("browse", wanted)
        assert refused.refusal == (503, "server-busy")
        assert f"{LIMIT} bytes" in refused.error["message"]
        # What is small goes on.
        assert call.runtime(filled)["path"] == filled
        small = append_body([(filled, data_message("x"))])
        assert call.ask("append", small).status == 200
    until_held(bus, 0)
    assert call.ask("browse", wanted).table.num_rows == MESSAGES


def test_bodies_that_come_slowly(bus: Bus, call: Caller, filled: str) -> None:
    large = append_body([(filled, data_message("x" * 100_000))] * 4)
    with sent(bus, call, "append", large[:-1], len(large)):
        until_held(bus, len(large) - 1)
        refused = call.ask("append", large)
        assert refused.status == 503
        assert b"Wait a moment and try again" in refused.body
        until_held(bus, len(large) - 1)
    until_held(bus, 0)
    assert call.ask("append", large).status == 200
