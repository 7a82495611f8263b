"""Scheduled messages with different keys: each in its fragment, all or none."""

import pytest
from unit.entities.world import NOW, Fault, World

from twinbus.errors import (
    FragmentUnavailable,
    MessageNotFound,
    NotAllowed,
    QuotaExceeded,
    ServerBusy,
)
from twinbus.operations.scheduling import cancel_scheduled, schedule_messages
from twinbus.store.base import CommitFailed

from .callers import opened
from .spread import (
    FRAGMENTS,
    encoded,
    fragments,
    index_of,
    key_in,
    owner_at,
    take_away,
)
from .test_locks import enlistment

DUE = NOW + 60_000


def one_for_each() -> list[bytes]:
    return [encoded(key=key_in(index), due=DUE) for index in range(FRAGMENTS)]


def counts(world: World) -> list[int]:
    return [one.scheduled_count for one in fragments(world)]


@pytest.fixture
async def queue(spread: World) -> World:
    await spread.namespace.create_queue("orders", {"enable_partitioning": True})
    return spread


@pytest.fixture
async def apart(several: World) -> World:
    await several.namespace.create_queue("orders", {"enable_partitioning": True})
    return several


async def test_each_message_is_in_the_fragment_of_its_key(queue: World) -> None:
    numbers = await schedule_messages(opened(queue), one_for_each())
    assert [index_of(number) for number in numbers] == [0, 1, 2, 3]
    assert counts(queue) == [1, 1, 1, 1]
    await cancel_scheduled(opened(queue), numbers)
    assert counts(queue) == [0, 0, 0, 0]


async def test_messages_without_a_key_stay_together(queue: World) -> None:
    numbers = await schedule_messages(opened(queue), [encoded(due=DUE)] * 3)
    assert len({index_of(number) for number in numbers}) == 1


async def test_one_fragment_without_room_refuses_all(queue: World) -> None:
    full = fragments(queue)[2]
    full.resize(full.settings.max_size_bytes)
    with pytest.raises(QuotaExceeded):
        await schedule_messages(opened(queue), one_for_each())
    assert counts(queue) == [0, 0, 0, 0]
    full.resize(-full.settings.max_size_bytes)


async def test_message_with_two_keys_refuses_all(queue: World) -> None:
    wrong = encoded(key="a", session_id="b", due=DUE)
    with pytest.raises(NotAllowed, match="must be the same"):
        await schedule_messages(opened(queue), [*one_for_each(), wrong])
    assert counts(queue) == [0, 0, 0, 0]


async def test_fragment_that_is_away_refuses_all_with_its_key(apart: World) -> None:
    await take_away(apart, owner_at(apart, 1))
    with pytest.raises(FragmentUnavailable, match="Fragment 1"):
        await schedule_messages(opened(apart), one_for_each())
    assert counts(apart) == [0, 0, 0, 0]
    numbers = await schedule_messages(opened(apart), [encoded(due=DUE)])
    assert index_of(numbers[0]) != 1


async def test_store_that_refuses_a_message_without_key_is_left(apart: World) -> None:
    """The commit fails for certain, so the message goes to another store."""
    for store in apart.stores[:2]:
        store.faults.append(Fault(CommitFailed("it did not happen")))
    [number] = await schedule_messages(opened(apart), [encoded(due=DUE)])
    assert sum(counts(apart)) == 1
    assert fragments(apart)[index_of(number)].scheduled_count == 1


async def test_store_that_refuses_a_key_refuses_the_message(apart: World) -> None:
    store = next(s for s in apart.stores if owner_at(apart, 1)._store is s)
    store.faults.append(Fault(CommitFailed("it did not happen")))
    with pytest.raises(ServerBusy):
        await schedule_messages(opened(apart), [encoded(key=key_in(1), due=DUE)])


async def test_one_that_is_missing_leaves_all_scheduled(queue: World) -> None:
    numbers = await schedule_messages(opened(queue), one_for_each())
    for missing in ((2 << 48) + 9, 9 << 48):
        with pytest.raises(MessageNotFound, match=str(missing)):
            await cancel_scheduled(opened(queue), [*numbers, missing])
    assert counts(queue) == [1, 1, 1, 1]


# --- transactions -------------------------------------------------------------------


async def test_transaction_needs_a_key(queue: World) -> None:
    with pytest.raises(NotAllowed, match="without a key"):
        await schedule_messages(
            opened(queue), [encoded(due=DUE)], transaction=enlistment(queue)
        )


async def test_transaction_has_one_key(queue: World) -> None:
    transaction = enlistment(queue)
    same = [encoded(key=key_in(1), due=DUE)] * 2
    numbers = await schedule_messages(opened(queue), same, transaction)
    assert [index_of(number) for number in numbers] == [1, 1]
    for other in (key_in(1, 1), key_in(2)):
        with pytest.raises(NotAllowed, match="another key"):
            await schedule_messages(
                opened(queue), [encoded(key=other, due=DUE)], transaction
            )


async def test_message_id_is_a_key_where_duplicates_are_detected(
    spread: World,
) -> None:
    settings = {"enable_partitioning": True, "requires_duplicate_detection": True}
    await spread.namespace.create_queue("orders", settings)
    transaction, same = enlistment(spread), encoded(message_id="a", due=DUE)
    await schedule_messages(opened(spread), [same], transaction)
    with pytest.raises(NotAllowed, match="another key"):
        await schedule_messages(
            opened(spread), [encoded(message_id="b", due=DUE)], transaction
        )


async def test_transaction_cancels_in_one_store(apart: World) -> None:
    numbers = await schedule_messages(opened(apart), one_for_each())
    transaction = enlistment(apart)
    await cancel_scheduled(opened(apart), [numbers[0], numbers[3]], transaction)
    with pytest.raises(NotAllowed, match="one message store only"):
        await cancel_scheduled(opened(apart), numbers[1:2], transaction)


async def test_transaction_on_a_conventional_queue_needs_no_key(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    transaction = enlistment(world)
    sent = [encoded(key="a", due=DUE), encoded(key="b", due=DUE), encoded(due=DUE)]
    assert await schedule_messages(opened(world), sent, transaction) == [1, 2, 3]
