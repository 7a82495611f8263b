"""SB-W-23xx: header and properties of a delivery agree on its time to live.

SDKs take absolute-expiry-time minus creation-time for the time to live, if both are
present, and otherwise the header's ttl.
"""

from collections.abc import Callable
from datetime import timedelta

from twinbus.testing import Bus

from .codec import Symbol, Timestamp, Uint
from .management import Management
from .message import Received, data_message
from .peer import Peer

DAY_MS = 86_400_000
LONG_MS = 60 * DAY_MS
LONGEST_HEADER_TTL_MS = 2**32 - 1


def told_ms(message: Received) -> int:
    properties = message.properties
    return int(properties["absolute_expiry_time"] - properties["creation_time"])


def enqueued_at(message: Received) -> int:
    return int(message.annotations[Symbol("x-opt-enqueued-time")])


def with_life(bus: Bus, ttl_ms: int, **annotations: object) -> bytes:
    """As the service's SDKs say it, by a sender whose clock is a minute slow."""
    created = bus.clock.now() - 60_000
    return data_message(
        "a",
        header={"ttl": Uint(min(ttl_ms, LONGEST_HEADER_TTL_MS))},
        annotations=annotations,
        properties={
            "creation_time": Timestamp(created),
            "absolute_expiry_time": Timestamp(created + ttl_ms),
        },
    )


def test_a_scheduled_message_has_the_time_to_live_it_was_sent_with(
    bus: Bus, peer: Peer, queue: str
) -> None:
    """SB-W-2301 from the time on when it is due."""
    due = {"x-opt-scheduled-enqueue-time": Timestamp(bus.clock.now() + 60_000)}
    peer.sender(queue).send(with_life(bus, 30_000, **due))
    [scheduled] = Management(peer, queue).peek(1, 1)
    assert told_ms(scheduled) == 30_000

    bus.advance(61)
    [delivery] = peer.receiver(queue).take()

    message = delivery.message
    assert (message.header["ttl"], told_ms(message)) == (30_000, 30_000)
    assert message.properties["creation_time"] == enqueued_at(message)


def test_a_life_that_the_entity_cuts_is_told_as_cut(
    bus: Bus, peer: Peer, make_queue: Callable[..., str]
) -> None:
    """SB-W-2302"""
    queue = make_queue(default_message_time_to_live=timedelta(seconds=20))
    peer.sender(queue).send(with_life(bus, 30_000))
    [delivery] = peer.receiver(queue).take()
    message = delivery.message
    assert (message.header["ttl"], told_ms(message)) == (20_000, 20_000)


def test_a_life_beyond_49_days_is_not_cut(bus: Bus, peer: Peer, queue: str) -> None:
    """SB-W-2303 the header cannot hold it, two times of the properties can."""
    peer.sender(queue).send(with_life(bus, LONG_MS))
    [delivery] = peer.receiver(queue).take()
    message = delivery.message
    assert told_ms(message) == LONG_MS
    assert message.header["ttl"] is None
    assert message.properties["creation_time"] == enqueued_at(message)


def test_a_long_life_by_the_entity_is_told(
    peer: Peer, make_queue: Callable[..., str]
) -> None:
    """SB-W-2304 although the sender said no time at all."""
    queue = make_queue(default_message_time_to_live=timedelta(milliseconds=LONG_MS))
    peer.sender(queue).send(data_message("a"))
    [delivery] = peer.receiver(queue).take()
    assert told_ms(delivery.message) == LONG_MS


def test_a_life_of_millennia_is_for_ever(peer: Peer, queue: str) -> None:
    """SB-W-2305"""
    peer.sender(queue).send(
        data_message(
            "a",
            properties={
                "creation_time": Timestamp(1),
                "absolute_expiry_time": Timestamp(2**62),
            },
        )
    )
    [delivery] = peer.receiver(queue).take()
    assert delivery.message.header["ttl"] is None
    assert delivery.message.properties["absolute_expiry_time"] == 2**62
