"""Receives over several brokers: what is held for the next request, and for how long.

The other brokers are tested as they are in `tests/brokers/test_t11_http.py`; here they
answer when the test wants them to.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import pytest
from unit.amqp.endpoints import EndpointPair
from unit.entities.conftest import world
from unit.entities.world import World, message
from unit.operations.callers import opened

from twinbus.amqp.events import MessageReceived
from twinbus.broker.message_lock import token_prefix
from twinbus.doors.http.messaging import spread_receiver
from twinbus.doors.http.messaging.spread_receiver import SpreadReceiver
from twinbus.errors import MessagingEntityNotFound
from twinbus.operations.receiving import open_receiver

__all__ = ["world"]


class Flushing:
    """The connections to other brokers."""

    def flush(self) -> None:
        """Nothing waits to be written here."""


class Remote:
    """Another broker."""

    def __init__(self, receiver: SpreadReceiver) -> None:
        self._receiver = receiver
        # That it comes over.
        pair = EndpointPair()
        pair.open()
        self._link, _ = pair.attach_receiver(pair.begin()[0])
        self._waiting: deque[MessageReceived] = deque()
        self.asked: list[bool] = []
        self.told: list[str] = []
        self.is_drained = False
        self.is_lost = False
        self.is_completing = True
        self.was_asked = asyncio.Event()
        self.was_drained = asyncio.Event()
        self.has_given_back = asyncio.Event()

    def reserve(self, number: int) -> None:
        """A message comes."""
        token = token_prefix(3, 1) + number.to_bytes(6, "big") + bytes(5)
        self._waiting.append(
            MessageReceived(
                *(self._link, number, token, 0, False, None, b"payload", False)
            )
        )
        self._receiver.on_news()

    def drained(self) -> None:
        self.is_drained = True
        self._receiver.on_news()

    def ask(self, *, drains: bool) -> None:
        self.is_drained = False
        self.asked.append(drains)
        (self.was_drained if drains else self.was_asked).set()

    def rest(self) -> None:
        self.told.append("rest")

    def has_some(self) -> bool:
        return bool(self._waiting)

    def take(self) -> MessageReceived:
        self.told.append("take")
        return self._waiting.popleft()

    def complete(self) -> tuple[MessageReceived, "asyncio.Future[bool]"]:
        self.told.append("complete")
        done = asyncio.get_running_loop().create_future()
        done.set_result(self.is_completing)
        return self._waiting.popleft(), done

    def give_back(self) -> None:
        self.told += ["give back"] * len(self._waiting)
        self.has_given_back.set()
        self._waiting.clear()

    def close(self) -> None:
        self.give_back()
        self.told.append("close")


class Setup:
    """A receiver of a queue, one part of which is at another broker."""

    def __init__(self, world: World, peek_lock: bool) -> None:
        self.world = world
        handle = opened(world)
        peers: Any = Flushing()
        self.receiver = SpreadReceiver(
            peers, handle.entity, open_receiver(handle, peek_lock), peek_lock
        )
        self.remote = Remote(self.receiver)
        remote: Any = self.remote
        self.receiver.remotes.append(remote)

    async def send(self) -> None:
        fragment = self.world.namespace.entity("orders").fragment()
        owner = self.world.owner
        fragment.enqueue(message(), 1, self.world.clock.now(), owner.changes)
        await owner.durable()


@pytest.fixture(params=[True, False], ids=["peek-lock", "receive and delete"])
async def setup(world: World, request: pytest.FixtureRequest) -> AsyncIterator[Setup]:
    await world.namespace.create_queue("orders", {})
    made = Setup(world, request.param)
    yield made
    made.receiver.close()


async def test_message_of_another_broker_ends_the_wait(setup: Setup) -> None:
    receiving = asyncio.ensure_future(setup.receiver.receive_one(60))
    await setup.remote.was_asked.wait()
    assert setup.remote.asked == [False]
    setup.remote.reserve(7)
    received = await receiving
    assert received is not None
    assert received.sequence_number == (3 << 48) + 7
    is_locked = bool(received.lock_token)
    assert setup.remote.told == ["take" if is_locked else "complete", "rest"]


async def test_what_is_not_needed_is_held_for_the_next_request(setup: Setup) -> None:
    await setup.send()
    received = await setup.receiver.receive_one(60)
    assert received is not None
    assert received.sequence_number == 1
    setup.remote.reserve(8)
    again = await setup.receiver.receive_one(0)
    assert again is not None
    assert again.sequence_number == (3 << 48) + 8


async def test_what_is_held_goes_back_in_time(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread_receiver, "_HELD_SECONDS", 0.01)
    await setup.send()
    assert await setup.receiver.receive_one(60) is not None
    setup.remote.reserve(8)
    await setup.remote.has_given_back.wait()
    assert "give back" in setup.remote.told


async def test_what_is_held_goes_back_with_the_connection(setup: Setup) -> None:
    await setup.send()
    assert await setup.receiver.receive_one(60) is not None
    setup.remote.reserve(8)
    setup.receiver.close()
    assert setup.remote.told[-2:] == ["give back", "close"]


async def test_look_waits_until_all_have_answered(setup: Setup) -> None:
    receiving = asyncio.ensure_future(setup.receiver.receive_one(0))
    await setup.remote.was_drained.wait()
    await setup.world.settled()
    assert setup.remote.asked == [True]
    assert not receiving.done()
    setup.remote.drained()
    assert await receiving is None


async def test_time_ends_the_wait(setup: Setup) -> None:
    receiving = asyncio.ensure_future(setup.receiver.receive_one(0.01))
    assert await receiving is None
    assert setup.remote.asked == [False]


async def test_hurried_request_gets_nothing(setup: Setup) -> None:
    receiving = asyncio.ensure_future(setup.receiver.receive_one(60))
    await setup.remote.was_asked.wait()
    setup.receiver.hurry()
    assert await receiving is None


async def test_message_that_could_not_be_deleted_is_not_handed_out(
    setup: Setup,
) -> None:
    """Its owner has it still; the next one is waited for."""
    setup.remote.is_completing = False
    setup.remote.reserve(7)
    await setup.send()
    received = await setup.receiver.receive_one(60)
    assert received is not None
    is_locked = bool(received.lock_token)
    assert received.sequence_number == ((3 << 48) + 7 if is_locked else 1)


async def test_lost_way_makes_a_new_receiver_necessary(setup: Setup) -> None:
    assert not setup.receiver.is_over
    setup.remote.is_lost = True
    assert setup.receiver.is_over


async def test_deleted_queue_ends_the_wait(setup: Setup) -> None:
    receiving = asyncio.ensure_future(setup.receiver.receive_one(60))
    await setup.remote.was_asked.wait()
    setup.remote.is_drained = True
    await setup.world.namespace.delete_queue("orders")
    with pytest.raises(MessagingEntityNotFound):
        await receiving
    assert setup.receiver.is_over


async def test_client_that_goes_leaves_nothing_behind(setup: Setup) -> None:
    receiving = asyncio.ensure_future(setup.receiver.receive_one(60))
    await setup.remote.was_asked.wait()
    receiving.cancel()
    await asyncio.gather(receiving, return_exceptions=True)
    setup.receiver.close()
    assert setup.remote.told[-1] == "close"
    await setup.send()
    entity = setup.world.namespace.entity("orders")
    assert entity.fragment().locks == {}
    assert not entity.receive_links()
