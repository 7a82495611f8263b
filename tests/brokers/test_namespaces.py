"""Namespaces with several brokers: made at one, known to all; links and requests are
passed on within a namespace."""

import asyncio
import json
import time
from typing import Any

from crash import messages
from http_messaging.caller import Caller

from twinbus.amqp.sasl import plain
from twinbus.amqp.types import Symbol
from twinbus.auth import sas
from twinbus.broker.descriptions.access_rule import ROOT_KEY_NAME
from twinbus.client import ClientConnection, connect
from twinbus.client.errors import ClientError
from twinbus.client.management import ask_namespace

from .processes import PATIENCE_SECONDS, Brokers, as_json, until
from .queues_at import received

QUEUES = ("q1", "q2", "q3")


def call(brokers: Brokers, method: str, path: str, content: object = None) -> Any:
    """A request about namespaces, to whichever broker accepts."""
    ends_at = int((time.time() + 3600) * 1000)
    token = sas.make(
        resource="http://localhost/",
        key_name=ROOT_KEY_NAME,
        key=brokers.root_key,
        expires_at=ends_at,
    )
    caller = Caller(brokers.ports[""], token)
    body = b"" if content is None else json.dumps(content).encode()
    answer = caller(method, path, body)
    caller.close()
    assert answer.status in (200, 201), answer
    return json.loads(answer.body)


class Shop:
    """A namespace, as its clients reach it at each broker."""

    def __init__(self, brokers: Brokers, made: dict[str, Any]) -> None:
        self._brokers = brokers
        self.key = made["root_rule"]["primary_key"]
        (self.port,) = made["ports"]

    async def at(self, name: str) -> ClientConnection:
        """A connection to this broker."""
        sasl = plain(ROOT_KEY_NAME, self.key)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                connection = await connect(
                    *("127.0.0.1", self._brokers.port),
                    sasl=sasl,
                    hostname="shop.localhost",
                )
                if connection.peer_properties.get(Symbol("twinbus:broker")) == name:
                    return connection
                await connection.close()

    async def ask(self, name: str, operation: str, **arguments: str) -> Any:
        async with await self.at(name) as connection:
            return await ask_namespace(connection, operation, arguments)

    async def is_known_at(self, name: str) -> bool:
        try:
            found = await self.ask(name, "list-entities")
        except (ClientError, OSError):
            return False
        return {one["path"] for one in found} == set(QUEUES)


async def made_shop(brokers: Brokers) -> Shop:
    """With a queue in a store of each broker; the default namespace has the same."""
    await brokers.start("--brokers=3")
    await until(lambda: brokers.owns_all("1", "2", "3"))
    made = call(brokers, "POST", "/$namespaces", {"name": "shop", "ports": [0]})
    shop = Shop(brokers, made)
    for number, path in enumerate(QUEUES, 1):
        await brokers.make(str(number), "queue", path)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    await shop.ask(
                        str(number), "create-queue", path=path, properties=as_json()
                    )
                    break
                except (ClientError, OSError):
                    await asyncio.sleep(0.1)
    for name in "123":
        await until(lambda name=name: shop.is_known_at(name))
    return shop


async def test_namespace_is_served_by_all_brokers(brokers: Brokers) -> None:
    shop = await made_shop(brokers)
    for name in "123":
        async with await shop.at(name) as connection:
            for path in QUEUES:
                sender = await connection.sender(path)
                await sender.send(messages.named(f"from {name}"))
    for name in "123":
        # Nothing has come to the default namespace, whose paths are the same.
        async with await brokers.connect(name) as connection:
            for path in QUEUES:
                assert await messages.peek_all(connection, path) == []
    sent = {f"from {name}" for name in "123"}
    for name, path in zip("231", QUEUES, strict=True):
        async with await shop.at(name) as connection:
            assert {one.name for one in await messages.peek_all(connection, path)} == (
                sent
            )
            receiver = await connection.receiver(path)
            found = await received(receiver, 3)
            assert {messages.found(one.payload).name for one in found} == sent
    # The port of its own is accepted from by all of them, and means it.
    sasl = plain(ROOT_KEY_NAME, shop.key)
    async with await connect("127.0.0.1", shop.port, sasl=sasl) as connection:
        await messages.peek_all(connection, "q1")


async def test_removed_namespace_is_gone_everywhere(brokers: Brokers) -> None:
    shop = await made_shop(brokers)
    call(brokers, "DELETE", "/$namespaces/shop")

    async def is_refused() -> bool:
        for _ in range(9):
            try:
                await (await brokers_connection(brokers, shop)).close()
                return False
            except (ClientError, OSError):
                continue
        return True

    await until(is_refused)
    for name in "123":
        assert await brokers.paths(name) == set(QUEUES)
    names = [one["name"] for one in call(brokers, "GET", "/$namespaces")["namespaces"]]
    assert names == ["twinbus"]


async def brokers_connection(brokers: Brokers, shop: Shop) -> ClientConnection:
    sasl = plain(ROOT_KEY_NAME, shop.key)
    return await connect(
        "127.0.0.1", brokers.port, sasl=sasl, hostname="shop.localhost"
    )


async def test_namespace_goes_on_when_a_broker_is_killed(brokers: Brokers) -> None:
    shop = await made_shop(brokers)
    async with await shop.at("1") as connection:
        for path in QUEUES:
            sender = await connection.sender(path)
            await sender.send(messages.named("kept"))
    await brokers.kill("2")

    async def is_there(path: str) -> bool:
        try:
            async with await brokers_connection(brokers, shop) as connection:
                found = await messages.peek_all(connection, path)
        except (ClientError, OSError, TimeoutError):
            return False
        return [one.name for one in found] == ["kept"]

    for path in QUEUES:
        await until(lambda path=path: is_there(path))
