"""`kill -9` with topics: a message is in all subscriptions, or in none.

Meanwhile a rule of one subscription is added and removed. Confirmed changes of it are
there after the kill, and every message was matched with or without the rule, never in
between.
"""

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from crash import messages
from crash.client_work import KILLS_PER_SEED, SEEDS, killed_amid
from crash.server_process import ServerProcess
from twinbus.client import ClientConnection

TOPIC = "events"
NAMES = ("a", "b", "c")
CONFIG = "".join(f"[topics.{TOPIC}.subscriptions.{name}]\n" for name in (*NAMES, "d"))
TOGGLED, TOGGLED_RULE = f"{TOPIC}/Subscriptions/d", "toggled"
_BATCH_FORMAT = 0x80013700


class Publisher:
    """Sends to the topic, one by one and in batches, and toggles a rule."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._prefix = f"{random.getrandbits(40):010x}"
        self._numbers = itertools.count()
        # Names of which acceptance was confirmed, and of batches as a whole.
        self.accepted: set[str] = set()
        self.batches: list[list[str]] = []
        # Whether the rule may be there, by what was asked and what was confirmed.
        self.rule_may_be: set[bool] = {False}
        self.has_begun = asyncio.Event()

    def _new_names(self, count: int) -> list[str]:
        return [f"{self._prefix}-{next(self._numbers)}" for _ in range(count)]

    def probe_name(self) -> str:
        """Of its own, though two publishers may have got equally far."""
        return f"{self._prefix}-probe"

    async def send(self, connection: ClientConnection) -> None:
        sender = await connection.sender(TOPIC)
        while True:
            names = self._new_names(self._random.randint(1, 20))
            await sender.send_many([messages.named(name) for name in names])
            self.accepted |= set(names)
            self.has_begun.set()

    async def send_batches(self, connection: ClientConnection) -> None:
        sender = await connection.sender(TOPIC)
        while True:
            names = self._new_names(self._random.randint(2, 20))
            self.batches.append(names)
            envelope = messages.batch_of(messages.named(name) for name in names)
            await sender.send_many([envelope], message_format=_BATCH_FORMAT)
            self.accepted |= set(names)

    async def toggle(self, connection: ClientConnection) -> None:
        filter = {"sql-filter": {"expression": "sys.MessageId LIKE '%'"}}
        added = {"rule-name": TOGGLED_RULE, "rule-description": filter}
        while True:
            for is_there, operation, body in (
                (True, "add-rule", added),
                (False, "remove-rule", {"rule-name": TOGGLED_RULE}),
            ):
                self.rule_may_be.add(is_there)
                await messages.manage(connection, TOGGLED, operation, body)
                self.rule_may_be = {is_there}


async def names_in(connection: ClientConnection, name: str) -> Counter[str]:
    found = await messages.peek_all(connection, f"{TOPIC}/Subscriptions/{name}")
    return Counter(item.name for item in found)


async def rules_of_toggled(connection: ClientConnection) -> set[str]:
    body = {"top": 100, "skip": 0}
    answer = await messages.manage(connection, TOGGLED, "enumerate-rules", body)
    return {rule["rule-description"].value[2] for rule in answer.get("rules", [])}


async def audit(connection: ClientConnection, publisher: Publisher) -> set[str]:
    """Returns what has arrived."""
    first, *others = [await names_in(connection, name) for name in NAMES]
    for other in others:
        assert other == first, "with some subscriptions only"
    doubled = {name: count for name, count in first.items() if count > 1}
    arrived = set(first)
    assert not doubled, f"more than once; lost: {publisher.accepted - arrived}"
    assert publisher.accepted <= arrived, "an accepted message is lost"
    for batch in publisher.batches:
        assert len(arrived & set(batch)) in (0, len(batch)), "half a batch"
    toggled = await names_in(connection, "d")
    assert set(toggled) <= arrived and set(toggled.values()) <= {1}
    return arrived


async def expect_the_rule(connection: ClientConnection, publisher: Publisher) -> None:
    """It is there or not as confirmed, and messages are judged by what is there."""
    rules = await rules_of_toggled(connection)
    is_there = TOGGLED_RULE in rules
    assert is_there in publisher.rule_may_be
    probe = publisher.probe_name()
    await (await connection.sender(TOPIC)).send(messages.named(probe))
    assert (probe in await names_in(connection, "d")) == is_there
    if is_there:
        body = {"rule-name": TOGGLED_RULE}
        await messages.manage(connection, TOGGLED, "remove-rule", body)


async def remove_default_rule(connection: ClientConnection) -> None:
    body = {"rule-name": "$Default"}
    await messages.manage(connection, TOGGLED, "remove-rule", body)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_fan_out_is_whole_whenever_the_bus_is_killed(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    arrived: set[str] = set()
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        async with await server.connect() as connection:
            await remove_default_rule(connection)
        for _ in range(KILLS_PER_SEED):
            publisher = Publisher(random)
            clients = (publisher.send, publisher.send_batches, publisher.toggle)
            begun = publisher.has_begun
            async with killed_amid(server, random, begun, *clients) as connection:
                found = await audit(connection, publisher)
                assert arrived <= found, "what outlived one kill is lost by another"
                arrived = found
                await expect_the_rule(connection, publisher)
        assert "Traceback" not in server.errors
    assert arrived
