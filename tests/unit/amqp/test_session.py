"""Sessions: windows, dispositions, and the effect of a peer's errors."""

import pytest
from unit.amqp.endpoints import EndpointPair, of_type, raw_frame

from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.errors import AmqpError, LocalError
from twinbus.amqp.events import (
    ConnectionClosed,
    DispositionReceived,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    MessageReceived,
    SessionBegun,
    SessionEnded,
    SessionWindowOpened,
)
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.outcomes import (
    ACCEPTED,
    ACCEPTED_OUTCOME,
    Rejected,
    encode_rejected,
)
from twinbus.amqp.performatives import (
    ATTACH,
    BEGIN,
    DETACH,
    DISPOSITION,
    FLOW,
    TRANSFER,
)
from twinbus.amqp.state import SessionState
from twinbus.amqp.types import UInt


def opened() -> EndpointPair:
    client = Connection(Role.CLIENT, "c", incoming_window=4)
    server = Connection(Role.SERVER, "s", require_sasl=False, incoming_window=4)
    pair = EndpointPair(client=client, server=server)
    pair.open()
    return pair


@pytest.fixture
def pair() -> EndpointPair:
    return opened()


def ended_by(pair: EndpointPair, frame: bytes) -> AmqpError:
    """Give a frame to the server, which must end the session because of it."""
    events = pair.server.receive_data(frame, 0)
    [ended] = of_type(events, SessionEnded)
    assert ended.error is not None
    assert not pair.server.closed
    return ended.error


def test_begin_and_end_are_seen_by_both_sides(pair: EndpointPair) -> None:
    session = pair.client.begin()
    events = pair.pump()
    [begun] = of_type(events.client, SessionBegun)
    assert begun.session is session
    assert session.state is SessionState.MAPPED
    session.end(AmqpError("a:b", "c"))
    session.end()
    events = pair.pump()
    [at_server] = of_type(events.server, SessionEnded)
    assert at_server.error == AmqpError("a:b", "c")
    [at_client] = of_type(events.client, SessionEnded)
    assert at_client.error is None
    assert (pair.client.sessions, pair.server.sessions) == ({}, {})
    with pytest.raises(LocalError):
        session.attach_sender("tx", Source(), Target())


def test_a_session_can_be_ended_before_its_begin_is_answered(
    pair: EndpointPair,
) -> None:
    session = pair.client.begin()
    session.end()
    events = pair.pump()
    assert len(of_type(events.client, SessionEnded)) == 1
    assert session.state is SessionState.ENDED


def test_both_sides_may_end_at_once(pair: EndpointPair) -> None:
    ours, theirs = pair.begin()
    ours.end()
    theirs.end()
    events = pair.pump()
    assert len(of_type(events.client, SessionEnded)) == 1
    assert len(of_type(events.server, SessionEnded)) == 1
    assert (ours.state, theirs.state) == (SessionState.ENDED, SessionState.ENDED)


def test_sends_beyond_the_peers_window_wait_and_go_out_as_it_opens(
    pair: EndpointPair,
) -> None:
    session, _ = pair.begin()
    tx, _ = pair.attach_sender(session)
    for number in range(10):
        tx.send(b"%d" % number, b"t%d" % number, True)
    assert not session.window_open()
    data = pair.client.data_to_send()
    messages = of_type(pair.server.receive_data(data, 0), MessageReceived)
    assert [m.payload for m in messages] == [b"0", b"1", b"2", b"3"]
    events = pair.pump()
    later = of_type(events.server, MessageReceived)
    assert [m.payload for m in later] == [b"%d" % n for n in range(4, 10)]
    assert session.window_open()
    assert len(of_type(events.client, SessionWindowOpened)) >= 1


def test_a_message_larger_than_the_whole_window_gets_through() -> None:
    client = Connection(Role.CLIENT, "c")
    server = Connection(
        Role.SERVER, "s", require_sasl=False, incoming_window=2, max_frame_size=512
    )
    pair = EndpointPair(client=client, server=server)
    pair.open()
    session, _ = pair.begin()
    tx, _ = pair.attach_sender(session)
    payload = bytes(5000)
    tx.send(payload, b"t", False)
    [message] = of_type(pair.pump().server, MessageReceived)
    assert message.payload == payload


def test_frames_that_wait_are_dropped_with_their_link(pair: EndpointPair) -> None:
    session, _ = pair.begin()
    tx, _ = pair.attach_sender(session)
    for _ in range(6):
        tx.send(b"m", b"t", True)
    tx.detach()
    events = pair.pump()
    assert len(of_type(events.server, MessageReceived)) == 4
    assert len(of_type(events.server, LinkDetached)) == 1
    assert not session.held


def test_a_disposition_of_a_range(pair: EndpointPair) -> None:
    session, served = pair.begin()
    tx, _ = pair.attach_sender(session)
    for number in range(3):
        tx.send(b"m", b"%d" % number, False, context=f"m{number}")
    pair.pump()
    served.send_disposition(True, 0, 1, True, ACCEPTED)
    served.send_disposition(True, 2, 2, True, encode_rejected(AmqpError("a:b", "c")))
    accepted, rejected = of_type(pair.pump().client, DispositionReceived)
    assert (accepted.first, accepted.last, accepted.settled) == (0, 1, True)
    assert accepted.peer_is_receiver
    assert accepted.state is ACCEPTED_OUTCOME
    assert rejected.state == Rejected(error=AmqpError("a:b", "c"))
    assert session.pop_unsettled(0, 1) == [(0, "m0"), (1, "m1")]
    assert session.pop_unsettled(2, 2) == [(2, "m2")]
    assert session.pop_unsettled(2, 2) == []


def test_ranges_cost_no_more_than_what_is_unsettled(pair: EndpointPair) -> None:
    session, _ = pair.begin()
    session.unsettled.update({0xFFFFFFFE: "a", 0xFFFFFFFF: "b", 0: "c", 9: "d"})
    session.next_delivery_id = 10
    assert session.find_unsettled(0xFFFFFFFE, 0x7FFFFFF0) == [
        0xFFFFFFFE,
        0xFFFFFFFF,
        0,
        9,
    ]
    assert session.pop_unsettled(0xFFFFFFFF, 0) == [(0xFFFFFFFF, "b"), (0, "c")]
    assert session.find_unsettled(1, 8) == []


def test_a_disposition_after_the_end_is_not_sent(pair: EndpointPair) -> None:
    session, served = pair.begin()
    session.end()
    pair.pump()
    served.send_disposition(True, 0, 0, True, ACCEPTED)
    served.write_flow(None, False)
    assert pair.server.data_to_send() == b""


def test_late_frames_for_an_ended_session_are_ignored(pair: EndpointPair) -> None:
    session, _ = pair.begin()
    session.end()
    pair.pump()
    # Python's client detaches its links behind the end.
    for code in (DETACH, FLOW, TRANSFER, DISPOSITION):
        assert pair.server.receive_data(raw_frame(0, code, [UInt(0), True]), 0) == []
    assert pair.server.data_to_send() == b""
    assert not pair.server.closed


def test_a_detach_of_an_unknown_handle_is_not_answered(pair: EndpointPair) -> None:
    pair.begin()
    assert pair.server.receive_data(raw_frame(0, DETACH, [UInt(7), True]), 0) == []
    assert pair.server.data_to_send() == b""


def test_a_transfer_on_an_unknown_handle_ends_only_its_session(
    pair: EndpointPair,
) -> None:
    pair.begin()
    other, _ = pair.begin()
    frame = raw_frame(0, TRANSFER, [UInt(7), UInt(0), b"t"])
    assert ended_by(pair, frame).condition == "amqp:session:unattached-handle"
    # What follows on that channel is dropped until the peer's end comes.
    assert pair.server.receive_data(frame, 0) == []
    tx, _ = pair.attach_sender(other)
    tx.send(b"m", b"t", True)
    assert len(of_type(pair.pump().server, MessageReceived)) == 1


def test_the_faults_that_end_a_session() -> None:
    attach = ["n", UInt(0), False]
    transfer_without_id = raw_frame(0, TRANSFER, [UInt(0)])
    backwards = raw_frame(0, DISPOSITION, [True, UInt(1), UInt(0)])
    for frame, condition in (
        (raw_frame(0, ATTACH, attach), "amqp:session:handle-in-use"),
        (transfer_without_id, "amqp:invalid-field"),
        (raw_frame(0, TRANSFER, [UInt(0), UInt(0)]), "amqp:invalid-field"),
        (backwards, "amqp:invalid-field"),
    ):
        pair = opened()
        session, _ = pair.begin()
        pair.attach_sender(session)
        assert ended_by(pair, frame).condition == condition


def test_a_transfer_from_a_receiver_ends_the_session(pair: EndpointPair) -> None:
    session, _ = pair.begin()
    pair.attach_receiver(session)
    frame = raw_frame(0, TRANSFER, [UInt(0), UInt(0), b"t"])
    assert ended_by(pair, frame).condition == "amqp:not-allowed"


def test_a_transfer_before_the_attach_is_answered_ends_the_session(
    pair: EndpointPair,
) -> None:
    session, _ = pair.begin()
    session.attach_sender("tx", Source(address="c"), Target(address="q"))
    pair.pump()
    frame = raw_frame(0, TRANSFER, [UInt(0), UInt(0), b"t"])
    assert ended_by(pair, frame).condition == "amqp:not-allowed"


def test_a_flow_for_an_unknown_handle_still_moves_the_window(
    pair: EndpointPair,
) -> None:
    _, served = pair.begin()
    flow = [UInt(0), UInt(77), UInt(0), UInt(1), UInt(5), UInt(0), UInt(9)]
    assert pair.server.receive_data(raw_frame(0, FLOW, flow), 0) == []
    assert served.remote_incoming_window == 77


def test_a_flow_from_before_our_begin_was_seen_counts_from_zero(
    pair: EndpointPair,
) -> None:
    _, served = pair.begin()
    served.next_outgoing_id = 3
    flow = [None, UInt(10), UInt(0), UInt(1)]
    pair.server.receive_data(raw_frame(0, FLOW, flow), 0)
    assert served.remote_incoming_window == 7


def test_a_window_seen_from_the_future_is_taken_as_it_is(
    pair: EndpointPair,
) -> None:
    _, served = pair.begin()
    flow = [UInt(50), UInt(10), UInt(0), UInt(1)]
    pair.server.receive_data(raw_frame(0, FLOW, flow), 0)
    assert served.remote_incoming_window == 10


def test_a_peer_that_leaves_us_no_handle_loses_the_session() -> None:
    pair = opened()
    begin = [None, UInt(0), UInt(9), UInt(9), UInt(0)]
    pair.server.receive_data(raw_frame(0, BEGIN, begin), 0)
    first = raw_frame(0, ATTACH, ["a", UInt(0), False])
    assert len(of_type(pair.server.receive_data(first, 0), LinkAttached)) == 1
    second = raw_frame(0, ATTACH, ["b", UInt(1), False])
    assert ended_by(pair, second).condition == "amqp:not-allowed"


def test_we_keep_to_the_peers_handle_max() -> None:
    server = Connection(Role.SERVER, "s", require_sasl=False, handle_max=0)
    pair = EndpointPair(server=server)
    pair.open()
    session, _ = pair.begin()
    session.attach_sender("a", Source(), Target(address="q"))
    with pytest.raises(LocalError):
        session.attach_sender("b", Source(), Target(address="q"))


def test_a_session_flow_with_echo_is_answered(pair: EndpointPair) -> None:
    pair.begin()
    echo = [UInt(0), UInt(1), UInt(0), UInt(1), None, None, None, None, False, True]
    pair.server.receive_data(raw_frame(0, FLOW, echo), 0)
    assert pair.server.data_to_send()[8:11] == b"\x00\x53\x13"


def test_links_beyond_the_limit_are_refused() -> None:
    server = Connection(Role.SERVER, "s", require_sasl=False, link_limit=2)
    pair = EndpointPair(server=server)
    pair.open()
    session, _ = pair.begin()
    links = [
        session.attach_sender(f"tx{number}", Source(), Target(address="q"))
        for number in range(3)
    ]
    events = pair.pump()
    assert len(of_type(events.server, LinkAttached)) == 2
    [refused] = of_type(events.client, LinkDetached)
    assert refused.link is links[2]
    assert refused.error is not None
    assert refused.error.condition == "amqp:resource-limit-exceeded"
    # The refused link has gone, and so its place does not stay taken.
    assert server._budget.link_count == 2


def test_two_links_of_one_name_and_direction_are_our_mistake(
    pair: EndpointPair,
) -> None:
    session, _ = pair.begin()
    session.attach_sender("same", Source(), Target(address="q"))
    session.attach_receiver("same", Source(address="q"), Target())
    with pytest.raises(LocalError):
        session.attach_sender("same", Source(), Target(address="q"))


def test_dispositions_and_flows_alone_make_no_other_events(
    pair: EndpointPair,
) -> None:
    session, served = pair.begin()
    pair.attach_sender(session)

    def kinds(events: list[Event]) -> list[type[Event]]:
        return [type(event) for event in events]

    served.send_disposition(True, 0, 0, True, ACCEPTED)
    assert kinds(pair.pump().client) == [DispositionReceived]
    [link] = served.links.values()
    link.issue_credit(1)
    assert kinds(pair.pump().client) == [LinkFlow]


def test_peer_that_never_detaches_refused_links_is_closed() -> None:
    server = Connection(Role.SERVER, "s", require_sasl=False, link_limit=2)
    pair = EndpointPair(server=server)
    pair.open()
    session, _ = pair.begin()
    for number in range(5):
        session.attach_sender(f"tx{number}", Source(), Target(address="q"))
    # All attaches are on the wire before the client reads the first refusal.
    events = server.receive_data(pair.client.data_to_send(), 0)
    [closed] = of_type(events, ConnectionClosed)
    assert closed.error is not None
    assert closed.error.condition == "amqp:resource-limit-exceeded"
