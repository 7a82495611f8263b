"""The outbox of a store: messages on their way to fragments of other stores.

An entry is written by the commit that takes the message out of its source, or accepts
it. Later it is appended at the target, and then removed here (`twinbus.outbox`).

Ids of entries rise for ever, over restarts and failed commits: a target remembers the
last one that it has seen. So the epoch of the store is in their upper bits.

Like a fragment's counters, these change with the open change set, and are restored from
the store if its commit fails.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from twinbus.broker.changes import ChangeSet, OutboxEntry
from twinbus.broker.fragment_address import FragmentAddress, store_of
from twinbus.errors import QuotaExceeded, ServerBusy
from twinbus.limits import OUTBOX_BYTES

if TYPE_CHECKING:
    from twinbus.broker.fragment import Fragment

# What an entry is: the first byte of its origin. Part of the stored format.
FORWARDED: Final = b"f"
TRANSFERRED: Final = b"t"
SENT: Final = b"s"
DIVERTED: Final = b"d"

_FULL_MS: Final = 5_000
"""So long nothing is sent to a fragment of another broker that was full. What is sent
next finds out whether it still is."""

_EPOCH_SHIFT: Final = 39
_PLACE_BYTES: Final = 3
"""Index and sub-queue, at the end of an origin; kind and generation come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxTotal:
    """What an outbox holds for one target, from one origin."""

    target: str
    origin: bytes
    entry_count: int
    size_bytes: int


@final
class OutboxSource:
    """The fragment that an entry came from."""

    def __init__(self, generation: bytes, index: int, sub_queue: int) -> None:
        self.generation: bytes = generation
        self.index: int = index
        self.sub_queue: int = sub_queue


def origin_of(kind: bytes, source: "Fragment") -> bytes:
    """The origin of an entry that leaves this fragment."""
    place = source.index.to_bytes(2, "big") + bytes([source.sub_queue])
    return kind + source.generation + place


def source_of(origin: bytes) -> OutboxSource:
    """The fragment that a forwarded or transferred entry came from."""
    index = int.from_bytes(origin[-_PLACE_BYTES:-1], "big")
    return OutboxSource(origin[1:-_PLACE_BYTES], index, origin[-1])


@final
class StoreOutbox:
    """What one store has to hand over."""

    def __init__(self) -> None:
        self._last_id: int = 0
        # Entries of each lane: by the UUID of the target's store.
        self._lanes: dict[bytes, int] = {}
        # By the generation of the entity that they came from.
        self._from: dict[bytes, int] = {}
        # Diverted entries and their bytes, by target.
        self._diverted: dict[str, int] = {}
        self._diverted_bytes: dict[str, int] = {}
        self.size_bytes: int = 0
        # Until then a target of another broker counts as full.
        self._full_until: dict[str, int] = {}

    def begin(self, epoch: int) -> None:
        """The store was opened with this epoch."""
        self._last_id = epoch << _EPOCH_SHIFT

    def restore(self, totals: list[OutboxTotal]) -> None:
        """Count what the store has, and nothing else."""
        self._lanes = {}
        self._from = {}
        self._diverted = {}
        self._diverted_bytes = {}
        self.size_bytes = 0
        for total in totals:
            self._count(total.target, total.origin, total.entry_count, total.size_bytes)

    def _count(self, target: str, origin: bytes, count: int, size_bytes: int) -> None:
        _add(self._lanes, store_of(target), count)
        self.size_bytes += size_bytes
        if origin == DIVERTED:
            diverted, diverted_bytes = self._diverted, self._diverted_bytes
            diverted[target] = diverted.get(target, 0) + count
            diverted_bytes[target] = diverted_bytes.get(target, 0) + size_bytes
            if diverted[target] == 0:
                del diverted[target], diverted_bytes[target]
        elif origin != SENT:
            _add(self._from, origin[1:-_PLACE_BYTES], count)

    # --- entries --------------------------------------------------------------

    def add(
        self,
        target: FragmentAddress,
        envelope: bytes,
        origin: bytes,
        changes: ChangeSet,
    ) -> None:
        """Hand a message over after the commit."""
        self._last_id += 1
        changes.outbox_added.append(
            OutboxEntry(
                entry_id=self._last_id,
                target=target.text,
                raw=envelope,
                origin=origin,
            )
        )
        changes.pending_bytes += len(envelope)
        self._count(target.text, origin, 1, len(envelope))

    def remove(self, entry: OutboxEntry, changes: ChangeSet) -> None:
        """The target has it, or it stays here as a dead letter."""
        changes.outbox_removed.append(entry.entry_id)
        self._count(entry.target, entry.origin, -1, -len(entry.raw))

    # --- what it holds --------------------------------------------------------

    def lanes(self) -> list[bytes]:
        """UUIDs of the stores for which something waits."""
        return list(self._lanes)

    def count_for(self, store_uuid: bytes) -> int:
        """How many entries wait for that store."""
        return self._lanes.get(store_uuid, 0)

    def transfer_count(self, generation: bytes) -> int:
        """How many messages of this entity are on their way to another."""
        return self._from.get(generation, 0)

    def diverted(self) -> list[str]:
        """Targets for which diverted messages wait."""
        return list(self._diverted)

    def diverted_count(self, target: str) -> int:
        return self._diverted.get(target, 0)

    def is_full(self) -> bool:
        return self.size_bytes >= OUTBOX_BYTES

    def check_room(self, size_bytes: int, entity_path: str) -> None:
        """Raises ServerBusy."""
        if self.size_bytes + size_bytes > OUTBOX_BYTES:
            raise ServerBusy.outbox_full(
                "all stores that are away", OUTBOX_BYTES, entity_path
            )

    def note_full(self, target: str, now: int) -> None:
        """The broker that has the target says that it has no room left."""
        for known, until in list(self._full_until.items()):
            if until <= now:
                del self._full_until[known]
        self._full_until[target] = now + _FULL_MS

    def check_target(self, target: str, now: int, entity_path: str) -> None:
        """Whether a transaction may send to a fragment of another broker. Raises
        QuotaExceeded."""
        if now < self._full_until.get(target, 0):
            raise QuotaExceeded(entity_path=entity_path)

    def check_diverted(
        self, target: str, size_bytes: int, limit_bytes: int, entity_path: str
    ) -> None:
        """Whether so many bytes more can wait for that fragment. Raises ServerBusy."""
        self.check_room(size_bytes, entity_path)
        if self._diverted_bytes.get(target, 0) + size_bytes > limit_bytes:
            raise ServerBusy.outbox_full("the entity", limit_bytes, entity_path)


def _add(counts: dict[bytes, int], key: bytes, count: int) -> None:
    counts[key] = counts.get(key, 0) + count
    if counts[key] == 0:
        del counts[key]
