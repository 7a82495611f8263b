"""Faults on purpose and throttling, over HTTP."""

import http.client
from collections.abc import Iterator

import pytest

from twinbus.testing import Bus

from .caller import Caller


@pytest.fixture
def bus() -> Iterator[Bus]:
    with Bus(settings={"allow_faults": True}) as started:
        yield started


def test_refused_send_leaves_receives_alone(bus: Bus, call: Caller, queue: str) -> None:
    call.send(queue, b"before")
    bus.faults.set("refuse", operations=["send"], entity=queue)
    answer = call("POST", f"/{queue}/messages", b"x")
    assert answer.status == 500
    assert call.take(queue).body == b"before"
    bus.faults.clear()
    call.send(queue, b"after")
    assert call.bodies(queue) == [b"after"]


def test_busy_bus_says_when_to_try_again(bus: Bus, call: Caller, queue: str) -> None:
    bus.faults.set("busy", operations=["send"], entity=queue)
    answer = call("POST", f"/{queue}/messages", b"x")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


def test_refused_receive_leaves_sends_alone(bus: Bus, call: Caller, queue: str) -> None:
    bus.faults.set("refuse", operations=["receive"], entity=queue)
    call.send(queue, b"x")
    assert call.take(queue).status == 500
    bus.faults.clear()
    assert call.bodies(queue) == [b"x"]


def test_refused_management_leaves_messages_alone(
    bus: Bus, call: Caller, queue: str
) -> None:
    bus.faults.set("refuse", operations=["manage"])
    call.send(queue, b"x")
    assert call("GET", f"/{queue}?api-version=2021-05").status == 500
    assert call.bodies(queue) == [b"x"]


def test_send_without_an_answer_was_done(bus: Bus, call: Caller, queue: str) -> None:
    bus.faults.set("unanswered", operations=["send"], entity=queue)
    with pytest.raises((http.client.HTTPException, OSError)):
        call("POST", f"/{queue}/messages", b"done")
    bus.faults.clear()
    again = Caller.of(bus)
    assert again.bodies(queue) == [b"done"]
    again.close()


def test_dropped_send_was_not_done(bus: Bus, call: Caller, queue: str) -> None:
    bus.faults.set("drop", operations=["send"], entity=queue)
    with pytest.raises((http.client.HTTPException, OSError)):
        call("POST", f"/{queue}/messages", b"not done")
    bus.faults.clear()
    again = Caller.of(bus)
    assert again.bodies(queue) == []
    again.close()


def test_nothing_is_received_while_too_much_is_unread(
    bus: Bus, call: Caller, queue: str
) -> None:
    """A message that nobody reads would be held as long as its connection."""
    call.send(queue, b"x")
    held = bus.server.held
    held.held += held.limit
    for method in ("POST", "DELETE"):
        answer = call(method, f"/{queue}/messages/head")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    held.held -= held.limit
    assert call.bodies(queue) == [b"x"]
