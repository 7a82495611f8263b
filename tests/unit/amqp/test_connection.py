"""Connections: open and close, framing, channels, heartbeats."""

import pytest
from unit.amqp.endpoints import EndpointPair, of_type, raw_frame

from twinbus.amqp.assembly import ASSEMBLY_BYTES, LINK_BYTES, SESSION_BYTES
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.errors import AmqpError, LocalError
from twinbus.amqp.events import (
    ConnectionClosed,
    ConnectionOpened,
    Event,
    LinkAttached,
    MessageReceived,
    SessionBegun,
)
from twinbus.amqp.framing import EMPTY_FRAME, frame
from twinbus.amqp.handshake import AMQP_HEADER
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.performatives import (
    BEGIN,
    CLOSE,
    FLOW,
    OPEN,
    TRANSFER,
    Close,
    Open,
    decode_performative,
)
from twinbus.amqp.state import ConnectionState
from twinbus.amqp.types import Described, Symbol, UInt, ULong, UShort

OPEN_FRAME = raw_frame(0, OPEN, ["peer", "host"])
BEGIN_FIELDS: list[object] = [None, UInt(0), UInt(100), UInt(100)]


def server(**options: int) -> Connection:
    return Connection(Role.SERVER, "server", require_sasl=False, **options)  # type: ignore[arg-type]


def opened_server(**options: int) -> Connection:
    bus = server(**options)
    bus.receive_data(AMQP_HEADER + OPEN_FRAME, 0)
    bus.data_to_send()
    return bus


def error_of(events: list[Event]) -> AmqpError:
    [closed] = of_type(events, ConnectionClosed)
    assert closed.error is not None
    return closed.error


def sent_close(bus: Connection) -> AmqpError:
    """The error of the close frame that is the last thing to be sent."""
    data = bus.data_to_send()
    at = data.rindex(b"\x00\x53\x18")
    close = decode_performative(CLOSE, data[at + 3 :])
    assert isinstance(close, Close)
    assert isinstance(close.error, AmqpError)
    return close.error


def test_open_tells_who_the_peer_is() -> None:
    client = Connection(
        Role.CLIENT, "c1", hostname="ns.test", properties={"product": "p"}
    )
    pair = EndpointPair(client=client)
    client.open()
    events = pair.pump()
    [opened] = of_type(events.server, ConnectionOpened)
    assert (opened.container_id, opened.hostname) == ("c1", "ns.test")
    assert opened.properties == {"product": "p"}
    assert len(of_type(events.client, ConnectionOpened)) == 1


def test_the_servers_open_has_its_limits() -> None:
    bus = server(max_frame_size=1024, channel_max=7, idle_timeout_ms=9000)
    bus.receive_data(AMQP_HEADER + OPEN_FRAME, 0)
    data = bus.data_to_send()
    assert data[:8] == AMQP_HEADER
    answer = decode_performative(OPEN, data[8 + 8 + 3 :])
    assert answer == Open(
        container_id="server", max_frame_size=1024, channel_max=7, idle_time_out=9000
    )


def test_a_client_may_send_everything_at_once() -> None:
    pair = EndpointPair()
    pair.client.open()
    session = pair.client.begin()
    session.attach_sender("tx", Source(address="a"), Target(address="q"))
    session.attach_receiver("rx", Source(address="q"), Target(address="b"))
    data = pair.client.data_to_send()
    events = pair.server.receive_data(data, 0)
    assert [type(event) for event in events] == [
        ConnectionOpened,
        SessionBegun,
        LinkAttached,
        LinkAttached,
    ]


def test_close_is_answered() -> None:
    pair = EndpointPair()
    pair.open()
    pair.client.close(AmqpError("a:b", "c"))
    pair.client.close()
    events = pair.pump()
    assert error_of(events.server) == AmqpError("a:b", "c")
    [closed] = of_type(events.client, ConnectionClosed)
    assert closed.error is None
    assert pair.client.closed
    assert pair.server.closed
    assert pair.client.state is ConnectionState.END


def test_a_connection_can_be_closed_before_its_open_is_answered() -> None:
    pair = EndpointPair()
    pair.client.open()
    pair.client.close()
    events = pair.pump()
    assert len(of_type(events.client, ConnectionClosed)) == 1
    assert of_type(events.client, ConnectionOpened) == []


def test_behind_our_close_only_the_peers_close_counts() -> None:
    bus = opened_server()
    bus.close(AmqpError("amqp:connection:forced", "stop"))
    assert sent_close(bus).description == "stop"
    assert bus.receive_data(raw_frame(3, BEGIN, BEGIN_FIELDS), 0) == []
    [closed] = bus.receive_data(raw_frame(0, CLOSE, []), 0)
    assert isinstance(closed, ConnectionClosed)
    assert bus.data_to_send() == b""


def test_a_transport_that_ends_is_told_once() -> None:
    bus = opened_server()
    assert error_of(bus.eof()).condition == "amqp:connection:forced"
    assert bus.eof() == []
    assert bus.tick(10**9) == []
    assert bus.next_deadline() is None


def test_a_closed_connection_takes_no_credit_or_sends() -> None:
    pair = EndpointPair()
    pair.open()
    session, _ = pair.begin()
    tx, _ = pair.attach_sender(session)
    pair.client.eof()
    assert tx.credit == 0
    with pytest.raises(LocalError):
        tx.send(b"m", b"t", True)


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"\x00\x01\x00\x01\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x01\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x03\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x02\x01\x00\x00", "amqp:connection:framing-error"),
        (frame(0, b"\x40"), "amqp:decode-error"),
        (frame(0, b"\x00\x53"), "amqp:decode-error"),
        (frame(0, b"\x00\x53\x18\xd0"), "amqp:decode-error"),
        (raw_frame(0, 0x99, []), "amqp:not-allowed"),
        (OPEN_FRAME, "amqp:not-allowed"),
        (raw_frame(5, FLOW, [UInt(0)] * 4), "amqp:not-allowed"),
        (raw_frame(4, BEGIN, BEGIN_FIELDS), "amqp:connection:framing-error"),
        (raw_frame(0, BEGIN, [UShort(3), *BEGIN_FIELDS[1:]]), "amqp:not-allowed"),
        (raw_frame(0, BEGIN, []), "amqp:decode-error"),
    ],
)
def test_a_broken_rule_closes_with_its_condition(data: bytes, condition: str) -> None:
    bus = opened_server(channel_max=3)
    assert error_of(bus.receive_data(data, 0)).condition == condition
    assert bus.closed
    assert sent_close(bus).condition == condition
    assert bus.receive_data(EMPTY_FRAME, 0) == []


def test_a_frame_before_the_open_is_answered_with_open_and_close() -> None:
    bus = server()
    bus.receive_data(AMQP_HEADER + raw_frame(0, BEGIN, BEGIN_FIELDS), 0)
    data = bus.data_to_send()
    assert data.startswith(AMQP_HEADER)
    assert data[16:19] == b"\x00\x53\x10"
    assert b"\x00\x53\x18" in data
    assert bus.closed


def test_a_peer_that_leaves_us_no_channel_is_refused() -> None:
    bus = server()
    one_channel = raw_frame(0, OPEN, ["peer", None, None, UShort(0)])
    bus.receive_data(AMQP_HEADER + one_channel, 0)
    error = error_of(bus.receive_data(raw_frame(1, BEGIN, BEGIN_FIELDS), 0))
    assert error.condition == "amqp:not-allowed"


def test_a_server_may_begin_sessions_too() -> None:
    pair = EndpointPair()
    pair.open()
    pair.client.begin()
    theirs = pair.server.begin()
    events = pair.pump()
    assert len(of_type(events.client, SessionBegun)) == 2
    assert len(of_type(events.server, SessionBegun)) == 2
    assert theirs in pair.server.sessions.values()


def test_a_peer_with_tiny_frames_is_refused() -> None:
    bus = server()
    tiny = raw_frame(0, OPEN, ["peer", None, UInt(511)])
    error = error_of(bus.receive_data(AMQP_HEADER + tiny, 0))
    assert error.condition == "amqp:invalid-field"


def test_an_unknown_performative_in_a_session_closes() -> None:
    bus = opened_server()
    bus.receive_data(raw_frame(0, BEGIN, BEGIN_FIELDS), 0)
    error = error_of(bus.receive_data(raw_frame(0, 0x99, []), 0))
    assert error.condition == "amqp:not-allowed"


def test_a_handle_above_the_limit_closes() -> None:
    bus = opened_server(handle_max=3)
    bus.receive_data(raw_frame(0, BEGIN, BEGIN_FIELDS), 0)
    attach: list[object] = ["n", UInt(4), False]
    error = error_of(bus.receive_data(raw_frame(0, 0x12, attach), 0))
    assert error.condition == "amqp:connection:framing-error"


def test_performatives_are_known_by_name() -> None:
    bus = server()
    by_name = encode_composite(Open(container_id="c")).replace(
        b"\x53\x10", b"\xa3\x0eamqp:open:list", 1
    )
    [opened] = bus.receive_data(AMQP_HEADER + frame(0, by_name), 0)
    assert isinstance(opened, ConnectionOpened)


def test_extended_headers_are_skipped() -> None:
    bus = server()
    body = encode_composite(Open(container_id="c"))
    size = (12 + len(body)).to_bytes(4)
    long_header = size + b"\x03\x00\x00\x00" + b"more" + body
    [opened] = bus.receive_data(AMQP_HEADER + long_header, 0)
    assert isinstance(opened, ConnectionOpened)


def test_unfinished_deliveries_beyond_the_budget_close() -> None:
    bus = opened_server(limit_bytes=SESSION_BYTES + LINK_BYTES + ASSEMBLY_BYTES + 1000)
    bus.receive_data(raw_frame(1, BEGIN, BEGIN_FIELDS), 0)
    target = Described(ULong(0x29), ["q"])
    attach = ["n", UInt(0), False, None, None, None, target, None, None, UInt(0)]
    [attached] = of_type(bus.receive_data(raw_frame(1, 0x12, attach), 0), LinkAttached)
    attached.link.accept()
    first = [UInt(0), UInt(0), b"t", UInt(0), False, True]
    more = raw_frame(1, TRANSFER, first, b"x" * 600)
    assert bus.receive_data(more, 0) == []
    error = error_of(bus.receive_data(more, 0))
    assert error.condition == "amqp:resource-limit-exceeded"


def test_frames_are_as_large_as_the_peer_takes() -> None:
    client = Connection(Role.CLIENT, "c", max_frame_size=512)
    pair = EndpointPair(client=client)
    pair.open()
    session, _ = pair.begin()
    _, tx = pair.attach_receiver(session)
    tx.send(b"x" * 2000, b"t", True)
    data = pair.server.data_to_send()
    assert int.from_bytes(data[:4]) == 512
    [message] = of_type(client.receive_data(data, 0), MessageReceived)
    assert len(message.payload) == 2000


def test_heartbeats_go_out_before_half_of_the_peers_time_out() -> None:
    bus = server()
    peer = raw_frame(0, OPEN, ["peer", None, None, None, UInt(60_000)])
    bus.receive_data(AMQP_HEADER + peer, 1000)
    bus.data_to_send()
    assert bus.next_deadline() == 31_000
    assert bus.tick(30_999) == []
    assert bus.data_to_send() == b""
    bus.tick(31_000)
    assert bus.data_to_send() == EMPTY_FRAME
    assert bus.next_deadline() == 61_000


def test_a_silent_peer_is_given_up() -> None:
    bus = opened_server(idle_timeout_ms=5000)
    assert bus.receive_data(EMPTY_FRAME, 3000) == []
    assert bus.tick(7999) == []
    error = error_of(bus.tick(8000))
    assert error.condition == "amqp:resource-limit-exceeded"
    assert sent_close(bus) == error
    assert bus.closed


def test_a_peer_that_never_speaks_is_given_up() -> None:
    bus = server(idle_timeout_ms=5000)
    assert bus.tick(100) == []
    assert bus.next_deadline() == 5100
    error_of(bus.tick(5100))
    assert bus.data_to_send() == b""


def test_misuse_is_told_to_the_caller() -> None:
    bus = opened_server()
    with pytest.raises(LocalError):
        bus.open()
    with pytest.raises(LocalError):
        bus.sasl_outcome(True)
    with pytest.raises(LocalError):
        Connection(Role.CLIENT, "c").begin()
    client = Connection(Role.CLIENT, "c")
    client.open()
    one_channel = raw_frame(0, OPEN, ["s", None, None, UShort(0)])
    client.receive_data(AMQP_HEADER + one_channel, 0)
    client.begin()
    with pytest.raises(LocalError):
        client.begin()


def test_a_channel_can_be_used_again() -> None:
    pair = EndpointPair()
    pair.open()
    for _ in range(3):
        session, served = pair.begin()
        assert (session.channel, served.channel) == (0, 0)
        session.end()
        pair.pump()


def test_error_information_reaches_the_peer() -> None:
    pair = EndpointPair()
    pair.open()
    info: dict[object, object] = {Symbol("k"): "v"}
    pair.server.close(AmqpError("a:b", "c", info))
    assert error_of(pair.pump().client) == AmqpError("a:b", "c", info)


def test_what_a_peer_said_is_counted_until_it_is_over() -> None:
    bus = opened_server()
    assert bus.held_bytes() == 0
    bus.receive_data(raw_frame(1, BEGIN, BEGIN_FIELDS), 0)
    target = Described(ULong(0x29), ["q"])
    name = "n" * 10_000
    fields = [name, UInt(0), False, None, None, None, target, None, None, UInt(0)]
    [attached] = of_type(bus.receive_data(raw_frame(1, 0x12, fields), 0), LinkAttached)
    asked = bus.held_bytes()
    assert asked > SESSION_BYTES + LINK_BYTES + len(name)
    attached.link.accept()
    # The name is needed as long as the link is there, the rest is not.
    assert SESSION_BYTES + LINK_BYTES + len(name) <= bus.held_bytes() < asked
    bus.receive_data(raw_frame(1, 0x16, [UInt(0), True]), 0)
    assert bus.held_bytes() == SESSION_BYTES
    bus.receive_data(raw_frame(1, 0x17, []), 0)
    assert bus.held_bytes() == 0


def test_a_refused_link_keeps_nothing_but_its_name() -> None:
    bus = opened_server()
    bus.receive_data(raw_frame(1, BEGIN, BEGIN_FIELDS), 0)
    target = Described(ULong(0x29), ["q" * 10_000])
    fields = ["n", UInt(0), False, None, None, None, target, None, None, UInt(0)]
    [attached] = of_type(bus.receive_data(raw_frame(1, 0x12, fields), 0), LinkAttached)
    attached.link.refuse(AmqpError("amqp:not-found"))
    link = attached.link
    assert (link.source, link.raw_target, link.properties) == (None, b"\x40", {})
    bus.receive_data(raw_frame(1, 0x16, [UInt(0), True]), 0)
    assert bus.held_bytes() == SESSION_BYTES


def test_half_a_frame_is_counted() -> None:
    bus = opened_server()
    begin = raw_frame(1, BEGIN, BEGIN_FIELDS)
    bus.receive_data(begin[:-1], 0)
    assert bus.held_bytes() == len(begin) - 1
    bus.receive_data(begin[-1:], 0)
    assert bus.held_bytes() == SESSION_BYTES
