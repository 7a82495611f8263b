"""Every (state, input) pair ends in a legal state or in a protocol error.

A server is brought into each state, and then gets each frame. The result must be
allowed by the tables, or be a closed connection or ended session; and the client's own
calls either work or raise LocalError.
"""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.amqp.endpoints import EndpointPair, of_type, raw_frame

from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.errors import AmqpError, LocalError
from twinbus.amqp.events import ConnectionClosed, LinkAttached, SessionEnded
from twinbus.amqp.handshake import AMQP_HEADER, SASL_HEADER
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.performatives import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    TRANSFER,
)
from twinbus.amqp.state import ConnectionState, SessionState
from twinbus.amqp.types import Described, Symbol, UInt, ULong

TERMINUS = Described(ULong(0x29), ["q"])
ERROR = Described(ULong(0x1D), [Symbol("a:b"), "c"])
ATTACH_FIELDS: list[object] = ["n", UInt(0), False, None, None, None, TERMINUS]
RECEIVER_FIELDS: list[object] = ["m", UInt(1), True, None, None, TERMINUS]

OPENING = raw_frame(0, OPEN, ["peer"])
BEGINNING = raw_frame(0, BEGIN, [None, UInt(0), UInt(9), UInt(9)])
ATTACHING = raw_frame(0, ATTACH, ATTACH_FIELDS)

INPUTS = {
    "sasl header": SASL_HEADER,
    "amqp header": AMQP_HEADER,
    "heartbeat": b"\x00\x00\x00\x08\x02\x00\x00\x00",
    "open": OPENING,
    "begin": BEGINNING,
    "attach sender": ATTACHING,
    "attach receiver": raw_frame(0, ATTACH, RECEIVER_FIELDS),
    "flow": raw_frame(0, FLOW, [UInt(0), UInt(9), UInt(0), UInt(9)]),
    "link flow": raw_frame(
        0, FLOW, [UInt(0), UInt(9), UInt(0), UInt(9), UInt(0), UInt(0), UInt(5)]
    ),
    "transfer": raw_frame(0, TRANSFER, [UInt(0), UInt(0), b"t"], b"x"),
    "more": raw_frame(0, TRANSFER, [UInt(0), UInt(0), b"t", None, None, True], b"x"),
    "disposition": raw_frame(0, DISPOSITION, [True, UInt(0), UInt(5), True]),
    "detach": raw_frame(0, DETACH, [UInt(0), True, ERROR]),
    "end": raw_frame(0, END, [ERROR]),
    "close": raw_frame(0, CLOSE, [ERROR]),
}

STATES: dict[str, tuple[bytes, Callable[[Connection], None] | None]] = {
    "start": (b"", None),
    "headers": (AMQP_HEADER, None),
    "opened": (AMQP_HEADER + OPENING, None),
    "closing": (AMQP_HEADER + OPENING, lambda bus: bus.close()),
    "closed": (AMQP_HEADER + OPENING + INPUTS["close"], None),
    "begun": (AMQP_HEADER + OPENING + BEGINNING, None),
    "ending": (AMQP_HEADER + OPENING + BEGINNING, lambda bus: bus.sessions[0].end()),
    "ended": (AMQP_HEADER + OPENING + BEGINNING + INPUTS["end"], None),
    "attach held": (AMQP_HEADER + OPENING + BEGINNING + ATTACHING, None),
    "attached": (
        AMQP_HEADER + OPENING + BEGINNING + ATTACHING,
        lambda bus: bus.sessions[0].links[0].accept(),
    ),
    "refused": (
        AMQP_HEADER + OPENING + BEGINNING + ATTACHING,
        lambda bus: bus.sessions[0].links[0].refuse(AmqpError("a:b")),
    ),
    "half a delivery": (
        AMQP_HEADER + OPENING + BEGINNING + ATTACHING,
        lambda bus: _begin_delivery(bus),
    ),
}


# Where a connection may stand when it is given up: before any frame, or with a close
# frame on its way.
CLOSED_STATES = {
    ConnectionState.START,
    ConnectionState.CLOSE_PIPE,
    ConnectionState.CLOSE_SENT,
    ConnectionState.END,
}


def _begin_delivery(bus: Connection) -> None:
    bus.sessions[0].links[0].accept()
    bus.receive_data(INPUTS["more"], 0)


def server_in(state: str) -> Connection:
    data, then = STATES[state]
    bus = Connection(Role.SERVER, "s", require_sasl=False)
    bus.receive_data(data, 0)
    if then is not None:
        then(bus)
    return bus


def check_legal(bus: Connection) -> None:
    """What must hold after any input."""
    if bus.closed:
        assert bus.state in CLOSED_STATES
        return
    for channel, session in bus.sessions.items():
        assert session.remote_channel == channel
        assert session.state in (SessionState.MAPPED, SessionState.END_SENT)
        assert session.live == (session.state is SessionState.MAPPED)
        for handle, link in session.links.items():
            assert link.handle == handle
            assert link.session is session


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", INPUTS)
def test_every_input_in_every_state(state: str, name: str) -> None:
    bus = server_in(state)
    was_closed = bus.closed
    events = bus.receive_data(INPUTS[name], 0)
    check_legal(bus)
    told = of_type(events, ConnectionClosed)
    assert len(told) == (1 if bus.closed and not was_closed else 0)
    if was_closed:
        assert events == []
    bus.data_to_send()


@given(st.lists(st.sampled_from(sorted(INPUTS)), max_size=12), st.booleans())
def test_any_sequence_of_inputs(names: list[str], accepts: bool) -> None:
    bus = Connection(Role.SERVER, "s", require_sasl=False)
    bus.receive_data(AMQP_HEADER + OPENING, 0)
    for name in names:
        events = bus.receive_data(INPUTS[name], 0)
        check_legal(bus)
        for attached in of_type(events, LinkAttached):
            if accepts:
                attached.link.accept()
                attached.link.issue_credit(3)
            else:
                attached.link.refuse(AmqpError("a:b"))
        for ended in of_type(events, SessionEnded):
            assert not ended.session.live
    assert bus._budget.held_bytes >= 0
    assert bus._budget.link_count == sum(
        len(session.links) for session in bus.sessions.values()
    )


CALLS: dict[str, Callable[[EndpointPair], object]] = {
    "open": lambda pair: pair.client.open(),
    "begin": lambda pair: pair.client.begin(),
    "close": lambda pair: pair.client.close(),
    "pump": lambda pair: pair.pump(),
    "server close": lambda pair: pair.server.close(AmqpError("a:b")),
    "attach": lambda pair: _first_session(pair.client).attach_sender(
        f"n{len(_first_session(pair.client).links)}",
        Source(address="c"),
        Target(address="q"),
    ),
    "end": lambda pair: _first_session(pair.client).end(),
    "server end": lambda pair: _first_session(pair.server).end(),
    "detach": lambda pair: _first_link(pair.client).detach(),
    "server accept": lambda pair: _first_link(pair.server).accept(),
    "server refuse": lambda pair: _first_link(pair.server).refuse(AmqpError("a:b")),
    "server detach": lambda pair: _first_link(pair.server).detach(),
    "server credit": lambda pair: _first_link(pair.server).issue_credit(1),
    "send": lambda pair: _first_link(pair.client).send(b"m", b"t", False),
}


def _first_session(connection: Connection):  # type: ignore[no-untyped-def]
    for session in connection._by_local_channel.values():
        return session
    raise LocalError("no session")


def _first_link(connection: Connection):  # type: ignore[no-untyped-def]
    for link in _first_session(connection).links.values():
        return link
    raise LocalError("no link")


STARTS = [[], ["open"], ["open", "begin"], ["open", "begin", "attach", "pump"]]


@given(st.sampled_from(STARTS), st.lists(st.sampled_from(sorted(CALLS)), max_size=20))
def test_any_sequence_of_calls_keeps_both_sides_in_step(
    start: list[str], names: list[str]
) -> None:
    """Our own calls work or raise LocalError, and never make the peer complain."""
    pair = EndpointPair()
    for name in start + names:
        try:
            CALLS[name](pair)
        except LocalError:
            continue
    events = pair.pump()
    check_legal(pair.server)
    for closed in of_type(events.client + events.server, ConnectionClosed):
        assert closed.error is None or closed.error.condition == "a:b"
    for ended in of_type(events.client + events.server, SessionEnded):
        assert ended.error is None
