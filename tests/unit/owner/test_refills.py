"""One read for all queues whose receivers wait: its limits, and whose turn it is."""

from collections.abc import Sequence
from typing import Any

import pytest
from unit.entities.world import Client, World, message

from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.limits import IDLE_WINDOW_MESSAGES
from twinbus.owner import refills
from twinbus.store.base import WindowRefill

READS = ("read_active", "read_session", "read_refills", "read_numbered")


class Reads:
    """Notes what is read of a store."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.asked: list[list[int]] = []
        self.answered: list[list[int]] = []
        for name in READS:
            monkeypatch.setattr(world.store.inner, name, self._noting(world, name))

    def _noting(self, world: World, name: str) -> Any:
        read = getattr(world.store.inner, name)

        async def noted(*given: Any) -> Any:
            found = await read(*given)
            self.names.append(name)
            if name == "read_refills":
                self._note(given[0], found)
            return found

        return noted

    def _note(
        self, asked: Sequence[WindowRefill], portions: list[list[Message]]
    ) -> None:
        self.asked.append([refill.fragment_number for refill in asked])
        self.answered.append([len(portion) for portion in portions])


@pytest.fixture
async def queues(world: World) -> list[Fragment]:
    """Eight queues, each with more messages than a window that nobody receives from."""
    made = []
    for number in range(8):
        queue = await world.namespace.create_queue(f"queue-{number}", {})
        made.append(queue.fragment())
    for queue in made:
        for _ in range(IDLE_WINDOW_MESSAGES + 20):
            queue.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    world.owner.wake()
    await world.owner.durable()
    return made


def receive(world: World, queues: list[Fragment], wanted: int) -> list[Client]:
    clients = [Client(wanted=wanted) for _ in queues]
    for queue, client in zip(queues, clients, strict=True):
        world.owner.join(queue, client)
    for queue, client in zip(queues, clients, strict=True):
        world.owner.offer_capacity(queue, client)
    return clients


async def test_many_hungry_queues_are_refilled_by_one_read(
    world: World, queues: list[Fragment], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(world, monkeypatch)
    clients = receive(world, queues, IDLE_WINDOW_MESSAGES + 20)
    await world.settled()
    assert reads.names == ["read_refills"]
    assert reads.asked == [[queue.number for queue in queues]]
    for client in clients:
        sequences = [lock.message.row_id for lock in client.locks]
        assert len(sequences) == IDLE_WINDOW_MESSAGES + 20
        assert sequences == sorted(sequences)


async def test_a_read_is_limited_and_those_left_out_come_first(
    world: World, queues: list[Fragment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refills, "_READ_MESSAGES", 30)
    monkeypatch.setattr(refills, "_SHARE_MESSAGES", 10)
    reads = Reads(world, monkeypatch)
    clients = receive(world, queues, IDLE_WINDOW_MESSAGES + 20)
    await world.settled()
    numbers = [queue.number for queue in queues]
    assert reads.asked[0] == numbers
    assert reads.answered[0] == [10, 10, 10]
    # Three were served, five were not: these come first.
    assert reads.asked[1][:5] == numbers[3:]
    assert all(sum(counts) <= 30 for counts in reads.answered)
    for client in clients:
        assert len(client.locks) == IDLE_WINDOW_MESSAGES + 20


async def test_a_read_is_limited_in_bytes(
    world: World, queues: list[Fragment], monkeypatch: pytest.MonkeyPatch
) -> None:
    size_bytes = len(message().raw)
    monkeypatch.setattr(refills, "_READ_BYTES", 25 * size_bytes)
    monkeypatch.setattr(refills, "_SHARE_BYTES", 10 * size_bytes)
    reads = Reads(world, monkeypatch)
    clients = receive(world, queues, IDLE_WINDOW_MESSAGES + 20)
    await world.settled()
    assert reads.answered[0] == [10, 10, 5]
    for client in clients:
        assert len(client.locks) == IDLE_WINDOW_MESSAGES + 20


async def test_no_queue_starves_beside_one_with_a_long_backlog(
    world: World, queues: list[Fragment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refills, "_READ_MESSAGES", 10)
    monkeypatch.setattr(refills, "_SHARE_MESSAGES", 10)
    long = queues[0]
    for _ in range(2_000):
        long.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()
    reads = Reads(world, monkeypatch)
    receive(world, queues, 5_000)
    await world.settled()
    waited = {number: 0 for number in (queue.number for queue in queues)}
    for asked, counts in zip(reads.asked, reads.answered, strict=True):
        for number in asked[: len(counts)]:
            waited[number] = 0
        for number in asked[len(counts) :]:
            waited[number] += 1
            assert waited[number] < len(queues), "others were served twice meanwhile"
    assert long.window.ready_count() == 0


async def test_a_queue_that_goes_while_it_is_read_gets_nothing(
    world: World, queues: list[Fragment], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = world.store.inner.read_refills

    async def dropped_meanwhile(*given: Any) -> Any:
        found = await read(*given)
        queues[0].is_dropped = True
        return found

    monkeypatch.setattr(world.store.inner, "read_refills", dropped_meanwhile)
    first, second, *_ = receive(world, queues, IDLE_WINDOW_MESSAGES + 20)
    await world.settled()
    assert len(first.locks) == IDLE_WINDOW_MESSAGES
    assert len(second.locks) == IDLE_WINDOW_MESSAGES + 20
