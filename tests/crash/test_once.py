"""`kill -9` where a message must exist once: duplicate detection and forwarding.

A client without an answer sends its messages again, with the same ids: with duplicate
detection one of each is left. A message of a queue that forwards is in one place at any
moment, the queue or its target.
"""

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from crash import messages
from crash.client_work import KILLS_PER_SEED, SEEDS, killed_amid
from crash.server_process import PATIENCE_SECONDS, ServerProcess
from twinbus.client import ClientConnection

ONCE, TARGET, SOURCE = "once", "target", "source"
CONFIG = f"""
[queues.{ONCE}]
requires_duplicate_detection = true
duplicate_detection_history_time_window = "PT1H"
[queues.{TARGET}]
[queues.{SOURCE}]
forward_to = "{TARGET}"
[topics.{ONCE}-topic]
requires_duplicate_detection = true
duplicate_detection_history_time_window = "PT1H"
[topics.{ONCE}-topic.subscriptions.all]
"""
DETECTING = ((ONCE, ONCE), (f"{ONCE}-topic", f"{ONCE}-topic/Subscriptions/all"))


class Sending:
    """Sends to one entity and remembers what it sent, answered or not."""

    def __init__(self, entity: str, random: Random) -> None:
        self._entity = entity
        self._random = random
        self._prefix = f"{random.getrandbits(40):010x}"
        self._numbers = itertools.count()
        self.sent: list[str] = []
        self.accepted: set[str] = set()
        self.has_begun = asyncio.Event()

    async def run(self, connection: ClientConnection) -> None:
        sender = await connection.sender(self._entity)
        while True:
            count = self._random.randint(1, 30)
            names = [f"{self._prefix}-{next(self._numbers)}" for _ in range(count)]
            self.sent += names
            await sender.send_many([messages.named(name) for name in names])
            self.accepted |= set(names)
            self.has_begun.set()


async def names_in(connection: ClientConnection, entity: str) -> Counter[str]:
    found = await messages.peek_all(connection, entity)
    return Counter(item.name for item in found)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(("entity", "place"), DETECTING, ids=["queue", "topic"])
async def test_what_is_sent_again_after_a_kill_is_there_once(
    tmp_path: Path, entity: str, place: str, seed: int
) -> None:
    random = Random(seed)
    everything: set[str] = set()
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        for _ in range(KILLS_PER_SEED):
            sending = Sending(entity, random)
            begun = sending.has_begun
            async with killed_amid(server, random, begun, sending.run) as connection:
                found = await names_in(connection, place)
                assert sending.accepted | everything <= set(found)
                everything |= set(sending.sent)
                again = [messages.named(name) for name in everything]
                await (await connection.sender(entity)).send_many(again)
                assert await names_in(connection, place) == Counter(everything)
        assert "Traceback" not in server.errors


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_forwarded_message_is_at_one_place_whenever_the_bus_is_killed(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    arrived: Counter[str] = Counter()
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        for _ in range(KILLS_PER_SEED):
            sending = Sending(SOURCE, random)
            begun = sending.has_begun
            async with killed_amid(server, random, begun, sending.run) as connection:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while await names_in(connection, SOURCE):
                        pass
                found = await names_in(connection, TARGET)
                assert set(found.values()) <= {1}, "forwarded twice"
                assert sending.accepted | set(arrived) <= set(found), "lost on the way"
                assert set(found) <= set(arrived) | set(sending.sent)
                assert not await names_in(connection, f"{SOURCE}/$DeadLetterQueue")
                arrived = found
        assert "Traceback" not in server.errors
    assert arrived
