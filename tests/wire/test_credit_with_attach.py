"""SB-W-21xx: frames that arrive together with the attach, before it is answered.

Proton's clients send the flow right after the attach and never repeat it, so it must
take effect as soon as the link is attached.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .codec import Described, Symbol, Ubyte, Uint, Ulong
from .frames import FLOW, RECEIVER, SENDER, terminus
from .message import data_message
from .peer import Peer, ReceiverLink

SESSION_FILTER = Symbol("com.microsoft:session-filter")


def ask(peer: Peer, source: Any, **flow: Any) -> tuple[str, int]:
    """Attach a receiver, and say a flow in the same write."""
    with peer.together():
        name, handle = peer.send_attach(
            RECEIVER,
            snd_settle_mode=Ubyte(0),
            rcv_settle_mode=Ubyte(1),
            source=source,
            target=terminus(0x29, "here"),
        )
        say_flow(peer, handle, **flow)
    return name, handle


def say_flow(
    peer: Peer,
    handle: int,
    *,
    credit: int,
    count: int | None = None,
    drain: bool = False,
    echo: bool = False,
) -> None:
    """A flow of a link; without a count, as before its attach was answered."""
    said = None if count is None else Uint(count)
    window = [None, Uint(1_000_000), Uint(peer.next_outgoing_id), Uint(1_000_000)]
    peer.send(FLOW, [*window, Uint(handle), said, Uint(credit), None, drain, echo])


def attached(peer: Peer, asked: tuple[str, int]) -> ReceiverLink:
    return ReceiverLink(peer, *peer.answer_to(*asked))


def test_messages_come_for_credit_that_came_with_the_attach(
    peer: Peer, queue: str
) -> None:
    """SB-W-2101"""
    sender = peer.sender(queue)
    sender.send(data_message("one"))

    receiver = attached(peer, ask(peer, terminus(0x28, queue), credit=10))

    assert receiver.next().message.text == "one"
    sender.send(data_message("two"))
    assert receiver.next().message.text == "two"


def test_a_drain_that_came_with_the_attach_is_answered(peer: Peer, queue: str) -> None:
    """SB-W-2102 with what there is, and then with the flow that ends it."""
    peer.sender(queue).send(data_message("one"))

    receiver = attached(peer, ask(peer, terminus(0x28, queue), credit=10, drain=True))

    assert receiver.next().message.text == "one"
    assert receiver.drained().delivery_count == 10


def test_a_flow_that_came_with_the_attach_is_echoed(peer: Peer, queue: str) -> None:
    """SB-W-2103 behind the attach, for the peer knows no handle before."""
    receiver = attached(peer, ask(peer, terminus(0x28, queue), credit=7, echo=True))

    flow = peer.expect(FLOW, lambda frame: frame.handle == receiver.remote_handle)

    assert (flow.delivery_count, flow.link_credit) == (0, 7)


def test_a_held_attach_is_served_when_its_session_is_free(
    peer: Peer, connect: Callable[..., Peer], make_queue: Callable[..., str]
) -> None:
    """SB-W-2104 credit, drain and echo wait with it."""
    queue = make_queue(requires_session=True, lock_duration=timedelta(seconds=60))
    source = Described(Ulong(0x28), [queue, *[None] * 6, {SESSION_FILTER: None}])
    other = connect()
    asked = ask(other, source, credit=3, drain=True, echo=True)

    peer.sender(queue).send(data_message("one", properties={"group_id": "a"}))

    receiver = attached(other, asked)
    assert receiver.next().message.text == "one"
    assert receiver.drained().delivery_count == 3


def test_a_drain_of_answers_that_came_with_the_attach_is_answered(
    peer: Peer, queue: str
) -> None:
    """SB-W-2105 nodes have no answers for it yet, and say so."""
    source = terminus(0x28, f"{queue}/$management")

    responses = attached(peer, ask(peer, source, credit=5, drain=True))

    assert responses.drained().delivery_count == 5


def test_a_sender_counts_from_its_own_first_delivery(peer: Peer, queue: str) -> None:
    """SB-W-2106 credit is granted from the initial delivery count on (2.6.7)."""
    with peer.together():
        asked = peer.send_attach(
            SENDER,
            source=terminus(0x28, "here"),
            target=terminus(0x29, queue),
            initial_delivery_count=Uint(5),
        )
        say_flow(peer, asked[1], credit=0, count=5, echo=True)

    answer, _ = peer.answer_to(*asked)

    for _ in range(2):
        flow = peer.expect(FLOW, lambda frame: frame.handle == answer.handle)
        assert flow.delivery_count == 5
    assert flow.link_credit > 0
