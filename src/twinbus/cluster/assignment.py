"""Which broker should own which store.

Every broker computes this for itself, from what it knows of the stores and of the
brokers that are alive. The rules:

- A store stays where it is, unless its owner has at least two more than another broker
  that can reach it.
- A store without an owner goes to the broker with the fewest.

So shares differ by one at most, and nothing moves when nothing changes. Brokers that
know the same compute the same. If they do not, the lease of the store decides.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import final


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A broker that is alive."""

    broker_uuid: bytes
    # Those that it owns or is about to own.
    owned: frozenset[bytes]
    # Those that it could own.
    reach: frozenset[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one broker does about it."""

    take: frozenset[bytes]
    give_back: frozenset[bytes]


def decide(
    me: bytes, stores: Iterable[bytes], brokers: Sequence[Candidate]
) -> Decision:
    """What the broker `me` takes and gives back. `brokers` has at most one owner for
    each store."""
    before = {store: one.broker_uuid for one in brokers for store in one.owned}
    after = assign(stores, brokers)
    return Decision(
        take=frozenset(
            store
            for store, owner in after.items()
            if owner == me and store not in before
        ),
        give_back=frozenset(
            store
            for store, owner in after.items()
            if owner != me and before.get(store) == me
        ),
    )


def is_final(stores: Iterable[bytes], brokers: Sequence[Candidate]) -> bool:
    """Nothing is to be taken or given back by anybody."""
    before = {store: one.broker_uuid for one in brokers for store in one.owned}
    after = assign(stores, brokers)
    return all(before.get(store) == owner for store, owner in after.items())


def assign(stores: Iterable[bytes], brokers: Sequence[Candidate]) -> dict[bytes, bytes]:
    """The broker that should own each store; a store that none can reach is left
    out."""
    shares = _Shares(brokers)
    known = sorted(stores)
    free = [store for store in known if not shares.has(store)]
    # Those that few can reach come first: the others go around them.
    for store in sorted(free, key=shares.reach_count):
        shares.give(store)
    shares.level()
    return {store: owner for store in known if (owner := shares.owner_of(store))}


@final
class _Shares:
    """The stores of each broker while they are being assigned."""

    def __init__(self, brokers: Sequence[Candidate]) -> None:
        self._brokers: list[Candidate] = sorted(brokers, key=lambda b: b.broker_uuid)
        self._of: dict[bytes, set[bytes]] = {
            broker.broker_uuid: set(broker.owned) for broker in self._brokers
        }

    def has(self, store: bytes) -> bool:
        return self.owner_of(store) is not None

    def owner_of(self, store: bytes) -> bytes | None:
        for broker_uuid, owned in self._of.items():
            if store in owned:
                return broker_uuid
        return None

    def reach_count(self, store: bytes) -> int:
        return sum(store in broker.reach for broker in self._brokers)

    def give(self, store: bytes) -> None:
        """To the broker with the fewest."""
        able = [one for one in self._brokers if store in one.reach]
        if able:
            self._of[min(able, key=self._count).broker_uuid].add(store)

    def level(self) -> None:
        """Move single stores until no share is larger by two. Each move makes the
        shares more equal, so this ends."""
        while (move := self._next_move()) is not None:
            store, giver, taker = move
            self._of[giver.broker_uuid].remove(store)
            self._of[taker.broker_uuid].add(store)

    def _next_move(self) -> tuple[bytes, Candidate, Candidate] | None:
        by_count = sorted(self._brokers, key=self._count)
        for giver in reversed(by_count):
            for taker in by_count:
                if self._count(giver) < self._count(taker) + 2:
                    break
                movable = self._of[giver.broker_uuid] & taker.reach
                if movable:
                    return self._last_of(giver, movable), giver, taker
        return None

    def _last_of(self, giver: Candidate, movable: Collection[bytes]) -> bytes:
        """What it does not own yet rather than what it has to give back."""
        return max(movable, key=lambda store: (store not in giver.owned, store))

    def _count(self, broker: Candidate) -> int:
        return len(self._of[broker.broker_uuid])
