"""Brokers that come and go share all stores equally, and then nothing moves.

Each broker decides by what it saw in an earlier round, as real ones do: announcements
are up to a second old, and not equally old for all. Leases decide if two want the same
store.
"""

from hypothesis import given
from hypothesis import strategies as st

from twinbus.cluster.assignment import Candidate, decide

UUIDS = [bytes([number]) * 16 for number in range(8)]
STORES = [bytes([number]) * 16 for number in range(100, 112)]

ROUNDS_TO_SETTLE = 6
"""Seen by the last announcement, given back, seen again, taken; twice that for views
that are old."""


class Cluster:
    """Brokers, what they own, and what each of them knows."""

    def __init__(self, stores: list[bytes]) -> None:
        self.stores = stores
        # The leases: store to broker.
        self.leases: dict[bytes, bytes] = {}
        self.alive: set[bytes] = set()
        # What was announced last, and what each broker sees of it.
        self.announced: dict[bytes, frozenset[bytes]] = {}
        self.views: dict[bytes, dict[bytes, frozenset[bytes]]] = {}
        self.move_count = 0

    def become(self, alive: set[bytes]) -> None:
        for gone in self.alive - alive:
            self.views.pop(gone, None)
            self.announced.pop(gone, None)
            self.leases = {s: b for s, b in self.leases.items() if b != gone}
        self.alive = set(alive)

    def round(self, late: set[bytes]) -> None:
        """Everybody looks, decides and announces; who is late has an old view."""
        for uuid in sorted(self.alive):
            if uuid not in late or uuid not in self.views:
                self.views[uuid] = dict(self.announced)
            self._act(uuid)
        for uuid in self.alive:
            self.announced[uuid] = self._owned(uuid)

    def _owned(self, uuid: bytes) -> frozenset[bytes]:
        return frozenset(s for s, owner in self.leases.items() if owner == uuid)

    def _act(self, uuid: bytes) -> None:
        seen = {
            other: stores - self._owned(uuid)
            for other, stores in self.views[uuid].items()
            if other in self.alive
        }
        seen[uuid] = self._owned(uuid)
        brokers, taken = [], set[bytes]()
        for other in sorted(seen):
            brokers.append(
                Candidate(
                    broker_uuid=other,
                    owned=seen[other] - taken,
                    reach=frozenset(self.stores),
                )
            )
            taken |= seen[other]
        decision = decide(uuid, self.stores, brokers)
        for store in decision.give_back:
            del self.leases[store]
            self.move_count += 1
        for store in decision.take:
            if self.leases.setdefault(store, uuid) == uuid:
                self.move_count += 1

    def is_fair(self) -> bool:
        counts = [len(self._owned(uuid)) for uuid in self.alive]
        return not counts or max(counts) - min(counts) <= 1


some_brokers = st.sets(st.sampled_from(UUIDS), min_size=1)


@given(
    stores=st.sets(st.sampled_from(STORES), min_size=1),
    lives=st.lists(
        st.tuples(some_brokers, st.integers(0, 3), st.sets(st.sampled_from(UUIDS))),
        min_size=1,
        max_size=6,
    ),
)
def test_whoever_comes_and_goes_all_stores_are_owned_in_equal_shares(
    stores: set[bytes], lives: list[tuple[set[bytes], int, set[bytes]]]
) -> None:
    cluster = Cluster(sorted(stores))
    for alive, rounds, late in lives:
        cluster.become(alive)
        for _ in range(rounds):
            cluster.round(late)
    for _ in range(ROUNDS_TO_SETTLE):
        cluster.round(set())
    assert cluster.leases.keys() == stores, "all stores are owned"
    assert cluster.is_fair()
    moved = cluster.move_count
    for _ in range(3):
        cluster.round(set())
    assert cluster.move_count == moved, "nothing moves any more"


@given(
    count=st.integers(1, len(STORES)),
    before=some_brokers,
    after=some_brokers,
)
def test_no_store_moves_without_need(
    count: int, before: set[bytes], after: set[bytes]
) -> None:
    """A broker that stays gives back at most what is above the larger share."""
    stores = STORES[:count]
    cluster = Cluster(stores)
    cluster.become(before)
    for _ in range(ROUNDS_TO_SETTLE):
        cluster.round(set())
    owned = {uuid: cluster._owned(uuid) for uuid in before & after}
    cluster.become(after)
    # They say that they are there before anybody decides.
    cluster.announced |= {uuid: frozenset() for uuid in after - before}
    for _ in range(ROUNDS_TO_SETTLE):
        cluster.round(set())
    share = count // len(after)
    for uuid, had in owned.items():
        kept = had & cluster._owned(uuid)
        assert len(kept) >= min(len(had), share), "it keeps its share"
