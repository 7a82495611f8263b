"""`kill -9` during fan-out, forwarding and duplicate detection.

Senders use a topic with three subscriptions, a chain of queues and a queue that drops
duplicates, until the bus is killed. Then, at whatever moment that was:

- a message of the topic is in all of its subscriptions or in none;
- a message of the chain is in one of its queues, once;
- an id is in the queue once, however often it was sent again;
- messages that were confirmed to a sender are there.
"""

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from crash.messages import named, peek_all
from crash.server_process import ServerProcess
from twinbus.client import ClientConnection, ConnectionLost

SUBSCRIPTIONS = ("a", "b", "c")
CHAIN = ("first", "second", "third", "last")
KILLS = 3
SEEDS = 3

CONFIG = """
[topics.news]
[topics.news.subscriptions.a]
[topics.news.subscriptions.b]
[topics.news.subscriptions.c]
[queues.last]
[queues.third]
forward_to = "last"
[queues.second]
forward_to = "third"
[queues.first]
forward_to = "second"
[queues.once]
requires_duplicate_detection = true
"""


class Senders:
    """What was sent where, and what of it was accepted."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.sent: dict[str, set[str]] = {"news": set(), "first": set(), "once": set()}
        self.accepted: dict[str, set[str]] = {name: set() for name in self.sent}

    async def run(self, server: ServerProcess) -> None:
        """Send until the bus is gone."""
        await asyncio.gather(*(self._send(server, name) for name in self.sent))

    async def _send(self, server: ServerProcess, target: str) -> None:
        try:
            connection = await server.connect()
        except (OSError, ConnectionLost):
            return
        try:
            sender = await connection.sender(target)
            while True:
                names = [f"m{next(self._numbers)}" for _ in range(20)]
                self.sent[target].update(names)
                # Where duplicates are dropped, each goes out twice.
                times = 2 if target == "once" else 1
                await sender.send_many([named(name) for name in names * times])
                self.accepted[target].update(names)
        except ConnectionLost:
            return
        finally:
            connection.abort()

    async def send_again(self, connection: ClientConnection) -> None:
        """Everything of unknown fate, as a client would after a kill."""
        sender = await connection.sender("once")
        doubtful = sorted(self.sent["once"])[-500:]
        await sender.send_many([named(name) for name in doubtful])
        self.accepted["once"].update(doubtful)


async def names_in(connection: ClientConnection, *entities: str) -> Counter[str]:
    found = [item for name in entities for item in await peek_all(connection, name)]
    return Counter(item.name for item in found)


def expect_once(found: Counter[str], sent: set[str], accepted: set[str]) -> None:
    """Nothing twice, nothing invented, nothing accepted missing."""
    assert [name for name, count in found.items() if count > 1] == []
    assert found.keys() - sent == set()
    assert accepted - found.keys() == set()


async def expect_all_or_none(connection: ClientConnection, senders: Senders) -> None:
    copies = [
        await names_in(connection, f"news/Subscriptions/{name}")
        for name in SUBSCRIPTIONS
    ]
    for found in copies:
        expect_once(found, senders.sent["news"], senders.accepted["news"])
        assert found == copies[0]


async def expect_at_the_end(connection: ClientConnection, senders: Senders) -> None:
    sent, accepted = senders.sent["first"], senders.accepted["first"]
    async with asyncio.timeout(30):
        while await names_in(connection, *CHAIN[:-1]):
            pass
    dead = await names_in(connection, *(f"{name}/$DeadLetterQueue" for name in CHAIN))
    assert dead == Counter()
    expect_once(await names_in(connection, *CHAIN), sent, accepted)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_messages_are_whole_after_a_kill(tmp_path: Path, seed: int) -> None:
    random, senders = Random(seed), Senders()
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        for _ in range(KILLS):
            work = asyncio.create_task(senders.run(server))
            await asyncio.sleep(random.uniform(0.1, 0.5))
            server.kill()
            await work
            await server.start()
            async with await server.connect() as connection:
                await expect_all_or_none(connection, senders)
                await expect_at_the_end(connection, senders)
                await senders.send_again(connection)
                once = await names_in(connection, "once")
                expect_once(once, senders.sent["once"], senders.accepted["once"])
        assert "Traceback" not in server.errors
    assert all(senders.accepted.values())
