"""Transactions through a broker that does not own what they change."""

import asyncio
import time
from collections.abc import Awaitable, Iterator
from typing import Self
from uuid import UUID

import pytest
from crash import messages

from twinbus.amqp.messaging import AmqpValue, Message, encode_message
from twinbus.amqp.outcomes import ACCEPTED_OUTCOME, Rejected
from twinbus.amqp.types import AmqpArray, Symbol
from twinbus.client import ClientConnection
from twinbus.client.errors import ClientError, NotAccepted
from twinbus.errors import ServiceBusError

from .processes import PATIENCE_SECONDS, Brokers, until
from .queues_at import made_at, names_in, received

# Enough that a kill hits the middle of it.
COUNT = 200
WORKERS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers that all tests use that kill none."""
    with Brokers(tmp_path_factory.mktemp("cluster")) as made:
        asyncio.run(made.start("--brokers=3", "--fragments=8"))
        yield made


class Queues:
    """A queue at each of three brokers, with names of their own for each test."""

    _count = 0

    def __init__(self, brokers: Brokers) -> None:
        Queues._count += 1
        self.brokers = brokers
        self.q1, self.q2, self.q3 = (f"q{Queues._count}-{name}" for name in "123")

    async def made(self) -> Self:
        for name, path in zip("123", (self.q1, self.q2, self.q3), strict=True):
            await made_at(self.brokers, name, path)
        return self

    def all(self) -> tuple[Brokers, str, str, str]:
        return self.brokers, self.q1, self.q2, self.q3


@pytest.fixture
async def queues(cluster: Brokers) -> Queues:
    return await Queues(cluster).made()


async def _send(connection: ClientConnection, path: str, *names: str) -> None:
    sender = await connection.sender(path)
    await sender.send_many([messages.named(name) for name in names])


async def _has(brokers: Brokers, path: str, *names: str) -> bool:
    return await names_in(brokers, path) == list(names)


async def test_settlement_at_one_broker_and_sends_to_all(queues: Queues) -> None:
    brokers, q1, q2, q3 = queues.all()
    async with await brokers.connect("2") as connection:
        await _send(connection, q1, "in")
        receiver = await connection.receiver(q1, credit=1)
        (message,) = await received(receiver, 1)
        transaction = await (await connection.controller()).declare()
        for path in (q1, q2, q3):
            sender = await connection.sender(path)
            out = messages.named(f"out {path}")
            await sender.send(out, state=transaction.state())
        at, state = message.delivery_id, transaction.state(ACCEPTED_OUTCOME)
        await receiver.settle_confirmed(at, at, state)
        assert await names_in(brokers, q3) == []
        await transaction.commit()
    await until(lambda: _has(brokers, q1, f"out {q1}"))
    await until(lambda: _has(brokers, q2, f"out {q2}"))
    await until(lambda: _has(brokers, q3, f"out {q3}"))


async def test_settlement_here_and_a_send_to_another_broker(queues: Queues) -> None:
    brokers, q1, q2, _ = queues.all()
    async with await brokers.connect("1") as connection:
        await _send(connection, q1, "in")
        receiver = await connection.receiver(q1, credit=1)
        (message,) = await received(receiver, 1)
        transaction = await (await connection.controller()).declare()
        sender = await connection.sender(q2)
        await sender.send(messages.named("out"), state=transaction.state())
        at, state = message.delivery_id, transaction.state(ACCEPTED_OUTCOME)
        await receiver.settle_confirmed(at, at, state)
        await transaction.commit()
    await until(lambda: _has(brokers, q2, "out"))
    assert await names_in(brokers, q1) == []


async def test_rollback_leaves_everything_as_it_was(queues: Queues) -> None:
    brokers, q1, _, q3 = queues.all()
    async with await brokers.connect("2") as connection:
        await _send(connection, q1, "in")
        receiver = await connection.receiver(q1, credit=1)
        (message,) = await received(receiver, 1)
        controller = await connection.controller()
        transaction = await controller.declare()
        sender = await connection.sender(q3)
        await sender.send(messages.named("out"), state=transaction.state())
        at, state = message.delivery_id, transaction.state(ACCEPTED_OUTCOME)
        await receiver.settle_confirmed(at, at, state)
        # It cannot be settled otherwise meanwhile.
        with pytest.raises(NotAccepted, match="not discharged"):
            await receiver.settle_confirmed(at, at)
        await transaction.roll_back()
        assert await names_in(brokers, q3) == []
        assert await names_in(brokers, q1) == ["in"]
        # The lock is still held: by its token it can be settled.
        token = AmqpArray(0x98, [UUID(bytes_le=message.delivery_tag)])
        completed = {"lock-tokens": token, "disposition-status": "completed"}
        await messages.manage(connection, q1, "update-disposition", completed)
        assert await names_in(brokers, q1) == []


async def test_sends_alone_are_committed_together(queues: Queues) -> None:
    brokers, q1, _, q3 = queues.all()
    async with await brokers.connect("2") as connection:
        transaction = await (await connection.controller()).declare()
        for path in (q1, q3, q1):
            sender = await connection.sender(path)
            out = messages.named(f"out {path}")
            await sender.send(out, state=transaction.state())
        await transaction.commit()
    await until(lambda: _has(brokers, q1, f"out {q1}", f"out {q1}"))
    await until(lambda: _has(brokers, q3, f"out {q3}"))


async def test_settlements_in_two_stores_are_refused_by_name(queues: Queues) -> None:
    brokers, q1, q2, _ = queues.all()
    async with await brokers.connect("3") as connection:
        transaction = await (await connection.controller()).declare()
        state = transaction.state(ACCEPTED_OUTCOME)
        deliveries = {}
        for path in (q1, q2):
            await _send(connection, path, "in")
            receiver = await connection.receiver(path, credit=1)
            (message,) = await received(receiver, 1)
            deliveries[path] = receiver, message.delivery_id
        receiver, at = deliveries[q1]
        await receiver.settle_confirmed(at, at, state)
        receiver, at = deliveries[q2]
        with pytest.raises(
            NotAccepted, match=f"'{q2}' is in another store than '{q1}'"
        ):
            await receiver.settle_confirmed(at, at, state)
        with pytest.raises(NotAccepted, match="rolled back"):
            await transaction.commit()
    assert await names_in(brokers, q1) == await names_in(brokers, q2) == ["in"]


async def test_lost_lock_rolls_the_whole_transaction_back(queues: Queues) -> None:
    brokers, q1, _, q3 = queues.all()
    async with await brokers.connect("2") as connection:
        await _send(connection, q1, "in")
        receiver = await connection.receiver(q1, credit=1)
        (message,) = await received(receiver, 1)
        transaction = await (await connection.controller()).declare()
        sender = await connection.sender(q3)
        await sender.send(messages.named("out"), state=transaction.state())
        at, state = message.delivery_id, transaction.state(ACCEPTED_OUTCOME)
        await receiver.settle_confirmed(at, at, state)
        async with await brokers.connect("1") as other:
            token = AmqpArray(0x98, [UUID(bytes_le=message.delivery_tag)])
            given_back = {"lock-tokens": token, "disposition-status": "unlocked"}
            await messages.manage(other, q1, "update-disposition", given_back)
        with pytest.raises(NotAccepted, match="rolled back"):
            await transaction.commit()
    assert await names_in(brokers, q1) == ["in"]
    assert await names_in(brokers, q3) == []


async def _request_in(
    connection: ClientConnection,
    state: bytes,
    path: str,
    operation: str,
    body: dict[str, object],
) -> int:
    response = await connection.request(
        f"{path}/$management",
        Message(
            application_properties={"operation": f"com.microsoft:{operation}"},
            body=AmqpValue(body),
        ),
        state=state,
    )
    properties = response.application_properties or {}
    status = properties["statusCode"]
    assert isinstance(status, int)
    return status


async def test_requests_are_parts_of_a_transaction(queues: Queues) -> None:
    """Settle by token, cancel what is scheduled; to schedule is refused."""
    brokers, q1, _, _ = queues.all()
    due = int(time.time() * 1000) + 3_600_000
    async with await brokers.connect("2") as connection:
        await _send(connection, q1, "in")
        later = [messages.named("later", due_at=due)]
        numbers = await messages.schedule(connection, q1, later)
        receiver = await connection.receiver(q1, credit=1)
        (message,) = await received(receiver, 1)
        controller = await connection.controller()
        transaction = await controller.declare()
        token = AmqpArray(0x98, [UUID(bytes_le=message.delivery_tag)])
        settled = {"lock-tokens": token, "disposition-status": "completed"}
        cancelled = {"sequence-numbers": AmqpArray(0x81, list(numbers))}
        for operation, body in (
            ("update-disposition", settled),
            ("cancel-scheduled-message", cancelled),
        ):
            status = await _request_in(
                connection, transaction.state(), q1, operation, body
            )
            assert status == 200
        assert len(await names_in(brokers, q1) or ()) == 2
        await transaction.commit()
        assert await names_in(brokers, q1) == []
        refused = await controller.declare()
        entries = {"messages": [{"message": messages.named("x", due_at=due)}]}
        status = await _request_in(
            connection, refused.state(), q1, "schedule-message", entries
        )
        assert status == 400
        with pytest.raises(NotAccepted, match="cannot schedule"):
            await refused.commit()


async def test_dead_letter_reason_reaches_the_owner(queues: Queues) -> None:
    brokers, q1, _, _ = queues.all()
    async with await brokers.connect("2") as connection:
        await _send(connection, q1, "in")
        receiver = await connection.receiver(q1, credit=1)
        (message,) = await received(receiver, 1)
        transaction = await (await connection.controller()).declare()
        at = message.delivery_id
        await receiver.settle_confirmed(at, at, transaction.state(Rejected()))
        await transaction.commit()
    assert await names_in(brokers, f"{q1}/$DeadLetterQueue") == ["in"]


async def test_large_transaction_is_told_in_portions(queues: Queues) -> None:
    brokers, q1, _, _ = queues.all()
    async with await brokers.connect("2") as connection:
        transaction = await (await connection.controller()).declare()
        sender = await connection.sender(q1)
        names = [f"m{number}" for number in range(20)]
        for name in names:
            large = messages.named(name, 100_000)
            await sender.send(large, state=transaction.state())
        await transaction.commit()
    assert await names_in(brokers, q1) == names


def _keyed(name: str, key: str) -> bytes:
    annotations = {Symbol("x-opt-partition-key"): key}
    return encode_message(
        Message(message_annotations=annotations, body=AmqpValue(name))
    )


async def test_t08_one_key_in_a_partitioned_queue_of_several_brokers(
    cluster: Brokers,
) -> None:
    brokers = cluster
    await made_at(brokers, "1", "p", enable_partitioning=True)
    async with await brokers.connect("2") as connection:
        controller = await connection.controller()
        sender = await connection.sender("p")
        keys = [f"key{number}" for number in range(8)]
        for key in keys:
            transaction = await controller.declare()
            for name in ("1", "2"):
                await sender.send(_keyed(name, key), state=transaction.state())
            await transaction.commit()
        transaction = await controller.declare()
        await sender.send(_keyed("1", "a"), state=transaction.state())
        with pytest.raises(NotAccepted, match="another key"):
            await sender.send(_keyed("2", "b"), state=transaction.state())
        with pytest.raises(NotAccepted, match="rolled back"):
            await transaction.commit()
        found = await messages.peek_all(connection, "p")
        assert len(found) == 2 * len(keys)


class Worker:
    """Takes messages of a queue and sends each on to another, in one transaction, by
    whatever broker answers."""

    def __init__(self, brokers: Brokers, source: str, target: str) -> None:
        self._brokers = brokers
        self._source = source
        self._target = target
        self.committed_count = 0
        self.unknown_count = 0

    async def run(self) -> None:
        while True:
            for name in await self._brokers.alive():
                try:
                    async with await self._brokers.connect(name) as connection:
                        await self._move_on(connection)
                except (ClientError, ServiceBusError, OSError, TimeoutError):
                    await asyncio.sleep(0.05)

    async def _move_on(self, connection: ClientConnection) -> None:
        controller = await connection.controller()
        sender = await connection.sender(self._target)
        receiver = await connection.receiver(self._source, credit=2)
        while True:
            async with asyncio.timeout(5):
                (message,) = await receiver.receive_batch(1)
                transaction = await controller.declare()
                name = messages.found(message.payload).name
                out = messages.named(name)
                await sender.send(out, state=transaction.state())
                at, state = message.delivery_id, transaction.state(ACCEPTED_OUTCOME)
                await receiver.settle_confirmed(at, at, state)
                await self._commit(transaction.commit())

    async def _commit(self, committing: Awaitable[None]) -> None:
        try:
            await committing
        except NotAccepted as error:
            self.unknown_count += "not known" in str(error)
            raise
        self.committed_count += 1


async def test_owner_is_killed_amid_transactions(brokers: Brokers) -> None:
    """Each message is either still there, or was sent on exactly once."""
    await brokers.start("--brokers=3")
    for name in "12":
        # Locks of workers that were cut off run out soon.
        await made_at(brokers, name, f"q{name}", lock_duration_ms=5_000)
    names = sorted(f"m{number:03}" for number in range(COUNT))
    async with await brokers.connect("3") as connection:
        await _send(connection, "q1", *names)
    workers = [Worker(brokers, "q1", "q2") for _ in range(WORKERS)]
    tasks = [asyncio.create_task(one.run()) for one in workers]
    for name, wanted in (("1", COUNT // 4), ("2", COUNT // 2)):

        async def are_moved(wanted: int = wanted) -> bool:
            return sum(one.committed_count for one in workers) >= wanted

        await until(are_moved)
        await brokers.kill(name)
        await until(lambda: brokers.owns_all("1", "2", "3"))

    async def is_empty() -> bool:
        return await names_in(brokers, "q1") == []

    await until(is_empty, 2 * PATIENCE_SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    async def are_all_there() -> bool:
        return len(await names_in(brokers, "q2") or ()) >= COUNT

    await until(are_all_there)
    assert sorted(await names_in(brokers, "q2") or ()) == names
