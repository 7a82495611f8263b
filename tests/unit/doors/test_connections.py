"""Which connection is closed for a new one, and which new ones are refused."""

import asyncio
from typing import Any

from twinbus.doors.connections import Connections
from twinbus.errors import ConnectionForced, ServiceBusError
from twinbus.limits import STRANGER_GRACE_SECONDS, STRANGERS_MIN, STRANGERS_PART

GRACE_MS = STRANGER_GRACE_SECONDS * 1000


class Peer:
    """A connection that notes its end."""

    def __init__(self) -> None:
        self.requests: set[asyncio.Task[None]] = set()
        self.told: list[ServiceBusError] = []

    def tick(self, now: int, monotonic: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self, error: ServiceBusError | None, monotonic: int) -> None: ...

    def cut(self, error: ServiceBusError) -> None:
        self.told.append(error)

    def abort(self) -> None: ...


def filled(limit: int, count: int) -> tuple[Connections, list[Peer]]:
    connections, peers = Connections(limit), [Peer() for _ in range(count)]
    for at, peer in enumerate(peers):
        assert connections.make_room(at)
        connections.add(peer, at)
    return connections, peers


def test_where_all_have_a_key_a_newcomer_is_refused() -> None:
    connections, peers = filled(3, 3)
    for peer in peers:
        connections.recognize(peer)
    assert not connections.make_room(GRACE_MS * 10)
    assert not any(peer.told for peer in peers)
    connections.remove(peers[0])
    assert connections.make_room(GRACE_MS * 10)


def test_the_stranger_that_came_first_makes_room() -> None:
    connections, peers = filled(3, 3)
    connections.recognize(peers[0])
    assert connections.make_room(3)
    assert [len(peer.told) for peer in peers] == [0, 1, 0]
    (error,) = peers[1].told
    assert isinstance(error, ConnectionForced)
    assert "3 connections" in error.text
    assert len(connections) == 2


def test_one_that_waits_for_an_answer_is_the_last_to_go() -> None:
    connections, peers = filled(2, 2)
    waiting: Any = object()
    peers[0].requests.add(waiting)
    assert connections.make_room(3)
    connections.add(Peer(), 3)
    assert [len(peer.told) for peer in peers] == [0, 1]


def test_strangers_beyond_their_share_go_when_they_had_their_time() -> None:
    limit = STRANGERS_MIN * STRANGERS_PART * 2
    share = limit // STRANGERS_PART
    connections, peers = filled(limit, share + 10)
    # All of them are new: after a restart every client is.
    assert connections.make_room(GRACE_MS)
    assert not any(peer.told for peer in peers)
    assert connections.make_room(GRACE_MS + 1)
    assert [len(peer.told) for peer in peers[:2]] == [1, 0]
    for peer in peers[1:20]:
        connections.recognize(peer)
    # Within the share nobody has to go, however old.
    assert connections.make_room(GRACE_MS * 100)
    assert sum(len(peer.told) for peer in peers) == 1
