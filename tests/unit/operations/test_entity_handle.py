"""Entities are opened for callers with a claim, and stay the ones that were opened."""

import pytest
from unit.entities.world import World, message

from twinbus.auth.claims import Claim
from twinbus.broker.fragment import DEAD_LETTER
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    FragmentUnavailable,
    MessagingEntityNotFound,
    NotAllowed,
    SessionLockLost,
    UnauthorizedAccess,
)
from twinbus.operations.entity_handle import open_entity

from .callers import LimitedCaller, opened
from .spread import key_in, owner_at, take_away


async def test_caller_without_the_claim_is_not_told_what_exists(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    for path in ("orders", "nothing", "orders/$management"):
        with pytest.raises(UnauthorizedAccess, match="'Listen' claim"):
            open_entity(world.namespace, path, LimitedCaller(Claim.SEND), Claim.LISTEN)


@pytest.mark.parametrize("path", ["nothing", "orders/$management"])
async def test_what_does_not_exist_is_not_found(world: World, path: str) -> None:
    await world.namespace.create_queue("orders", {})
    with pytest.raises(MessagingEntityNotFound):
        open_entity(world.namespace, path, LimitedCaller(Claim.LISTEN), Claim.LISTEN)


async def test_sub_queue_is_opened_by_its_path(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    caller = LimitedCaller(Claim.LISTEN)
    handle = open_entity(
        world.namespace, "/Orders/$DeadLetterQueue/", caller, Claim.LISTEN
    )
    assert handle.sub_queue == DEAD_LETTER
    assert handle.settings.is_dead_letter_queue
    assert handle.part(0).fragment.sub_queue == DEAD_LETTER


async def test_opening_counts_as_use(world: World) -> None:
    queue = await world.namespace.create_queue("orders", {})
    world.clock.advance(5_000)
    opened(world)
    assert queue.used_at == world.clock.now()


async def test_what_was_asked_for_before_is_durable_when_it_has_settled(
    world: World,
) -> None:
    await world.namespace.create_queue("orders", {})
    handle = opened(world)
    part = handle.part(0)
    part.fragment.enqueue(message(), 1, handle.now(), world.owner.changes)
    await part.settle_down()
    assert len(await world.store.browse(part.fragment.number, 0, 9, 99)) == 1
    assert (handle.path, part.path, part.owner) == ("orders", "orders", world.owner)


async def test_queue_that_was_made_again_is_another(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    handle = opened(world, sub_queue=DEAD_LETTER)
    await world.namespace.delete_queue("orders")
    await world.namespace.create_queue("orders", {})
    with pytest.raises(MessagingEntityNotFound, match="orders"):
        await handle.part(0).settle_down()


async def test_caller_is_introduced_once(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    caller = LimitedCaller(Claim.LISTEN)
    first, second = opened(world, caller=caller), opened(world, caller=caller)
    assert first.part(0).actor == second.part(0).actor


async def test_numbers_of_other_fragments_are_refused(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    part = opened(world).part(0)
    assert part.local(part.visible(7), "from") == 7
    with pytest.raises(ArgumentOutOfRange, match="'from' is 1152921504606846976"):
        part.local(1 << 60, "from")


async def test_queue_without_sessions_has_none_to_name(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    handle = opened(world)
    handle.check_session(None)
    handle.check_names_session(None)
    with pytest.raises(NotAllowed, match="does not require sessions"):
        handle.check_session("a")
    with pytest.raises(NotAllowed, match="does not require sessions"):
        handle.check_names_session("a")
    with pytest.raises(NotAllowed, match="does not require sessions"):
        handle.part(0).held_session("a")


async def test_queue_with_sessions_wants_the_one_that_is_held(world: World) -> None:
    await world.namespace.create_queue("orders", {"requires_session": True})
    handle = opened(world)
    with pytest.raises(ArgumentError, match="name the session"):
        handle.check_names_session(None)
    with pytest.raises(SessionLockLost, match="'a'"):
        handle.part_of_session("a").held_session("a")


# --- partitioned entities -----------------------------------------------------------


async def test_parts_are_found_by_what_names_them(spread: World) -> None:
    settings = {"enable_partitioning": True, "requires_session": True}
    await spread.namespace.create_queue("orders", settings)
    handle = opened(spread)
    assert [part.index for part in handle.parts()] == [0, 1, 2, 3]
    by_number = handle.part_of_number((2 << 48) + 5)
    assert by_number is not None
    assert (by_number.index, by_number.local((2 << 48) + 5, "from")) == (2, 5)
    assert by_number.visible(5) == (2 << 48) + 5
    by_token = handle.part_of_token(b"\x00\x03" + bytes(14))
    assert by_token is handle.part(3)
    assert handle.part_of_session(key_in(1)) is handle.part(1)
    for wrong in (4 << 48, -1):
        assert handle.part_of_number(wrong) is None
    assert handle.part_of_token(b"\xff" * 16) is None
    with pytest.raises(ArgumentOutOfRange, match="fragment 2 of 'orders'"):
        by_number.local(7, "from")


async def test_dead_letters_have_as_many_fragments(spread: World) -> None:
    await spread.namespace.create_queue("orders", {"enable_partitioning": True})
    parts = opened(spread, sub_queue=DEAD_LETTER).parts()
    assert [part.fragment.sub_queue for part in parts] == [DEAD_LETTER] * 4
    assert {part.path for part in parts} == {"orders/$DeadLetterQueue"}


async def test_part_is_refused_while_its_store_is_away(several: World) -> None:
    await several.namespace.create_queue("orders", {"enable_partitioning": True})
    await take_away(several, owner_at(several, 1))
    handle = opened(several)
    assert handle.part(0).index == 0
    assert len(handle.known_parts()) == 4
    with pytest.raises(FragmentUnavailable, match="Fragment 1 of 'orders'"):
        handle.part(1)
    with pytest.raises(FragmentUnavailable):
        handle.parts()


async def test_deleted_partitioned_queue_is_not_found(spread: World) -> None:
    await spread.namespace.create_queue("orders", {"enable_partitioning": True})
    handle = opened(spread)
    handle.part(0)
    await spread.namespace.delete_queue("orders")
    for index in (0, 1):
        with pytest.raises(MessagingEntityNotFound, match="orders"):
            await handle.part(index).settle_down()
