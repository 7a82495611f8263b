"""Receives that wait: what ends them, and what a client that goes leaves behind."""

import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest
from bulk.sdk import Sdk

from twinbus.auth import sas
from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.limits import HTTP_HEADER_BYTES
from twinbus.testing import Bus

from .caller import Caller


def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.01)


def waiting_count(bus: Bus) -> int:
    """Requests that wait for a message."""
    messaging = bus.server.http.default.messaging
    assert messaging is not None
    return len(messaging._waiting)


def waits(bus: Bus, call: Caller, queue: str, method: str = "POST") -> None:
    """Begin a receive, and return when it waits."""
    call.begin(method, f"/{queue}/messages/head?timeout=200")
    until(lambda: waiting_count(bus) == 1)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_message_ends_the_wait(bus: Bus, call: Caller, queue: str, method: str) -> None:
    waits(bus, call, queue, method)
    other = Caller.of(bus)
    other.send(queue, b"came later")
    answer = call.answer()
    assert answer.body == b"came later"
    assert answer.status == (201 if method == "POST" else 200)
    other.close()


def test_time_ends_the_wait(call: Caller, queue: str) -> None:
    start = time.monotonic()
    assert call.lock(queue, 0.3).status == 204
    assert time.monotonic() - start >= 0.3


@pytest.mark.parametrize("timeout", ["-1", "x", "nan", "", "1e"])
def test_time_that_is_none_is_refused(call: Caller, queue: str, timeout: str) -> None:
    answer = call("POST", f"/{queue}/messages/head?timeout={timeout}")
    assert answer.status == 400
    assert "'timeout'" in answer.detail


def test_endless_time_has_an_end(bus: Bus, call: Caller, queue: str) -> None:
    call.begin("POST", f"/{queue}/messages/head?timeout=1e300")
    until(lambda: waiting_count(bus) == 1)
    other = Caller.of(bus)
    other.send(queue)
    assert call.answer().status == 201
    other.close()


def test_deleted_entity_ends_the_wait(bus: Bus, call: Caller, queue: str) -> None:
    waits(bus, call, queue)
    bus.delete_queue(queue)
    assert call.answer().status == 410
    bus.create_queue(queue)
    call.send(queue, b"in the new one")
    assert call.take(queue).body == b"in the new one"


def test_expiry_of_the_token_ends_the_wait(bus: Bus, queue: str) -> None:
    call = Caller.of(bus, seconds=1.2)
    start = time.monotonic()
    assert call.lock(queue, 60).status == 204
    assert time.monotonic() - start < 30
    call.close()


def test_regenerated_key_ends_the_wait(bus: Bus, queue: str) -> None:
    """Within about a second; what comes then is for others."""
    keys = bus.server.namespace.keys
    rule = bus._run(keys.create("", "passing", ["Listen"]))
    call = Caller(bus.port, _token(bus, rule))
    waits(bus, call, queue)
    bus._run(keys.regenerate("", "passing", "secondary"))
    bus._run(keys.regenerate("", "passing", "primary"))
    start = time.monotonic()
    assert call.answer().status == 204
    assert time.monotonic() - start < 30
    assert call.lock(queue, 0).status == 401
    call.close()


def _token(bus: Bus, rule: AccessRule) -> str:
    return sas.make(
        resource=f"http://localhost:{bus.port}/",
        key_name=rule.key_name,
        key=rule.primary_key,
        expires_at=bus.clock.now() + 3_600_000,
    )


def test_server_that_stops_ends_the_wait(bus: Bus, call: Caller, queue: str) -> None:
    waits(bus, call, queue)
    answers: list[int] = []
    reading = threading.Thread(target=lambda: answers.append(call.answer().status))
    reading.start()
    start = time.monotonic()
    bus.restart()
    reading.join()
    assert answers == [204]
    assert time.monotonic() - start < 30
    again = Caller.of(bus)
    again.send(queue, b"x")
    assert again.take(queue).body == b"x"
    again.close()


# --- clients that go --------------------------------------------------------------


def gone_by_end(call: Caller) -> None:
    call.socket.close()


def gone_by_reset(call: Caller) -> None:
    """As after a crash of its machine: the connection is reset."""
    linger = struct.pack("ii", 1, 0)
    call.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    call.socket.close()


def gone_by_half(call: Caller) -> None:
    """It has only closed its side; nobody can tell the difference."""
    call.socket.shutdown(socket.SHUT_WR)


GONE = [gone_by_end, gone_by_reset, gone_by_half]


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("go", GONE)
def test_client_that_has_gone_takes_no_message(
    bus: Bus, call: Caller, queue: str, method: str, go: Callable[[Caller], None]
) -> None:
    gone = Caller.of(bus)
    waits(bus, gone, queue, method)
    go(gone)
    until(lambda: waiting_count(bus) == 0)
    gone.close()
    call.send(queue, b"for somebody else")
    answer = call.lock(queue)
    assert answer.body == b"for somebody else"
    assert answer.broker["DeliveryCount"] == 1


def test_pipelined_request_does_not_hide_that_its_client_goes(
    bus: Bus, call: Caller, queue: str
) -> None:
    gone = Caller.of(bus)
    waits(bus, gone, queue)
    gone.socket.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    gone.socket.close()
    until(lambda: waiting_count(bus) == 0)
    call.send(queue, b"x")
    assert call.lock(queue).broker["DeliveryCount"] == 1


def test_little_is_read_behind_a_request_that_waits(
    bus: Bus, call: Caller, queue: str
) -> None:
    """The rest stays with the client, however long it waits."""
    flood = Caller.of(bus)
    waits(bus, flood, queue)
    flood.socket.settimeout(1)
    sent = 0
    with pytest.raises(TimeoutError):
        while True:
            sent += flood.socket.send(b"x" * 65_536)
    [held] = bus._call(
        lambda: [
            len(each._engine.trailing_data[0])
            for each in bus.server._connections
            if each.requests
        ]
    )
    assert HTTP_HEADER_BYTES <= held <= HTTP_HEADER_BYTES + 256 * 1024
    flood.close()


def test_receivers_of_a_connection_leave_with_it(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    for _ in range(3):
        assert call.lock(queue, 0).status == 204
    entity = bus.server.namespace.entity(queue)
    assert len(entity.receive_links()) == 1, "one for all requests"
    call.close()
    until(lambda: len(entity.receive_links()) == 0)


def test_connection_keeps_few_receivers(bus: Bus, call: Caller) -> None:
    for number in range(7):
        bus.create_queue(f"q{number}")
        assert call.lock(f"q{number}", 0).status == 204
    links = [
        len(bus.server.namespace.entity(f"q{number}").receive_links())
        for number in range(7)
    ]
    assert links == [0, 0, 0, 1, 1, 1, 1]
    call.send("q0", b"still works")
    assert call.take("q0").body == b"still works"
