"""Sessions are granted after a look-up, in turn, and lost if a commit fails."""

import pytest
from unit.entities.world import Client, Fault, World, message

from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.sessions import SessionWaiter
from twinbus.errors import ServiceBusError, SessionCannotBeLocked
from twinbus.limits import FREE_SESSIONS
from twinbus.store.base import CommitFailed, StoreFull


class Holder(Client):
    """A receiver that holds a session."""

    def __init__(self, session: HeldSession, *, wanted: int = 0) -> None:
        super().__init__(wanted=wanted)
        self.session = session
        session.receiver = self
        self.is_lost = False

    def session_lost(self) -> None:
        self.is_lost = True


class Asker(SessionWaiter):
    """Somebody who asks for a session, and holds what it is granted."""

    def __init__(self, world: World, queue: Fragment, name: str | None) -> None:
        super().__init__(name)
        self._world = world
        self._queue = queue
        self.holder: Holder | None = None
        self.error: ServiceBusError | None = None

    def granted(self, session: HeldSession) -> None:
        self.holder = Holder(session, wanted=100)
        self._world.owner.join(self._queue, self.holder)
        self._world.owner.offer_capacity(self._queue, self.holder)

    def refused(self, error: ServiceBusError) -> None:
        self.error = error

    @property
    def name(self) -> str | None:
        """Of the session that it holds."""
        session = None if self.holder is None else self.holder.session
        return None if session is None else session.session_id

    @property
    def locks(self) -> list[MessageLock]:
        assert self.holder is not None
        return self.holder.locks

    async def give_up(self) -> None:
        assert self.holder is not None
        self._world.owner.leave(self._queue, self.holder)
        await self._world.settled()


@pytest.fixture
async def queue(world: World) -> Fragment:
    made = await world.namespace.create_queue("orders", {"requires_session": True})
    return made.fragment()


async def send(
    world: World, queue: Fragment, *session_ids: str, ttl_ms: int = 0
) -> None:
    for session_id in session_ids:
        sent = message(ttl_ms=ttl_ms)
        sent.session_id = session_id
        queue.enqueue(sent, 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()


async def ask(world: World, queue: Fragment, name: str | None = None) -> Asker:
    asker = Asker(world, queue, name)
    world.owner.wait_for_session(queue, asker)
    await world.settled()
    return asker


async def test_named_session_is_granted_or_refused(
    world: World, queue: Fragment
) -> None:
    first = await ask(world, queue, "a")
    assert (first.name, first.locks) == ("a", [])
    second = await ask(world, queue, "a")
    assert isinstance(second.error, SessionCannotBeLocked)
    await first.give_up()
    assert (await ask(world, queue, "a")).name == "a"


async def test_named_session_that_is_being_given_up_is_waited_for(
    world: World, queue: Fragment
) -> None:
    first = await ask(world, queue, "a")
    assert first.holder is not None
    world.owner.leave(queue, first.holder)
    assert (await ask(world, queue, "a")).name == "a"


async def test_next_sessions_are_found_in_the_store(
    world: World, queue: Fragment
) -> None:
    names = [f"{number:04}" for number in range(500)]
    await send(world, queue, *names)
    queue.restore(queue.record())
    granted = [(await ask(world, queue)).name for _ in names]
    assert granted == names
    assert (await ask(world, queue)).name is None


async def test_more_sessions_than_memory_notes_are_all_granted(
    world: World, queue: Fragment
) -> None:
    names = [f"{number:05}" for number in range(FREE_SESSIONS + 300)]
    queue.the_sessions().learn([], is_last=True)
    await send(world, queue, *names)
    granted = {(await ask(world, queue)).name for _ in names}
    assert granted == set(names)


async def test_who_waits_is_served_when_a_message_comes(
    world: World, queue: Fragment
) -> None:
    first, second = await ask(world, queue), await ask(world, queue)
    await send(world, queue, "a")
    await world.settled()
    assert (first.name, second.name) == ("a", None)
    assert len(first.locks) == 1
    await first.give_up()
    assert second.name == "a"


async def test_session_without_ready_messages_is_not_the_next(
    world: World, queue: Fragment
) -> None:
    await send(world, queue, "a", "b", ttl_ms=1_000)
    await send(world, queue, "c")
    world.clock.advance(1_000)
    assert (await ask(world, queue)).name == "c"
    assert (await ask(world, queue)).name is None
    assert queue.active_count == 1


async def test_waiter_that_left_is_granted_nothing(
    world: World, queue: Fragment
) -> None:
    asker = await ask(world, queue)
    queue.the_sessions().leave(asker)
    await send(world, queue, "a")
    await world.settled()
    assert asker.name is None
    assert (await ask(world, queue)).name == "a"


@pytest.mark.parametrize("error", [StoreFull("no room"), CommitFailed("no")])
async def test_failed_commit_loses_sessions_and_keeps_those_who_wait(
    world: World, queue: Fragment, error: Exception
) -> None:
    await send(world, queue, "a")
    holder, waiter = await ask(world, queue), await ask(world, queue)
    assert (holder.name, waiter.name) == ("a", None)
    world.store.faults.append(Fault(error))
    with pytest.raises(ServiceBusError):
        await send(world, queue, "b")
    await world.settled()
    assert holder.holder is not None and holder.holder.is_lost
    assert waiter.name == "a"
    assert [lock.message.delivery_count for lock in waiter.locks] == [0]


async def test_lost_session_is_the_next(world: World, queue: Fragment) -> None:
    await send(world, queue, "a")
    holder, waiter = await ask(world, queue), await ask(world, queue)
    await world.advance(60_000)
    assert holder.holder is not None and holder.holder.is_lost
    assert waiter.name == "a"
    assert [lock.message.delivery_count for lock in waiter.locks] == [1]


async def test_memory_has_held_sessions_alone(world: World, queue: Fragment) -> None:
    for number in range(50):
        await send(world, queue, f"{number}")
        asker = await ask(world, queue)
        await asker.give_up()
    sessions = queue.the_sessions()
    assert sessions.held == {}
    assert queue.locks == {}
    assert world.owner._deliveries._session_dispatches == {}
