"""Which connection is closed if all of them together hold too much memory."""

from twinbus.doors.memory_share import MemoryShare
from twinbus.errors import QuotaExceeded, ServiceBusError
from twinbus.testing.clock import ManualClock


class Peer:
    def __init__(self, share: MemoryShare) -> None:
        self._share = share
        self.told: list[ServiceBusError] = []

    def hold(self, size: int) -> "Peer":
        self._share.hold(self, size)
        return self

    def cut(self, error: ServiceBusError) -> None:
        self.told.append(error)
        self._share.hold(self, 0)


def share_of(limit: int, spared: int = 0) -> MemoryShare:
    return MemoryShare("of clients", limit, spared, ManualClock())


def test_what_was_given_back_does_not_count() -> None:
    share = share_of(80)
    peer = Peer(share)
    for _ in range(10):
        peer.hold(80).hold(0)
    assert share.held == 0
    assert not peer.told


def test_the_largest_goes_first_and_those_with_little_stay() -> None:
    share = share_of(80)
    peers = [Peer(share).hold(size) for size in (10, 40, 5, 20)]
    assert not any(peer.told for peer in peers)
    late = Peer(share).hold(6)
    assert [len(peer.told) for peer in peers] == [0, 1, 0, 0]
    assert not late.told
    assert share.held == 41
    (error,) = peers[1].told
    assert isinstance(error, QuotaExceeded)
    assert "81 bytes" in error.text and "limit is 80" in error.text
    assert "40 bytes" in error.text


def test_of_equals_the_one_goes_that_has_held_it_for_longest() -> None:
    share = share_of(80)
    first, second, third = (Peer(share).hold(30) for _ in range(3))
    assert first.told and not second.told and not third.told


def test_nobody_goes_for_next_to_nothing() -> None:
    share = share_of(80, spared=10)
    peers = [Peer(share).hold(10) for _ in range(20)]
    assert not any(peer.told for peer in peers)
    greedy = Peer(share).hold(11)
    assert greedy.told
    assert not any(peer.told for peer in peers)


def test_who_gives_something_back_makes_nobody_go() -> None:
    share = share_of(80, spared=50)
    peers = [Peer(share).hold(50) for _ in range(3)]
    peers[0].hold(45)
    assert not any(peer.told for peer in peers)
