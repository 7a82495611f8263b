"""A store that is taken waits for the messages that another broker keeps for it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from twinbus.broker.home import ALL_FRAGMENTS
from twinbus.errors import FragmentUnavailable, ServerBusy
from twinbus.outbox.detour_watch import DetourWatch
from twinbus.outbox.outbox_carrier import OutboxCarrier
from twinbus.outbox.transfer_log import TransferLog
from twinbus.owner.store_owner import StoreOwner

from .world import World, message


class Shared(TransferLog):
    """The first store is taken here, and the second one is with another broker."""

    def __init__(self, world: World) -> None:
        super().__init__(world.owners, world.clock)
        self._is_shared = True
        self.elsewhere = self
        self.kept: list[str] | None = None
        self.has_been_served = True

    def was_served(self, home: object) -> bool:
        return self.has_been_served

    def log_of(self, home: object) -> StoreOwner | None:
        first, second = self._owners
        return second if home is first else first

    def serves(self, store_uuid: bytes) -> bool:
        return False

    async def diverted(self, log_uuid: bytes, store_uuid: bytes) -> list[str]:
        if self.kept is None:
            raise ServerBusy("nobody serves it")
        return self.kept


class Taking:
    """The watch of the first store."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = Shared(world)
        self.store, self.other = world.owners
        self.watch = DetourWatch(self.store, self.log)

    async def until_free(self) -> None:
        async with asyncio.timeout(10):
            while self.store.awaited:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)


@pytest.fixture
async def taking(world: World) -> AsyncIterator[Taking]:
    made = Taking(world)
    await world.leave(made.other)
    yield made
    await made.watch.stop()


async def test_fragments_wait_until_their_messages_are_there(taking: Taking) -> None:
    queue = next(
        one
        for one in (taking.world.here, taking.world.there)
        if one.fragment().home is taking.store
    )
    fragment = queue.fragment()
    taking.log.kept = [fragment.address().text]
    await taking.watch.begin()
    assert not fragment.is_reachable()
    taking.log.kept = []
    await taking.until_free()
    assert fragment.is_reachable()


async def test_nothing_kept_is_nothing_to_wait_for(taking: Taking) -> None:
    taking.log.kept = []
    await taking.watch.begin()
    assert not taking.store.awaited


async def test_all_wait_while_nobody_can_say(taking: Taking) -> None:
    await taking.watch.begin()
    assert list(taking.store.awaited) == [ALL_FRAGMENTS]
    taking.log.kept = []
    await taking.until_free()


async def test_brokers_that_are_started_do_not_wait_for_each_other(
    taking: Taking,
) -> None:
    """But what is found out later is waited for."""
    taking.log.has_been_served = False
    await taking.watch.begin()
    assert not taking.store.awaited
    address = taking.world.here.fragment().address()
    taking.log.kept = [address.text]
    async with asyncio.timeout(10):
        while not taking.store.awaited:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    taking.log.kept = []
    await taking.until_free()


async def test_order_is_given_up_after_a_while(taking: Taking) -> None:
    await taking.watch.begin()
    taking.world.clock.advance(60_000)
    await taking.until_free()


async def test_messages_are_not_kept_for_a_store_that_is_being_opened(
    taking: Taking,
) -> None:
    log, home = taking.log, taking.other
    address = taking.world.here.fragment().address()
    assert log.kept_for(taking.store.store_uuid, home.store_uuid) == []
    with pytest.raises(FragmentUnavailable):
        log.send(
            *(address, home, []),
            entity_path="q",
            limit_bytes=1,
            listener=None,
            item=0,
        )


async def test_nothing_is_kept_while_all_brokers_may_be_starting(world: World) -> None:
    """Another one may serve the store already, and has asked nobody."""
    log, store = Shared(world), world.first
    await world.leave(store)
    address = world.here.fragment().address()
    given = {"entity_path": "q", "limit_bytes": 1_000, "listener": None, "item": 0}
    log.tick(world.clock.now())
    with pytest.raises(FragmentUnavailable):
        log.send(address, store, [message()], **given)
    world.clock.advance(10_000)
    log.tick(world.clock.now())
    log.send(address, store, [message()], **given)
    assert world.second.outbox.diverted() == [address.text]


async def test_messages_whose_store_moves_while_they_arrive_are_waited_for(
    world: World,
) -> None:
    """Both stores were here: what keeps the messages goes to another broker."""
    log, (store, other) = Shared(world), world.owners
    log.open()
    assert isinstance(store.carrier, OutboxCarrier)
    queues = world.here, world.there
    fragment = next(one.fragment() for one in queues if one.fragment().home is store)
    store.awaited[fragment.generation, fragment.index] = other
    log.kept = [fragment.address().text]
    await world.leave(other)
    log.tick(world.clock.now())
    await asyncio.sleep(0)
    assert not fragment.is_reachable()
    # The other broker has brought them.
    log.kept = []
    async with asyncio.timeout(2):
        while store.awaited:
            await asyncio.sleep(0.01)
            log.tick(world.clock.now())
    assert fragment.is_reachable()
    await store.carrier.watch.stop()
