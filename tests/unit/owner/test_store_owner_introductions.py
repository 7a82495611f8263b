"""Actors of the operation log stay described when a commit fails."""

import os

import pytest

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import MAIN, Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.message import Message
from twinbus.broker.operation_record import decode_operations
from twinbus.errors import ServerBusy
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import CommitFailed
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.testing import ManualClock

GENERATION = b"generation of it"


class FailingStore(MemoryStore):
    """Fails commits while it is told to."""

    is_failing = False

    async def commit(self, changes: ChangeSet) -> None:
        if self.is_failing:
            raise CommitFailed("the test wants it")
        await super().commit(changes)


async def opened_owner(store: FailingStore) -> StoreOwner:
    owner = StoreOwner(
        store,
        ManualClock(),
        os.urandom,
        on_fatal=lambda error: None,
        after_turn=lambda: None,
        on_pressure=lambda is_high: None,
    )
    await owner.open("a test")
    owner.start()
    owner.table.admit(GENERATION, FragmentSettings(path="orders"))
    owner.table.create(GENERATION, 0, owner.changes)
    await owner.durable()
    return owner


def enqueue(owner: StoreOwner, actor: int) -> None:
    fragment: Fragment | None = owner.table.find(GENERATION, 0, MAIN)
    assert fragment is not None
    fragment.enqueue(Message(b"", 0, 0, 0), actor, owner.clock.now(), owner.changes)


async def test_actor_is_introduced_again_after_a_failed_commit() -> None:
    store = FailingStore(MemoryDisk())
    owner = await opened_owner(store)
    actor = owner.introduce("shop")
    store.is_failing = True
    enqueue(owner, actor)
    with pytest.raises(ServerBusy):
        await owner.durable()
    store.is_failing = False
    enqueue(owner, actor)
    await owner.durable()
    *_, (_, blob) = await store.operations(0, 10)
    assert decode_operations(blob).actors == {actor: "shop"}
    await owner.stop()
