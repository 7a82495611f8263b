"""`kill -9` with transactions: all of one, or nothing, over two queues.

A worker receives from `in` and, in one transaction, sends copies to `left` and `right`
and completes the received message. Whenever the bus is killed, each message is in `in`
without copies, or is gone and has one copy in each of the two.
"""

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from crash import messages
from crash.server_process import PATIENCE_SECONDS, ServerProcess
from twinbus.amqp.outcomes import ACCEPTED_OUTCOME
from twinbus.client import ClientConnection, ConnectionLost, NotAccepted

ROUNDS = int(os.environ.get("TWINBUS_CRASH_ROUNDS", "8"))
KILLS_PER_SEED = 4
SEEDS = -(-ROUNDS // KILLS_PER_SEED)
WORKERS = 4

SOURCE, LEFT, RIGHT = "in", "left", "right"
CONFIG = f"""
[queues.{SOURCE}]
lock_duration = "PT5M"
max_delivery_count = 1000
[queues.{LEFT}]
[queues.{RIGHT}]
"""


class Mover:
    """Feeds `in`, and moves what is there, a transaction each."""

    def __init__(self, server: ServerProcess, random: Random) -> None:
        self._server = server
        self._random = random
        self._prefix = f"{random.getrandbits(40):010x}"
        self._numbers = itertools.count()
        # Names whose acceptance, or whose commit, was confirmed.
        self.sent: set[str] = set()
        self.moved: set[str] = set()
        # Set with the first confirmed commit.
        self.is_moving = asyncio.Event()

    async def run(self) -> None:
        """Work until the bus is gone."""
        await asyncio.gather(
            self._until_the_end(self._feed),
            *(self._until_the_end(self._move) for _ in range(WORKERS)),
        )

    async def _until_the_end(
        self, work: Callable[[ClientConnection], Awaitable[None]]
    ) -> None:
        try:
            connection = await self._server.connect()
        except (OSError, ConnectionLost):
            return
        try:
            await work(connection)
        except ConnectionLost:
            return
        finally:
            connection.abort()

    async def _feed(self, connection: ClientConnection) -> None:
        sender = await connection.sender(SOURCE)
        while True:
            name = f"{self._prefix}-{next(self._numbers)}"
            await sender.send(messages.named(name))
            self.sent.add(name)

    async def _move(self, connection: ClientConnection) -> None:
        receiver = await connection.receiver(SOURCE, credit=10)
        left, right = await connection.sender(LEFT), await connection.sender(RIGHT)
        controller = await connection.controller()
        while True:
            for delivery in await receiver.receive_batch(5):
                name = messages.found(delivery.payload).name
                copy = messages.named(name)
                transaction = await controller.declare()
                await left.send(copy, state=transaction.state())
                at = delivery.delivery_id
                state = transaction.state(ACCEPTED_OUTCOME)
                await receiver.settle_confirmed(at, at, state)
                await right.send(copy, state=transaction.state())
                if self._random.random() < 0.2:
                    await transaction.roll_back()
                    continue
                await transaction.commit()
                self.moved.add(name)
                self.is_moving.set()


async def names_in(connection: ClientConnection, queue: str) -> Counter[str]:
    found = await messages.peek_all(connection, queue)
    return Counter(item.name for item in found)


async def audit(connection: ClientConnection, sent: set[str], moved: set[str]) -> None:
    """Each message is whole on one side, and where its client was told it is."""
    source = await names_in(connection, SOURCE)
    left = await names_in(connection, LEFT)
    right = await names_in(connection, RIGHT)
    assert left == right
    assert not source & left, "moved, and still there"
    assert set(left.values()) | set(source.values()) <= {1}
    assert moved <= set(left), "a confirmed commit is lost"
    assert sent <= set(source) | set(left), "an accepted message is lost"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_commits_are_whole_whenever_the_bus_is_killed(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    sent: set[str] = set()
    moved: set[str] = set()
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        for _ in range(KILLS_PER_SEED):
            mover = Mover(server, random)
            work = asyncio.create_task(mover.run())
            async with asyncio.timeout(PATIENCE_SECONDS):
                await mover.is_moving.wait()
            await asyncio.sleep(random.uniform(0.0, 0.3))
            server.kill()
            await work
            sent |= mover.sent
            moved |= mover.moved
            await server.start()
            async with await server.connect() as connection:
                await audit(connection, sent, moved)
        assert "Traceback" not in server.errors
    assert moved


async def test_kill_between_send_and_commit_leaves_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        connection = await server.connect()
        await (await connection.sender(SOURCE)).send(messages.named("x"))
        receiver = await connection.receiver(SOURCE, credit=1)
        [delivery] = await receiver.receive_batch(1)
        transaction = await (await connection.controller()).declare()
        for queue in (LEFT, RIGHT):
            sender = await connection.sender(queue)
            await sender.send(messages.named("x"), state=transaction.state())
        at = delivery.delivery_id
        state = transaction.state(ACCEPTED_OUTCOME)
        await receiver.settle_confirmed(at, at, state)
        server.kill()
        with pytest.raises(ConnectionLost):
            await transaction.commit()
        await server.start()
        async with await server.connect() as connection:
            await audit(connection, {"x"}, set())
            assert await names_in(connection, SOURCE) == Counter(["x"])
            controller = await connection.controller()
            with pytest.raises(NotAccepted, match="unknown-id"):
                await controller.discharge(transaction.txn_id, fail=False)


async def test_confirmed_commit_outlives_a_kill(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        connection = await server.connect()
        transaction = await (await connection.controller()).declare()
        for queue in (LEFT, RIGHT):
            sender = await connection.sender(queue)
            await sender.send(messages.named("x"), state=transaction.state())
        await transaction.commit()
        server.kill()
        await server.start()
        async with await server.connect() as connection:
            for queue in (LEFT, RIGHT):
                assert await names_in(connection, queue) == Counter(["x"])
