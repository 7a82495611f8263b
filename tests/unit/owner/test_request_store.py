"""A request that reads a store which is away is told so, with the entity's name."""

from collections.abc import AsyncIterator

import pytest
from unit.entities.world import NOW, FaultyStore, World, message

from twinbus.broker.fragment import Fragment
from twinbus.errors import STORE_TROUBLE, ServerBusy
from twinbus.owner.owner_state import OwnerState
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import StoreError, StoreUnreadable


@pytest.fixture
async def beside() -> AsyncIterator[World]:
    """A world whose process serves a second store."""
    world = World()
    other = StoreOwner(
        FaultyStore(),
        world.clock,
        world.entropy,
        on_fatal=world.fatal.append,
        after_turn=lambda: None,
        on_pressure=lambda is_high: None,
    )
    Owners([world.owner, other])
    await world.start()
    yield world
    await world.stop()


@pytest.fixture
async def queue(beside: World) -> Fragment:
    fragment = (await beside.namespace.create_queue("orders", {})).fragment()
    fragment.enqueue(message(), 1, NOW, beside.owner.changes)
    await beside.owner.durable()
    return fragment


async def test_requests_read_while_the_store_is_there(
    beside: World, queue: Fragment
) -> None:
    store = beside.owner.store
    assert len(await store.browse(queue.number, 0, 5, 1_000)) == 1
    assert await store.session_state(queue.number, "s") is None
    assert store.location == "the store in memory"


@pytest.mark.parametrize("error", [StoreError("no answer"), StoreUnreadable("damage")])
async def test_an_error_of_the_store_becomes_server_busy(
    beside: World, queue: Fragment, error: StoreError
) -> None:
    beside.store.errors["browse"] = error
    with pytest.raises(ServerBusy, match="store of 'orders' is away") as refusal:
        await beside.owner.store.browse(queue.number, 0, 5, 1_000)
    assert refusal.value.entity_path == "orders"
    assert STORE_TROUBLE in refusal.value.text
    assert refusal.value.__cause__ is error


async def test_row_ids_name_the_entity_too(beside: World, queue: Fragment) -> None:
    beside.store.errors["read_deferred"] = StoreError("no answer")
    with pytest.raises(ServerBusy, match="'orders'"):
        await beside.owner.store.read_deferred([queue.row_id(1)])


async def test_a_read_for_no_entity_is_refused_without_a_name(beside: World) -> None:
    beside.store.errors["entities"] = StoreError("no answer")
    with pytest.raises(ServerBusy, match="The message store is away") as refusal:
        await beside.owner.store.entities()
    assert refusal.value.entity_path == ""


async def test_a_store_that_is_away_is_not_asked(
    beside: World, queue: Fragment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside.owner, "state", OwnerState.UNAVAILABLE)
    with pytest.raises(ServerBusy, match="'orders'"):
        await beside.owner.store.browse(queue.number, 0, 5, 1_000)
    monkeypatch.setattr(beside.owner, "state", OwnerState.SERVING)


async def test_before_the_start_errors_are_those_of_the_store() -> None:
    world = World()
    world.owner.serve_beside_others()
    await world.owner.open("test")
    world.store.errors["entities"] = StoreError("no answer")
    with pytest.raises(StoreError, match="no answer"):
        await world.owner.store.entities()


async def test_the_only_store_answers_requests_itself(world: World) -> None:
    assert world.owner.store is world.store
