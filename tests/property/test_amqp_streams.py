"""Any split of the input gives the same events.

Also a whole conversation of client and server over the fake wire, for any chunk size,
frame size and window.
"""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.amqp.endpoints import EndpointPair, feed, of_type

from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import (
    ConnectionClosed,
    DispositionReceived,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    MessageReceived,
    SaslInitReceived,
    SessionEnded,
)
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.outcomes import ACCEPTED, ACCEPTED_OUTCOME
from twinbus.amqp.sasl import anonymous


def describe(event: Event) -> tuple[object, ...]:
    """What can be compared between two connections that saw the same bytes."""
    if isinstance(event, MessageReceived):
        ids = (event.link.name, event.delivery_id, event.delivery_tag)
        flags = (event.oversize, event.settled, event.state)
        return "message", ids, flags, event.payload
    if isinstance(event, DispositionReceived):
        return "disposition", event.first, event.last, event.settled, event.state
    if isinstance(event, LinkAttached | LinkFlow | LinkDetached):
        return type(event).__name__, event.link.name, event.link.credit
    if isinstance(event, SessionEnded | ConnectionClosed):
        return type(event).__name__, event.error
    if isinstance(event, SaslInitReceived):
        return "sasl", event.mechanism, event.initial_response
    return (type(event).__name__,)


def serve(cuts: set[int]) -> tuple[list[tuple[object, ...]], bytes]:
    """What a server makes of the recording, cut at these places too."""
    server = Connection(Role.SERVER, "s", max_frame_size=1024)
    seen: list[tuple[object, ...]] = []
    answer = b""
    for start, end in pairwise(sorted({0, *cuts, *TURNS})):
        for event in feed(server, RECORDED[start:end]):
            seen.append(describe(event))
            if isinstance(event, LinkAttached):
                event.link.accept(max_message_size=5000)
                event.link.issue_credit(10)
        answer += server.data_to_send()
    return seen, answer


def recorded_client() -> tuple[bytes, list[int]]:
    """All that a client writes in a conversation with everything in it, and the
    places where it waited for the server."""
    client = Connection(Role.CLIENT, "c", sasl=anonymous(), hostname="h")
    server = Connection(Role.SERVER, "s", max_frame_size=1024)
    written = b""
    turns: list[int] = []

    def exchange() -> None:
        nonlocal written
        while True:
            to_server, to_client = client.data_to_send(), server.data_to_send()
            if not to_server and not to_client:
                return
            written += to_server
            turns.append(len(written))
            for event in feed(server, to_server):
                if isinstance(event, LinkAttached):
                    event.link.accept(max_message_size=5000)
                    event.link.issue_credit(10)
            client.receive_data(to_client, 0)

    client.open()
    session = client.begin()
    tx = session.attach_sender("tx", Source(address="c"), Target(address="q"))
    rx = session.attach_receiver("rx", Source(address="q"), Target(address="c"))
    exchange()
    rx.issue_credit(5)
    for number, size in enumerate((0, 10, 3000, 6000, 1)):
        tx.send(bytes(size), b"tag%d" % number, number % 2 == 0, state=ACCEPTED)
    session.send_disposition(True, 0, 3, True, ACCEPTED)
    exchange()
    tx.detach(AmqpError("a:b", "c"))
    exchange()
    session.end()
    client.close()
    exchange()
    return written, turns


RECORDED, TURNS = recorded_client()
WHOLE = serve(set())


def test_the_recording_has_everything_in_it() -> None:
    kinds = {event[0] for event in WHOLE[0]}
    assert kinds >= {
        *("sasl", "ConnectionOpened", "SessionBegun", "LinkAttached", "LinkFlow"),
        *("message", "disposition", "LinkDetached", "SessionEnded", "ConnectionClosed"),
    }


@given(st.sets(st.integers(0, len(RECORDED))))
def test_any_split_gives_the_same_events_and_answers(cuts: set[int]) -> None:
    assert serve(cuts) == WHOLE


def test_single_bytes_give_the_same_events_and_answers() -> None:
    assert serve(set(range(len(RECORDED)))) == WHOLE


@settings(max_examples=50)
@given(
    chunk_size=st.sampled_from([1, 2, 7, 100, 65536]),
    max_frame_size=st.integers(512, 2000),
    window=st.integers(1, 20),
    sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=12),
    settled=st.booleans(),
)
def test_client_and_server_understand_each_other(
    chunk_size: int, max_frame_size: int, window: int, sizes: list[int], settled: bool
) -> None:
    client = Connection(
        Role.CLIENT, "c", incoming_window=window, max_frame_size=max_frame_size
    )
    server = Connection(
        Role.SERVER,
        "s",
        require_sasl=False,
        incoming_window=window,
        max_frame_size=max_frame_size,
    )
    pair = EndpointPair(client=client, server=server, chunk_size=chunk_size)
    pair.open()
    session, served = pair.begin()
    tx, bus_rx = pair.attach_sender(session)
    rx, bus_tx = pair.attach_receiver(session, credit=0)

    # Messages to the server, in frames and windows of any size.
    payloads = [bytes((number,)) * size for number, size in enumerate(sizes)]
    for number, payload in enumerate(payloads):
        tx.send(payload, b"%d" % number, settled, context=number)
    received = of_type(pair.pump().server, MessageReceived)
    assert [message.payload for message in received] == payloads
    assert bus_rx.credit == 100 - len(sizes)
    served.send_disposition(True, 0, len(sizes) - 1, True, ACCEPTED)
    [disposition] = of_type(pair.pump().client, DispositionReceived)
    assert disposition.state is ACCEPTED_OUTCOME
    popped = session.pop_unsettled(disposition.first, disposition.last)
    expected = [] if settled else list(range(len(sizes)))
    assert [number for number, _ in popped] == expected

    # Messages from the server, the rest of the credit drained.
    rx.issue_credit(len(sizes) + 3, drain=True)
    pair.pump()
    assert bus_tx.drain
    for payload in payloads:
        bus_tx.send(payload, b"t", True)
    bus_tx.drained()
    events = pair.pump()
    assert [m.payload for m in of_type(events.client, MessageReceived)] == payloads

    # Everything is taken down again, and nothing is kept.
    rx.detach()
    assert len(of_type(pair.pump().server, LinkDetached)) == 1
    session.end()
    assert len(of_type(pair.pump().server, SessionEnded)) == 1
    client.close()
    pair.pump()
    assert client.closed
    assert server.closed
