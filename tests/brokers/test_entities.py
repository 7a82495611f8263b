"""Entities that were made at one broker are known to all, and served where their store
is."""

import asyncio
import os
import signal

from crash import messages

from twinbus.client.errors import ClientError
from twinbus.errors import EntityAlreadyExists, ServiceBusError

from .processes import Brokers, as_json, until


async def _known_to_all(brokers: Brokers, paths: set[str]) -> bool:
    return all([await brokers.paths(name) == paths for name in await brokers.alive()])


async def test_entities_are_seen_at_the_other_brokers(brokers: Brokers) -> None:
    await brokers.start("--brokers=3")
    for name in await brokers.alive():
        path = f"q{name}"
        await brokers.ask(name, "create-queue", path=path, properties="{}")
    await until(lambda: _known_to_all(brokers, {"q1", "q2", "q3"}), 5)
    await brokers.ask("1", "create-topic", path="t", properties="{}")
    await brokers.ask(
        "1", "create-subscription", path="t/subscriptions/s", properties="{}"
    )
    expected = {"q1", "q2", "q3", "t", "t/Subscriptions/s"}

    async def is_known() -> bool:
        found = [await brokers.paths(name) for name in await brokers.alive()]
        return all(
            {p.lower() for p in one} == {p.lower() for p in expected} for one in found
        )

    await until(is_known, 5)
    await brokers.ask(
        "1", "update-entity", path="q1", properties=as_json(max_delivery_count=3)
    )

    async def is_updated() -> bool:
        found = await brokers.ask("2", "get-entity", path="q1")
        return bool(found["properties"]["max_delivery_count"] == 3)

    await until(is_updated, 5)
    await brokers.ask("1", "delete-entity", path="t")
    await until(lambda: _known_to_all(brokers, {"q1", "q2", "q3"}), 5)


async def test_a_path_is_made_once_whoever_asks_whom(brokers: Brokers) -> None:
    await brokers.start("--brokers=3")

    async def create(name: str, path: str) -> bool:
        try:
            await brokers.ask(name, "create-queue", path=path, properties="{}")
            return True
        except EntityAlreadyExists:
            return False

    for number in range(5):
        made = await asyncio.gather(*(create(name, f"q{number}") for name in "123"))
        assert sum(made) == 1, number


async def test_messages_move_with_their_store(brokers: Brokers) -> None:
    await brokers.start("--brokers=2")
    await brokers.ask("1", "create-queue", path="q", properties="{}")
    async with await brokers.connect("1") as connection:
        sender = await connection.sender("q")
        for number in range(10):
            await sender.send(messages.named(f"m{number}"))
    broker = (await brokers.alive())["1"]
    os.kill(broker.process.pid, signal.SIGKILL)

    async def are_found() -> bool:
        for name in await brokers.alive():
            try:
                async with await brokers.connect(name) as connection:
                    found = await messages.peek_all(connection, "q")
            except (ClientError, OSError, ServiceBusError, KeyError):
                continue
            if {one.name for one in found} == {f"m{number}" for number in range(10)}:
                return True
        return False

    await until(are_found, 15)
