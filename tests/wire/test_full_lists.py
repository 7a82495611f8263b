"""Every frame has all of its fields, trailing nulls included.

The SDK for Python up to 7.14 reads the fields of performatives at fixed positions and
fails with "list index out of range" if a list is shorter. `parse_frame` checks each
frame of every test of this folder; here every kind of frame occurs at least once.
"""

from collections.abc import Callable

from .codec import Uint
from .frames import (
    ACCEPTED,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FIELDS,
    FLOW,
    SASL_INIT,
    TRANSFER,
    outcome,
)
from .message import data_message
from .peer import Peer


def test_every_kind_of_frame_has_all_of_its_fields(peer: Peer, queue: str) -> None:
    receiver = peer.receiver(queue)
    peer.sender(queue).send(data_message("one"))
    [delivery] = receiver.take()
    receiver.settle(delivery.delivery_id, outcome(ACCEPTED))
    receiver.verdict_of(delivery.delivery_id)
    receiver.nothing_comes()
    receiver.detach()
    peer.send(END, [])
    peer.expect(END)
    peer.send(CLOSE, [])
    peer.expect(CLOSE)

    seen = {frame.code: len(frame.values) for frame in peer.frames}

    kinds = set(FIELDS) - {SASL_INIT}
    assert seen == {code: len(FIELDS[code].split()) for code in kinds}


def test_every_frame_of_a_long_message_has_all_of_its_fields(
    connect: Callable[..., Peer], queue: str
) -> None:
    peer = connect(max_frame_size=512)
    peer.sender(queue).send(data_message(2_000 * "x"))

    [delivery] = peer.receiver(queue).take()

    frames = [frame for frame in peer.frames if frame.code == TRANSFER]
    assert delivery.frame_count == len(frames) > 3
    assert {len(frame.values) for frame in frames} == {11}


def test_a_flow_of_the_session_alone_has_all_of_its_fields(peer: Peer) -> None:
    peer.send(FLOW, [Uint(0), Uint(10), Uint(0), Uint(10), *[None] * 5, True])

    flow = peer.expect(FLOW)

    assert flow.handle is None
    assert len(flow.values) == 11


def test_a_long_error_has_all_fields_around_it(peer: Peer, queue: str) -> None:
    """A disposition that does not fit the short form of a list."""
    receiver = peer.receiver(queue)
    sender = peer.sender(queue)
    refused = sender.post(b"\x00\x53\x75\xa1\x01x")

    _, error = sender.outcome_of(refused)

    assert error is not None
    [frame] = [frame for frame in peer.frames if frame.code == DISPOSITION]
    assert len(frame.values) == 6
    peer.send(DETACH, [Uint(receiver.handle)])
    assert len(peer.expect(DETACH).values) == 3
