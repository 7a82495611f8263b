"""Links: attach in both roles, credit, drain, deliveries, detach."""

import pytest
from unit.amqp.endpoints import EndpointPair, of_type, raw_frame

from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.errors import AmqpError, LocalError
from twinbus.amqp.events import (
    LinkAttached,
    LinkDetached,
    LinkFlow,
    MessageReceived,
    SessionEnded,
)
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.performatives import FLOW, TRANSFER
from twinbus.amqp.session import AmqpSession
from twinbus.amqp.state import LinkState
from twinbus.amqp.types import Encoded, UInt


@pytest.fixture
def pair() -> EndpointPair:
    pair = EndpointPair()
    pair.open()
    return pair


@pytest.fixture
def session(pair: EndpointPair) -> AmqpSession:
    session, _ = pair.begin()
    return session


def requested(pair: EndpointPair) -> Link:
    [attached] = of_type(pair.pump().server, LinkAttached)
    return attached.link


def confirmed(pair: EndpointPair) -> Link:
    [attached] = of_type(pair.pump().client, LinkAttached)
    return attached.link


def test_an_attach_tells_the_server_everything(
    pair: EndpointPair, session: AmqpSession
) -> None:
    session.attach_receiver(
        "rx",
        Source(address="q", filter={"com.microsoft:session-filter": None}),
        Target(address="c"),
        snd_settle_mode=1,
        rcv_settle_mode=1,
        properties={"com.microsoft:timeout": 5},
        max_message_size=1000,
    )
    link = requested(pair)
    assert (link.name, link.peer_is_receiver) == ("rx", True)
    assert isinstance(link.source, Source)
    assert link.source.filter == {"com.microsoft:session-filter": None}
    assert (link.snd_settle_mode, link.rcv_settle_mode) == (1, 1)
    assert link.properties == {"com.microsoft:timeout": 5}
    assert link.max_message_size == 1000


def test_an_accepted_link_echoes_termini_and_modes(
    pair: EndpointPair, session: AmqpSession
) -> None:
    # A descriptor written as eight bytes, as no encoder of ours would.
    source = bytes.fromhex("00800000000000000028c00401a10171")
    session.attach_receiver("rx", Encoded(source), Target(address="c"), 1, 1)
    requested(pair).accept(properties={"p": 1})
    link = confirmed(pair)
    assert link.raw_source == source
    assert link.target == Target(address="c")
    assert (link.snd_settle_mode, link.rcv_settle_mode) == (1, 1)
    assert link.properties == {"p": 1}


@pytest.mark.parametrize("empty", [b"\x40", b"\x00\x53\x28\x45", b"\0\x53\x28\xc0\1\0"])
def test_an_empty_terminus_is_answered_with_one_null(
    pair: EndpointPair, session: AmqpSession, empty: bytes
) -> None:
    session.attach_sender("tx", Encoded(empty), Target(address="q"))
    requested(pair).accept()
    assert confirmed(pair).raw_source == b"\x00\x53\x28\xc0\x02\x01\x40"


def test_the_server_may_answer_with_termini_of_its_own(
    pair: EndpointPair, session: AmqpSession
) -> None:
    session.attach_receiver("rx", Source(address="q"), Target(address="c"))
    target = b"\x00\x53\x29\xc0\x04\x01\xa1\x01z"
    requested(pair).accept(source=Source(address="other"), target=target)
    link = confirmed(pair)
    assert link.source == Source(address="other")
    assert link.raw_target == target


def test_a_sending_server_says_its_initial_delivery_count(
    pair: EndpointPair, session: AmqpSession
) -> None:
    session.attach_receiver("rx", Source(address="q"), Target(address="c"))
    requested(pair).accept(initial_delivery_count=7)
    link = confirmed(pair)
    assert (link.initial_delivery_count, link.delivery_count) == (7, 7)


def test_a_refused_link_is_never_confirmed(
    pair: EndpointPair, session: AmqpSession
) -> None:
    link = session.attach_sender("tx", Source(address="c"), Target(address="q"))
    error = AmqpError("amqp:not-found", "no such entity")
    refused = requested(pair)
    refused.refuse(error)
    refused.accept()
    events = pair.pump()
    assert of_type(events.client, LinkAttached) == []
    [detached] = of_type(events.client, LinkDetached)
    assert (detached.link, detached.closed, detached.error) == (link, True, error)
    assert link.state is LinkState.DETACHED
    assert refused.state is LinkState.DETACHED


def test_an_attach_can_wait_while_other_links_work(
    pair: EndpointPair, session: AmqpSession
) -> None:
    session.attach_receiver("held", Source(address="q"), Target(address="c"))
    held = requested(pair)
    tx, _ = pair.attach_sender(session)
    tx.send(b"m", b"t", True)
    [message] = of_type(pair.pump().server, MessageReceived)
    assert message.payload == b"m"
    held.accept()
    assert confirmed(pair).name == "held"


def test_a_held_attach_that_the_client_gives_up_is_answered_and_gone(
    pair: EndpointPair, session: AmqpSession
) -> None:
    link = session.attach_receiver("held", Source(address="q"), Target(address="c"))
    held = requested(pair)
    link.detach()
    events = pair.pump()
    assert [event.link for event in of_type(events.server, LinkDetached)] == [held]
    assert [event.link for event in of_type(events.client, LinkDetached)] == [link]
    held.accept()
    held.issue_credit(1)
    assert pair.server.data_to_send() == b""


def test_credit_that_comes_before_the_answer_is_kept(
    pair: EndpointPair, session: AmqpSession
) -> None:
    link = session.attach_receiver("rx", Source(address="q"), Target(address="c"))
    served = requested(pair)
    # rhea and Proton send their credit right behind the attach, and not again.
    link.credit = 3
    session.write_flow(link, False)
    assert [flow.link for flow in of_type(pair.pump().server, LinkFlow)] == [served]
    with pytest.raises(LocalError):
        served.send(b"m", b"t", True)
    served.accept()
    assert served.credit == 3


def test_sending_uses_up_credit(pair: EndpointPair, session: AmqpSession) -> None:
    tx, rx = pair.attach_sender(session, credit=2)
    assert tx.credit == 2
    assert tx.send(b"one", b"1", False, context="first") == 0
    assert tx.send(b"two", b"2", True) == 1
    assert (tx.credit, session.unsettled) == (0, {0: "first"})
    with pytest.raises(LocalError):
        tx.send(b"three", b"3", True)
    messages = of_type(pair.pump().server, MessageReceived)
    assert [
        (m.delivery_id, m.delivery_tag, m.payload, m.settled) for m in messages
    ] == [
        (0, b"1", b"one", False),
        (1, b"2", b"two", True),
    ]
    assert rx.credit == 0
    rx.issue_credit(5)
    pair.pump()
    assert tx.credit == 5


def test_a_sender_that_ignores_credit_is_served_all_the_same(
    pair: EndpointPair, session: AmqpSession
) -> None:
    tx, rx = pair.attach_sender(session, credit=1)
    tx.credit = 3
    for number in range(3):
        tx.send(b"m", b"%d" % number, True)
    assert len(of_type(pair.pump().server, MessageReceived)) == 3
    assert rx.credit == -2


def test_credit_in_a_flow_from_the_sender_is_ignored(
    pair: EndpointPair, session: AmqpSession
) -> None:
    tx, rx = pair.attach_sender(session, credit=5)
    tx.credit = 10_000
    session.write_flow(tx, False)
    pair.pump()
    assert rx.credit == 5


def test_credit_counts_what_is_on_its_way(
    pair: EndpointPair, session: AmqpSession
) -> None:
    rx, tx = pair.attach_receiver(session, credit=3)
    tx.send(b"m", b"1", True)
    # The client lowers its credit before it has seen the message.
    rx.issue_credit(1)
    pair.server.receive_data(pair.client.data_to_send(), 0)
    assert tx.credit == 0


def test_drain_uses_up_the_credit(pair: EndpointPair, session: AmqpSession) -> None:
    rx, tx = pair.attach_receiver(session, credit=0)
    rx.issue_credit(10, drain=True)
    [flow] = of_type(pair.pump().server, LinkFlow)
    assert flow.link is tx
    assert (tx.drain, tx.credit) == (True, 10)
    tx.send(b"m", b"t", True)
    tx.drained()
    events = pair.pump()
    assert len(of_type(events.client, MessageReceived)) == 1
    assert len(of_type(events.client, LinkFlow)) == 1
    assert (rx.credit, rx.drain, rx.delivery_count) == (0, False, 10)
    assert (tx.credit, tx.drain, tx.delivery_count) == (0, False, 10)


def test_an_echo_is_answered(pair: EndpointPair, session: AmqpSession) -> None:
    pair.attach_sender(session, credit=4)
    window = [UInt(0), UInt(1), UInt(0), UInt(1)]
    asked = [*window, UInt(0), UInt(0), UInt(0), None, False, True]
    pair.server.receive_data(raw_frame(0, FLOW, asked), 0)
    [answer] = of_type(
        pair.client.receive_data(pair.server.data_to_send(), 0), LinkFlow
    )
    assert answer.link.credit == 4


@pytest.mark.parametrize("chunk_size", [1, 100, 65536])
def test_a_message_in_many_frames_is_one_event(chunk_size: int) -> None:
    server = Connection(Role.SERVER, "s", require_sasl=False, max_frame_size=512)
    pair = EndpointPair(server=server, chunk_size=chunk_size)
    pair.open()
    session, _ = pair.begin()
    tx, _ = pair.attach_sender(session)
    payload = bytes(range(256)) * 10
    tx.send(payload, b"tag", False, message_format=5)
    [message] = of_type(pair.pump().server, MessageReceived)
    assert (message.payload, message.message_format) == (payload, 5)
    assert (message.delivery_tag, message.settled) == (b"tag", False)


@pytest.mark.parametrize("max_frame_size", [512, 65536])
def test_an_oversize_message_is_reported_without_its_payload(
    max_frame_size: int,
) -> None:
    server = Connection(
        Role.SERVER, "s", require_sasl=False, max_frame_size=max_frame_size
    )
    pair = EndpointPair(server=server)
    pair.open()
    session, _ = pair.begin()
    tx, _ = pair.attach_sender(session, max_message_size=1000)
    tx.send(b"x" * 1001, b"big", False)
    tx.send(b"x" * 1000, b"fits", False)
    big, fits = of_type(pair.pump().server, MessageReceived)
    assert (big.oversize, big.payload, big.delivery_tag) == (True, b"", b"big")
    assert (fits.oversize, len(fits.payload)) == (False, 1000)


def test_more_may_be_tolerated_than_is_announced(
    pair: EndpointPair, session: AmqpSession
) -> None:
    tx = session.attach_sender("tx", Source(), Target(address="q"))
    rx = requested(pair)
    rx.accept(max_message_size=1000, tolerated_message_size=1010)
    rx.issue_credit(2)
    pair.pump()
    assert tx.max_message_size == 1000
    tx.send(b"x" * 1010, b"more", False)
    tx.send(b"x" * 1011, b"too much", False)
    more, too_much = of_type(pair.pump().server, MessageReceived)
    assert (more.oversize, len(more.payload)) == (False, 1010)
    assert too_much.oversize


def test_an_aborted_delivery_vanishes(pair: EndpointPair, session: AmqpSession) -> None:
    tx, _ = pair.attach_sender(session)
    more = [UInt(0), UInt(0), b"t", UInt(0), False, True]
    abort = [UInt(0), None, None, None, None, False, None, None, None, True]
    before = pair.server.held_bytes()
    pair.server.receive_data(raw_frame(0, TRANSFER, more, b"part"), 0)
    assert pair.server.held_bytes() > before
    pair.server.receive_data(raw_frame(0, TRANSFER, abort, b"part"), 0)
    tx.send(b"whole", b"t", True)
    [message] = of_type(pair.pump().server, MessageReceived)
    assert message.payload == b"whole"
    assert pair.server.held_bytes() == before


def test_a_delivery_inside_another_ends_the_session(
    pair: EndpointPair, session: AmqpSession
) -> None:
    pair.attach_sender(session)
    first, second = (
        raw_frame(0, TRANSFER, [UInt(0), UInt(n), b"t", UInt(0), False, True])
        for n in (0, 1)
    )
    [ended] = pair.server.receive_data(first + second, 0)
    assert isinstance(ended, SessionEnded)
    assert ended.error is not None
    assert ended.error.condition == "amqp:not-allowed"


def test_what_is_on_its_way_while_we_detach_is_dropped(
    pair: EndpointPair, session: AmqpSession
) -> None:
    tx, rx = pair.attach_sender(session)
    tx.send(b"late", b"t", True)
    rx.detach(AmqpError("amqp:link:detach-forced", "bye"))
    events = pair.pump()
    assert of_type(events.server, MessageReceived) == []
    [detached] = of_type(events.client, LinkDetached)
    assert detached.error == AmqpError("amqp:link:detach-forced", "bye")
    assert (tx.state, rx.state) == (LinkState.DETACHED, LinkState.DETACHED)
    assert of_type(events.server, SessionEnded) == []


@pytest.mark.parametrize("closed", [True, False])
def test_a_detach_is_answered_in_kind(
    pair: EndpointPair, session: AmqpSession, closed: bool
) -> None:
    tx, _ = pair.attach_sender(session)
    tx.detach(closed=closed)
    tx.detach()
    events = pair.pump()
    [at_server] = of_type(events.server, LinkDetached)
    [at_client] = of_type(events.client, LinkDetached)
    assert (at_server.closed, at_client.closed) == (closed, closed)
    with pytest.raises(LocalError):
        tx.send(b"m", b"t", True)


def test_a_flow_from_the_future_or_for_a_detached_link_changes_nothing(
    pair: EndpointPair, session: AmqpSession
) -> None:
    _, tx = pair.attach_receiver(session, credit=5)
    window = [UInt(0), UInt(9), UInt(0), UInt(9)]
    # A delivery count ahead of ours: the peer counts what was never sent.
    ahead = raw_frame(0, FLOW, [*window, UInt(0), UInt(7), UInt(3)])
    pair.server.receive_data(ahead, 0)
    assert tx.credit == 3
    pair.server.receive_data(raw_frame(0, FLOW, [*window, UInt(0)]), 0)
    assert tx.credit == 3
    tx.detach()
    assert pair.server.receive_data(ahead, 0) == []
    assert tx.credit == 0
    tx.drained()
    assert tx.delivery_count == 0


def test_what_a_sender_has_available_is_told(
    pair: EndpointPair, session: AmqpSession
) -> None:
    _, rx = pair.attach_sender(session)
    window = [UInt(0), UInt(9), UInt(0), UInt(9)]
    flow = [*window, UInt(0), None, None, UInt(42)]
    pair.server.receive_data(raw_frame(0, FLOW, flow), 0)
    assert rx.available == 42


def test_half_a_delivery_without_id_ends_the_session(
    pair: EndpointPair, session: AmqpSession
) -> None:
    pair.attach_sender(session)
    half = [UInt(0), None, None, None, None, True]
    [ended] = pair.server.receive_data(raw_frame(0, TRANSFER, half), 0)
    assert isinstance(ended, SessionEnded)


def test_a_held_attach_of_an_ended_session_is_not_answered(
    pair: EndpointPair, session: AmqpSession
) -> None:
    session.attach_receiver("held", Source(address="q"), Target(address="c"))
    held = requested(pair)
    session.end()
    pair.pump()
    held.accept()
    held.refuse(AmqpError("a:b"))
    assert pair.server.data_to_send() == b""
    assert held.state is LinkState.ATTACH_RCVD


def test_handles_are_used_again(pair: EndpointPair, session: AmqpSession) -> None:
    for _ in range(3):
        tx, served = pair.attach_sender(session)
        assert (tx.handle, served.handle) == (0, 0)
        tx.detach()
        pair.pump()
    assert session.links == {}
