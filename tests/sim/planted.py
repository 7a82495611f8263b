"""Mistakes that are planted in the brokers of a simulated cluster, one at a time.

Each is planted where its rule is, with the seed of a world that finds it, and with what
that world says. The remainder of the seed is its plot.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simulator import broker_machine
from twinbus.broker.commit_listener import Listeners
from twinbus.broker.message_lock import token_sequence
from twinbus.cluster.broker import Broker
from twinbus.cluster.membership import Membership
from twinbus.cluster.predecessor import Predecessors
from twinbus.cluster.shared_store import SharedStore
from twinbus.entities.entity_stores import EntityStores
from twinbus.errors import STORE_IS_FULL, ServiceBusError
from twinbus.operations import locks
from twinbus.outbox import outbox_arrival
from twinbus.outbox.detour_watch import DetourWatch
from twinbus.outbox.remote_stores import Receipt
from twinbus.owner import store_owner
from twinbus.owner.commit_outcome import refusal_of_commit
from twinbus.owner.lease_keeper import LeaseKeeper
from twinbus.owner.owner_state import OwnerState
from twinbus.owner.store_owner import StoreOwner
from twinbus.process.cluster_entities import ClusterEntities
from twinbus.process.cluster_outbox import ClusterOutbox
from twinbus.store import process_identity
from twinbus.store.base import LeaseLost, StoreError
from twinbus.store.lease import HeldLease
from twinbus.store.memory import MemoryStore
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.store.postgres_lease_watch import LeaseWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """Something in place of an attribute."""

    place: Any
    name: str
    mistake: Any
    # Of a world that finds it.
    seed: int
    # What it says.
    what: str
    # Of that world.
    kind: str


async def _commit_unfenced(self: MemoryStore, changes: Any) -> None:
    """Whoever commits does, in whatever epoch."""
    changes.batch = max(changes.batch, self.disk.batch + 1)
    self.disk.write(changes)


async def _wait_for_nothing(self: DetourWatch) -> None:
    """Serves a store at once, whatever others keep for it."""


async def _never_look(self: DetourWatch, *given: Any) -> None:
    """Does not find out when it has arrived."""


async def _answer_and_leave(self: StoreOwner) -> None:
    """Gives the store back before the last commit, which fails then."""
    self._answer(self.listeners, self._durable)
    self.listeners, self._durable = Listeners(), None
    await self._store.close()


_open_honestly = StoreOwner.open_again


async def _open_from_memory(self: StoreOwner) -> None:
    """Believes what it knew when it was last the owner."""
    if self.epoch == 0:
        await _open_honestly(self)
        return
    with contextlib.suppress(StoreError):
        await self._store.close()
    opened = await self._open_store(self.lease.take)
    async with self.reading:
        self.refuse_all()
        self.table.renew_epoch(opened.epoch)
        self._become(OwnerState.SERVING)


async def _believe_itself(owner: Any, store: Any, changes: Any) -> Any:
    """Two brokers accept what is sent to one store."""
    try:
        return await refusal_of_commit(owner, store, changes)
    except LeaseLost:
        return None


_locks_honestly = locks._locks


def _locks_by_number(handle: Any, tokens: Sequence[bytes], *given: Any) -> Any:
    """Takes whatever lock the message has now."""
    return _locks_honestly(handle, [_token_now(handle, one) for one in tokens], *given)


def _token_now(handle: Any, token: bytes) -> bytes:
    part = handle.part_of_token(token)
    if part is None:
        return token
    lock = part.fragment.locks.get(part.fragment.base + token_sequence(token))
    return token if lock is None else lock.token


_put_honestly = MemoryCatalog.put


async def _put_unseen(self: Any, *entities: Any, known: Any = None) -> None:
    """Of two brokers that create a queue both do."""
    await _put_honestly(self, *entities, known=None)


async def _answer_before_others_know(self: ClusterEntities) -> None:
    """Of a change of the entities."""


async def _ask_nobody(self: DetourWatch, log: Any) -> None:
    """Of the new owner of a store: believes that nothing is kept for it."""
    self._is_unknown = False


_append_honestly = ClusterOutbox.append


async def _believe_in_arrival(self: ClusterOutbox, *given: Any) -> Receipt:
    """Whoever dies or refuses, the messages count as arrived."""
    try:
        return await _append_honestly(self, *given)
    except ServiceBusError:
        *_, entries = given
        return Receipt(taken=entries, refused=[])


async def _believe_in_room(owner: Any, store: Any, changes: Any) -> Any:
    """The refusal of a full store is taken for a commit."""
    refusal = await refusal_of_commit(owner, store, changes)
    is_full = refusal is not None and STORE_IS_FULL in str(refusal)
    return None if is_full else refusal


def _mistake(
    place: Any,
    name: str,
    mistake: Callable[..., Any],
    seed: int,
    what: str,
    kind: str = "brokers",
) -> Mistake:
    return Mistake(
        place=place, name=name, mistake=mistake, seed=seed, what=what, kind=kind
    )


MISTAKES = {
    "a commit does not check the epoch": _mistake(
        *(MemoryStore, "commit", _commit_unfenced),
        *(49, "a commit of epoch"),
    ),
    "an owner serves past its term": _mistake(
        *(HeldLease, "is_expired", lambda self, at: False),
        *(36, "are delivered in epoch"),
    ),
    "an owner that wakes up delivers from memory": _mistake(
        *(LeaseKeeper, "is_over", lambda self: False),
        *(1, "are delivered in epoch"),
    ),
    "two brokers accept what is sent to one store": _mistake(
        *(store_owner, "refusal_of_commit", _believe_itself),
        *(161, "is lost|has lost deliveries|came back"),
    ),
    "a store is taken before the term is over": _mistake(
        *(LeaseWatch, "unchanged_ms", lambda self, uuid, sign: 10_000),
        *(11, "are delivered in epoch"),
    ),
    "a taker does not read the store anew": _mistake(
        *(StoreOwner, "open_again", _open_from_memory),
        *(1, "is lost|says"),
    ),
    "a store is given back before the last commit": _mistake(
        *(StoreOwner, "_leave", _answer_and_leave),
        *(15, "is lost|is there|shares are not equal"),
    ),
    "a broker is believed to be alive for ever": _mistake(
        *(Membership, "alive", lambda self: set(self._silent_ms)),
        *(2, "has no owner"),
    ),
    "a frozen process keeps its file": _mistake(
        *(Predecessors, "are_gone", lambda self, *given: True),
        *(2, "has no owner"),
    ),
    "a process of another container counts as ended": _mistake(
        *(broker_machine, "can_see", lambda here, other: here.host == other.host),
        *(6, "are delivered in epoch"),
    ),
    "a process of another machine counts as ended": _mistake(
        *(process_identity, "is_of_same_boot", lambda one, other: True),
        *(14, "are delivered in epoch"),
    ),
    "a store is migrated though an old broker runs": _mistake(
        *(Broker, "_can_all_read", lambda self, kind: True),
        *(15, "cannot read"),
    ),
    "a lock token of an old epoch is valid": _mistake(
        *(locks, "_locks", _locks_by_number),
        *(25, "by a lock of epoch"),
    ),
    "two brokers create the same queue": _mistake(
        *(MemoryCatalog, "put", _put_unseen),
        *(2, "twice|different entities|is there|a bug"),
    ),
    "a store that is taken does not wait for what was kept": _mistake(
        *(DetourWatch, "begin", _wait_for_nothing),
        *(4, "has come before"),
    ),
    "an owner waits for ever for what was kept": _mistake(
        *(DetourWatch, "_watch", _never_look),
        *(20, "takes nothing at the end"),
    ),
    "a topic does not know its newest subscription": _mistake(
        *(ClusterEntities, "follow", _answer_before_others_know),
        *(2, "has not got", "broker-topics"),
    ),
    "what is sent to a new owner overtakes what was kept": _mistake(
        *(DetourWatch, "_look", _ask_nobody),
        *(1, "out of order", "broker-full"),
    ),
    "kept messages are dropped if their store moves or is full": _mistake(
        *(ClusterOutbox, "append", _believe_in_arrival),
        *(0, "lost", "broker-full"),
    ),
    "a full store's refusal is taken for a commit": _mistake(
        *(store_owner, "refusal_of_commit", _believe_in_room),
        *(0, "lost", "broker-full"),
    ),
    "send ids of kept messages are not looked up": _mistake(
        *(outbox_arrival, "ask_for_duplicates", lambda *given: None),
        *(43, "doubled", "broker-full"),
    ),
    "an entity is created after a new owner dropped its fragments": _mistake(
        *(EntityStores, "check_made", EntityStores.durable),
        *(321, "has no owner", "broker-full"),
    ),
    "a file that could not be given back is nobody's": _mistake(
        *(SharedStore, "is_left", lambda self, *given, **named: False),
        *(48, "has no owner", "broker-full"),
    ),
}
