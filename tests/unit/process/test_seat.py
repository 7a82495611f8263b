"""What a supervisor gives to its brokers."""

import os
import socket

import pytest

from twinbus.process.listener import listening_sockets
from twinbus.process.seat import HTTP_PORT, PORT, TLS_PORT, Seat, inherited_seat


def test_process_that_was_started_by_hand_has_no_seat() -> None:
    assert inherited_seat() is None


def test_seat_is_inherited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = listening_sockets("127.0.0.1", 0)
    given = Seat(name="2", broker_count=3, sockets={PORT: opened}, life_line=7)
    (variable,) = given.variable()
    # The descriptors of another process: here they must be others than our own.
    copy = {PORT: [socket.socket(fileno=os.dup(one.fileno())) for one in opened]}
    text = Seat(name="2", broker_count=3, sockets=copy, life_line=7).variable()
    monkeypatch.setenv(variable, text[variable])
    found = inherited_seat()
    assert found is not None
    assert (found.name, found.broker_count, found.life_line) == ("2", 3, 7)
    assert found.port_of(PORT) == given.port_of(PORT) == opened[0].getsockname()[1]
    assert found.port_of(HTTP_PORT) == found.port_of(TLS_PORT) == 0
    assert variable not in os.environ, "its own children are no brokers"
    for one in copy[PORT]:
        one.detach()
    for one in (*opened, *found.sockets[PORT]):
        one.close()


def test_broker_inherits_sockets_and_life_line() -> None:
    opened = listening_sockets("127.0.0.1", 0)
    seat = Seat(name="1", sockets={PORT: opened}, life_line=9)
    assert set(seat.descriptors()) == {9, *(one.fileno() for one in opened)}
    for one in opened:
        one.close()
