"""What each key opens at each door: all that its claims allow, and nothing else.

Rules of the namespace, of a queue and of a topic, with one claim each, are tried at
each door on each entity. AMQP is tried with a token and with the key itself, over TCP
and over WebSockets.
"""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

import pytest
from bulk.caller import append_body
from wire.message import data_message

from hostile.websocket_bridge import websocket_bridge
from twinbus.amqp.sasl import plain
from twinbus.auth import sas
from twinbus.client import ClientError, RequestFailed, connect
from twinbus.client.connection import ClientConnection
from twinbus.client.link import ClientLink
from twinbus.client.management import ask, ask_namespace
from twinbus.errors import (
    AuthenticationFailed,
    MessageNotFound,
    ServiceBusError,
    UnauthorizedAccess,
)
from twinbus.testing import Bus

SEND, LISTEN, MANAGE = "Send", "Listen", "Manage"
QUEUES = ("mine", "mine/below", "other")
TOPIC, SUBSCRIPTION = "news", "news/Subscriptions/all"
SCOPES = ("", "mine", TOPIC)
BELOW = {"mine": ("mine",), TOPIC: (TOPIC, SUBSCRIPTION)}
PATIENCE_SECONDS = 60.0
# Ways to show a key or token of `opens`.
DOOR_COUNT = 7


class Key(NamedTuple):
    scope: str
    claim: str

    @property
    def name(self) -> str:
        return f"{self.scope or 'namespace'}-{self.claim}".lower()

    @property
    def text(self) -> str:
        return f"key of {self.name}, long enough"

    def allows(self, claim: str, path: str) -> bool:
        is_covered = not self.scope or path in BELOW[self.scope]
        return is_covered and self.claim in (claim, MANAGE)


KEYS = [Key(scope, claim) for scope in SCOPES for claim in (SEND, LISTEN, MANAGE)]


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with Bus(store="memory") as started:
        for queue in QUEUES:
            started.create_queue(queue)
        started.create_topic(TOPIC)
        started.create_subscription(TOPIC, "all")
        keys = started.server.namespace.keys
        for key in KEYS:
            started._run(keys.create(key.scope, key.name, [key.claim], key.text))
        yield started


# --- AMQP -------------------------------------------------------------------------


@asynccontextmanager
async def directly(bus_port: int) -> AsyncIterator[int]:
    yield bus_port


@asynccontextmanager
async def by_key(
    bus: Bus, port: int, key: Key, path: str
) -> AsyncIterator[ClientConnection]:
    sasl = plain(key.name, key.text)
    async with await connect("127.0.0.1", port, sasl=sasl) as connection:
        yield connection


@asynccontextmanager
async def by_token(
    bus: Bus, port: int, key: Key, path: str
) -> AsyncIterator[ClientConnection]:
    async with await connect("127.0.0.1", port) as connection:
        for audience in dict.fromkeys((path, key.scope)):
            # Without one, the connection goes on as a stranger.
            try:
                await connection.put_token(f"sb://bus/{audience}", token(bus, key))
            except RequestFailed as error:
                assert error.status == 401
        yield connection


def token(bus: Bus, key: Key, *, lasting_ms: int = 600_000) -> str:
    """For all that the key is good for."""
    return sas.make(
        resource=f"http://localhost:{bus.port}/",
        key_name=key.name,
        key=key.text,
        expires_at=bus.clock.now() + lasting_ms,
    )


async def opened_sender(connection: ClientConnection, path: str) -> None:
    await connection.sender(path)


async def opened_receiver(connection: ClientConnection, path: str) -> None:
    await (await connection.receiver(path)).close()


async def peeked(connection: ClientConnection, path: str) -> None:
    await ask(connection, path, "peek-message", PEEK)


async def cancelled(connection: ClientConnection, path: str) -> None:
    with pytest.raises(MessageNotFound):
        await ask(connection, path, "cancel-scheduled-message", CANCEL)


async def listed(connection: ClientConnection, path: str) -> None:
    await ask_namespace(connection, "list-entities", {})


async def listed_keys(connection: ClientConnection, path: str) -> None:
    await ask_namespace(connection, "list-keys", {"path": "", "with_keys": "yes"})


PEEK: dict[object, object] = {"from-sequence-number": 1, "message-count": 1}
CANCEL: dict[object, object] = {"sequence-numbers": [77]}
Amqp = Callable[[ClientConnection, str], Awaitable[None]]
AMQP: list[tuple[Amqp, str, tuple[str, ...]]] = [
    (opened_sender, SEND, (*QUEUES, TOPIC)),
    (cancelled, SEND, (*QUEUES, TOPIC)),
    (opened_receiver, LISTEN, (*QUEUES, SUBSCRIPTION)),
    (peeked, LISTEN, (*QUEUES, SUBSCRIPTION)),
    (listed, MANAGE, ("",)),
    (listed_keys, MANAGE, ("",)),
]


async def is_allowed(attempt: Awaitable[None]) -> bool:
    try:
        await attempt
    except (UnauthorizedAccess, AuthenticationFailed):
        return False
    except ClientError as refused:
        assert refused.error is not None
        assert refused.error.condition == "amqp:unauthorized-access"
        return False
    return True


@pytest.mark.parametrize("way", [directly, websocket_bridge])
@pytest.mark.parametrize("proved", [by_key, by_token])
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
async def test_amqp_opens_what_the_key_allows(
    bus: Bus,
    key: Key,
    proved: Callable[..., AbstractAsyncContextManager[ClientConnection]],
    way: Callable[[int], AbstractAsyncContextManager[int]],
) -> None:
    async with way(bus.port) as port:
        for attempt, claim, paths in AMQP:
            for path in paths:
                async with proved(bus, port, key, path) as connection:
                    found = await is_allowed(attempt(connection, path))
                expected = key.allows(claim, path)
                assert found == expected, (attempt.__name__, path)


async def until_lost(link: ClientLink) -> None:
    """Wait for the end of a link, and raise its reason."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while link.usable:
            await link.changed()
    link.check()


@pytest.mark.parametrize("way", [directly, websocket_bridge])
async def test_links_end_with_their_token(
    bus: Bus, way: Callable[[int], AbstractAsyncContextManager[int]]
) -> None:
    """And neither the old token nor the connection opens others."""
    key = Key("", MANAGE)
    async with way(bus.port) as port, await connect("127.0.0.1", port) as connection:
        passing = token(bus, key, lasting_ms=60_000)
        await connection.put_token("sb://bus/other", passing)
        sender = await connection.sender("other")
        receiver = await connection.receiver("other")
        await sender.send(data_message("in time"))
        await asyncio.to_thread(bus.advance, 60)
        for link in (sender, receiver):
            assert not await is_allowed(until_lost(link))
        assert not await is_allowed(opened_sender(connection, "other"))
        assert not await is_allowed(opened_receiver(connection, "other"))
        with pytest.raises(RequestFailed) as refused:
            await connection.put_token("sb://bus/other", passing)
        assert refused.value.status == 401
        await connection.put_token("sb://bus/other", token(bus, key))
        assert await is_allowed(opened_sender(connection, "other"))


# --- HTTP -------------------------------------------------------------------------


def asked(bus: Bus, key: Key, method: str, target: str, body: bytes | str = b"") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", bus.port, PATIENCE_SECONDS)
    try:
        headers = {"Authorization": token(bus, key)}
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


HTTP = [
    ("POST", "/{}/messages", SEND, (*QUEUES, TOPIC)),
    ("DELETE", "/{}/messages/head?timeout=0", LISTEN, (*QUEUES, SUBSCRIPTION)),
    ("POST", "/{}/messages/head?timeout=0", LISTEN, (*QUEUES, SUBSCRIPTION)),
    ("GET", "/{}", MANAGE, (*QUEUES, TOPIC, SUBSCRIPTION)),
    ("GET", "/$Resources/queues", MANAGE, ("",)),
    ("GET", "/$namespaceinfo", MANAGE, ("",)),
    ("GET", "/$faults", MANAGE, ("",)),
    ("GET", "/metrics", LISTEN, ("",)),
]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
async def test_http_opens_what_the_key_allows(bus: Bus, key: Key) -> None:
    for method, target, claim, paths in HTTP:
        for path in paths:
            status = await asyncio.to_thread(
                asked, bus, key, method, target.format(path)
            )
            assert (status != 401) == key.allows(claim, path), (method, target, path)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
async def test_bulk_opens_what_the_key_allows(bus: Bus, key: Key) -> None:
    for path in (*QUEUES, TOPIC):
        body = append_body([(path, data_message("x"))])
        status = await asyncio.to_thread(asked, bus, key, "POST", "/$bulk/append", body)
        assert (status == 200) == key.allows(SEND, path), path
    for path in (*QUEUES, SUBSCRIPTION):
        content = json.dumps({"entities": [path]})
        status = await asyncio.to_thread(
            asked, bus, key, "POST", "/$bulk/runtime", content
        )
        assert (status == 200) == key.allows(LISTEN, path), path


async def test_tokens_of_a_regenerated_key_are_refused_at_every_door(bus: Bus) -> None:
    keys = bus.server.namespace.keys
    for scope in ("", "other"):
        made = bus._run(keys.create(scope, "passing", ["Send", "Listen", "Manage"]))
        old = made.primary_key
        assert await opens(bus, old) == [True] * DOOR_COUNT
        bus._run(keys.regenerate(scope, "passing", "primary"))
        assert await opens(bus, old) == [False] * DOOR_COUNT
        assert await opens(bus, made.secondary_key) == [True] * DOOR_COUNT
        bus._run(keys.delete(scope, "passing"))
        assert await opens(bus, made.secondary_key) == [False] * DOOR_COUNT


async def opens(bus: Bus, key: str) -> list[bool]:
    """Whether it does: at PLAIN and $cbs, by TCP and by WebSocket, at administration,
    messages and bulk requests.
    """
    signed = sas.make(
        resource=f"http://localhost:{bus.port}/other",
        key_name="passing",
        key=key,
        expires_at=bus.clock.now() + 600_000,
    )
    found = []
    for way in (directly, websocket_bridge):
        async with way(bus.port) as port:
            found.append(await shows_key(port, key))
            found.append(await shows_token(port, signed))
    for method, target, body in (
        ("GET", "/other", b""),
        ("POST", "/other/messages", b"x"),
        ("POST", "/$bulk/runtime", b'{"entities": ["other"]}'),
    ):
        status = await asyncio.to_thread(
            signed_request, bus, signed, method, target, body
        )
        assert status in (200, 201, 401)
        found.append(status != 401)
    return found


async def shows_key(port: int, key: str) -> bool:
    try:
        sasl = plain("passing", key)
        async with await connect("127.0.0.1", port, sasl=sasl) as connection:
            await connection.sender("other")
    except (ClientError, ServiceBusError):
        return False
    return True


async def shows_token(port: int, signed: str) -> bool:
    async with await connect("127.0.0.1", port) as connection:
        try:
            await connection.put_token("sb://bus/other", signed)
        except RequestFailed as error:
            assert error.status == 401
            return False
        return True


def signed_request(bus: Bus, signed: str, method: str, target: str, body: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", bus.port, PATIENCE_SECONDS)
    try:
        connection.request(method, target, body, {"Authorization": signed})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()
