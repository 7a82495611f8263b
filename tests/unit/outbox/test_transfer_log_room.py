"""A store that is served, but full or read-only, is like one that is away."""

import asyncio

import pytest
from unit.entities.world import Client, Fault

from twinbus.broker.fragment import Fragment
from twinbus.errors import ServerBusy, StoreRefused
from twinbus.limits import TRANSFER_LIMIT_MS
from twinbus.links.routes import Routes
from twinbus.store.base import (
    CommitFailed,
    CommitUnknown,
    StoreError,
    StoreFull,
    StoreReadOnly,
)

from .world import Answers, World, body_of, message

MINUTE_MS = 60_000
PLENTY = 1_000_000_000
FAILING = [StoreReadOnly("read-only"), CommitFailed("an error of the disk")]


class Sender:
    """A link to one queue."""

    def __init__(self, world: World, queue: str = "here") -> None:
        entity = world.namespace.queue(queue)
        self.world = world
        self.answers = Answers()
        self.count = 0
        self._routes = Routes(
            entity.routing(),
            lambda home: home.introduce("sender"),
            world.clock.now,
            world.namespace.detour_of(entity),
        )

    def send(
        self, body: str = "", *, is_identified: bool = False, **properties: str
    ) -> None:
        """By default the body is the number of the delivery."""
        made = message(body or str(self.count), **properties)
        now = self.world.clock.now()
        try:
            self._routes.send([made], is_identified, self.count, self.answers, now)
        except ServerBusy as error:
            self.answers.failed([self.count], error)
        self.count += 1

    async def answered(self) -> None:
        answers = self.answers
        await self.world.until(
            lambda: len(answers.accepted) + len(answers.errors) == self.count
        )

    @property
    def accepted(self) -> list[int]:
        assert self.answers.errors == []
        return self.answers.accepted


def fragment(world: World) -> Fragment:
    return world.here.fragment()


async def fill(world: World, room_bytes: int = 0) -> None:
    """The first store says that it has no more room than that."""
    world.store_of(world.first).room_bytes = room_bytes
    world.first.room.ask_again()
    world.first.wake()
    await world.until(lambda: world.first.room_bytes == room_bytes)


def fail(world: World, error: StoreError) -> None:
    """No commit of the first store succeeds any more."""
    world.store_of(world.first).faults += [Fault(error)] * 1_000


def heal(world: World) -> None:
    store = world.store_of(world.first)
    store.faults.clear()
    store.room_bytes = PLENTY


async def received(world: World, fragment: Fragment, count: int) -> list[str]:
    """Bodies of so many messages. After a commit that failed they are read again."""
    client = Client(wanted=count + 1)
    fragment.home.join(fragment, client)
    fragment.home.offer_capacity(fragment, client)
    await world.until(lambda: len(client.locks) >= count)
    return [body_of(lock.message) for lock in client.locks]


def count_kept(world: World) -> int:
    return world.second.outbox.count_for(world.first.store_uuid)


async def test_messages_for_a_full_store_are_kept_and_appear_in_order(
    world: World,
) -> None:
    sender = Sender(world)
    sender.send()
    await sender.answered()
    await fill(world)
    for _ in range(3):
        sender.send()
        await sender.answered()
    assert count_kept(world) == 3
    assert world.first.is_serving
    heal(world)
    # They are not overtaken by what comes when there is room.
    sender.send()
    await world.delivered()
    sender.send()
    await sender.answered()
    assert sender.accepted == [0, 1, 2, 3, 4, 5]
    assert await received(world, fragment(world), 6) == list("012345")


async def test_receiving_from_a_full_store_goes_on(world: World) -> None:
    sender, client = Sender(world), Client(peek_lock=False, wanted=10)
    sender.send()
    await sender.answered()
    await fill(world)
    sender.send()
    await sender.answered()
    world.first.join(fragment(world), client)
    world.first.offer_capacity(fragment(world), client)
    await world.until(lambda: len(client.removed) == 1)
    heal(world)
    await world.until(lambda: len(client.removed) == 2)
    assert [body_of(found) for found in client.removed] == ["0", "1"]


async def test_messages_whose_commit_found_no_room_are_kept(world: World) -> None:
    sender = Sender(world)
    world.store_of(world.first).faults.append(Fault(StoreFull("full")))
    for _ in range(3):
        sender.send()
    await sender.answered()
    assert sender.accepted == [0, 1, 2]
    await world.delivered()
    assert await received(world, fragment(world), 3) == ["0", "1", "2"]


async def test_a_message_that_is_too_large_for_what_is_left_is_kept(
    world: World,
) -> None:
    sender = Sender(world)
    await fill(world, 150)
    sender.send("x" * 200 + "0")
    sender.send()
    await sender.answered()
    assert sender.accepted == [0, 1]
    assert count_kept(world) == 2
    # Nothing is committed there meanwhile; there is room all the same.
    world.store_of(world.first).room_bytes = PLENTY
    await world.delivered()
    found = await received(world, fragment(world), 2)
    assert [body[-1:] for body in found] == ["0", "1"]


@pytest.mark.parametrize("finds_duplicates", [False, True])
async def test_what_is_kept_follows_what_a_commit_returns(
    world: World, finds_duplicates: bool
) -> None:
    entity = await world.namespace.create_queue(
        "orders", {"requires_duplicate_detection": finds_duplicates}
    )
    assert entity.fragment().home is world.first
    sender = Sender(world, "orders")
    await fill(world, 150)
    world.store_of(world.first).faults.append(Fault(StoreFull("full")))
    sender.send(message_id="0")
    sender.send("x" * 200 + "1", message_id="1")
    sender.send(message_id="2")
    await sender.answered()
    assert sender.accepted == [0, 1, 2]
    heal(world)
    await world.delivered()
    found = await received(world, entity.fragment(), 3)
    assert [body[-1:] for body in found] == ["0", "1", "2"]


async def test_messages_whose_arrival_fails_are_not_overtaken() -> None:
    world = World(store_count=3)
    await world.start()
    sender, store = Sender(world), world.store_of(world.first)
    await fill(world)
    sender.send()
    await sender.answered()
    store.gate.clear()
    store.room_bytes = 150
    await world.until(lambda: not world.first.awaited)
    store.is_committing.clear()
    await world.until(lambda: world.first.is_committing)
    # All that was kept is in the commit under way, which fails.
    store.faults.append(Fault(StoreFull("full")))
    sender.send("x" * 200 + "1")
    store.gate.set()
    await sender.answered()
    # Both are in one outbox: that has an order.
    assert count_kept(world) == 2
    heal(world)
    await world.delivered()
    assert sender.accepted == [0, 1]
    found = await received(world, fragment(world), 2)
    assert [body[-1:] for body in found] == ["0", "1"]
    await world.stop()


async def test_as_much_arrives_as_there_is_room_for(world: World) -> None:
    sender = Sender(world)
    await fill(world)
    for _ in range(10):
        sender.send("x" * 200)
    await sender.answered()
    world.store_of(world.first).room_bytes = 1_000
    await world.until(lambda: 0 < count_kept(world) < 10)
    carried = [
        len(changes.outbox_removed) for changes in world.store_of(world.second).commits
    ]
    # The room that this store tells does not shrink.
    assert 0 < max(carried) <= 4
    await world.delivered()
    assert len(await received(world, fragment(world), 10)) == 10


@pytest.mark.parametrize("error", FAILING, ids=lambda error: type(error).__name__)
async def test_messages_for_a_store_whose_commits_fail_are_kept(
    world: World, error: StoreError
) -> None:
    sender = Sender(world)
    sender.send()
    await sender.answered()
    fail(world, error)
    for _ in range(3):
        sender.send()
        sender.send()
        await sender.answered()
    assert count_kept(world) == 6
    heal(world)
    sender.send()
    await world.delivered()
    sender.send()
    await sender.answered()
    assert sender.accepted == list(range(9))
    assert await received(world, fragment(world), 9) == list("012345678")


@pytest.mark.parametrize("error", FAILING, ids=lambda error: type(error).__name__)
async def test_commits_that_fail_for_too_long_make_sends_fail(
    world: World, error: StoreError
) -> None:
    early, late = Sender(world), Sender(world)
    fail(world, error)
    early.send()
    await early.answered()
    world.clock.advance(TRANSFER_LIMIT_MS + 1_000)
    late.send("late")
    await late.answered()
    [refused] = late.answers.errors
    assert "900 seconds" in str(refused)
    heal(world)
    await world.delivered()
    early.send()
    await early.answered()
    assert early.accepted == [0, 1]
    assert await received(world, fragment(world), 2) == ["0", "1"]
    # The next failure counts from its own beginning.
    fail(world, error)
    early.send()
    await early.answered()
    assert early.accepted == [0, 1, 2]


async def test_a_store_that_is_full_for_too_long_makes_sends_fail(
    world: World,
) -> None:
    early, late = Sender(world), Sender(world)
    await fill(world)
    early.send()
    await early.answered()
    world.clock.advance(TRANSFER_LIMIT_MS + 1_000)
    late.send("late")
    await late.answered()
    assert len(late.answers.errors) == 1
    heal(world)
    await world.delivered()
    late.send("1")
    await late.answered()
    assert late.answers.accepted == [1]
    assert await received(world, fragment(world), 2) == ["0", "1"]


async def test_a_commit_without_messages_does_not_prove_that_there_is_room(
    world: World,
) -> None:
    sender = Sender(world)
    store = world.store_of(world.first)
    store.faults += [Fault(StoreFull("full"))]
    sender.send()
    await sender.answered()
    since = world.first.refused_since
    assert since != 0
    await world.first.durable()
    assert world.first.refused_since == since
    await world.delivered()
    assert world.first.refused_since == 0


@pytest.mark.parametrize("happens", [True, False])
async def test_an_unknown_commit_is_kept_only_if_it_did_not_happen(
    world: World, happens: bool
) -> None:
    sender = Sender(world)
    store = world.store_of(world.first)
    store.faults.append(Fault(CommitUnknown("unknown"), happens=happens))
    store.faults += [Fault(StoreReadOnly("read-only"))] * 1_000
    sender.send()
    await sender.answered()
    assert count_kept(world) == (0 if happens else 1)
    sender.send()
    await sender.answered()
    heal(world)
    await world.delivered()
    assert sender.accepted == [0, 1]
    assert await received(world, fragment(world), 2) == ["0", "1"]


async def test_messages_that_wait_for_a_look_up_follow_the_detour(
    world: World,
) -> None:
    unique = await world.namespace.create_queue(
        "unique", {"requires_duplicate_detection": True}
    )
    assert unique.fragment().home is world.first
    sender, store = Sender(world, "unique"), world.store_of(world.first)
    sender.send(message_id="0")
    store.faults.append(Fault(CommitFailed("once")))
    store.gate.clear()
    store.is_committing.clear()
    await world.until(store.is_committing.is_set)
    # The commit is under way; these wait for the look-up of the next turn.
    sender.send(message_id="1")
    sender.send(message_id="0")
    store.gate.set()
    await sender.answered()
    assert sender.accepted == [0, 1, 2]
    await world.delivered()
    assert await received(world, unique.fragment(), 2) == ["0", "1"]


async def test_duplicates_for_a_full_store_are_found_when_they_arrive(
    world: World,
) -> None:
    unique = await world.namespace.create_queue(
        "unique", {"requires_duplicate_detection": True}
    )
    sender = Sender(world, "unique")
    sender.send(message_id="0")
    await sender.answered()
    await fill(world)
    sender.send(message_id="0")
    sender.send(message_id="1")
    await sender.answered()
    heal(world)
    await world.delivered()
    assert sorted(sender.accepted) == [0, 1, 2]
    assert await received(world, unique.fragment(), 2) == ["0", "2"]


async def test_a_store_that_is_too_slow_gets_less_to_do(world: World) -> None:
    sender = Sender(world)
    world.first.room.refuse_for("The disk is slow.", world.clock.now() + MINUTE_MS)
    sender.send()
    [refused] = sender.answers.errors
    assert "slow" in str(refused)
    assert count_kept(world) == 0


@pytest.mark.parametrize("setting", ["conventional", "keyed"])
async def test_nothing_is_kept_for_a_full_store_if_that_is_off(setting: str) -> None:
    world = World(conventional=False)
    await world.start()
    queue, properties = "here", {}
    if setting == "keyed":
        await world.namespace.create_queue("all", {"enable_partitioning": True})
        queue, properties = "all", {"group_id": _key_in_the_first(world)}
    sender = Sender(world, queue)
    await fill(world)
    sender.send(**properties)
    [refused] = sender.answers.errors
    assert isinstance(refused, StoreRefused)
    assert "full" in str(refused)
    assert count_kept(world) == 0
    await world.stop()


async def test_messages_with_a_key_are_kept_for_a_full_store_if_that_is_on() -> None:
    world = World(keyed=True)
    await world.start()
    await world.namespace.create_queue("all", {"enable_partitioning": True})
    sender, key = Sender(world, "all"), _key_in_the_first(world)
    await fill(world)
    sender.send(group_id=key)
    await sender.answered()
    assert sender.accepted == [0]
    assert count_kept(world) == 1
    heal(world)
    await world.delivered()
    await world.stop()


def _key_in_the_first(world: World) -> str:
    queue = world.namespace.queue("all")
    routing = queue.routing()
    for number in range(100):
        found = routing.find(routing.index_of(f"key-{number}"))
        if found is not None and found.home is world.first:
            return f"key-{number}"
    raise AssertionError("no fragment is in that store")


async def test_what_a_commit_returns_is_kept_for_the_fragment_of_its_key() -> None:
    world = World(keyed=True)
    await world.start()
    queue = await world.namespace.create_queue(
        "all", {"enable_partitioning": True, "requires_duplicate_detection": True}
    )
    sender, key = Sender(world, "all"), _key_in_the_first(world)
    index = queue.routing().index_of(key)
    for _ in range(20):
        world.store_of(world.first).faults.append(Fault(StoreFull("full")))
        sender.send(group_id=key, message_id=str(sender.count))
        await sender.answered()
        heal(world)
        await world.delivered()
    fragment = queue.fragment(index=index)
    assert sender.accepted == list(range(20))
    assert fragment.active_count == 20
    await world.stop()


async def test_what_is_returned_is_kept_in_the_order_in_which_it_was_sent(
    world: World,
) -> None:
    """Also if some of it was looked up before."""
    sender, store = Sender(world), world.store_of(world.first)
    other = world.store_of(world.second)
    # The first store waits for a moment before it commits.
    other.gate.clear()
    other.is_committing.clear()
    world.second.introduce("somebody")
    committing = asyncio.create_task(world.second.durable())
    await other.is_committing.wait()
    sender.send()
    sender.send(is_identified=True)
    async with asyncio.timeout(5):
        while world.first.admitted_bytes:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    sender.send()
    store.faults.append(Fault(StoreFull("full")))
    other.gate.set()
    await sender.answered()
    await committing
    assert count_kept(world) == 3
    heal(world)
    await world.delivered()
    assert await received(world, fragment(world), 3) == ["0", "1", "2"]
