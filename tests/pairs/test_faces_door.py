"""Access over the SDK to a strict bus, and to peers that never answer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from azure.servicebus import ServiceBusMessage, exceptions
from azure.servicebus.aio import ServiceBusClient

from twinbus.limits import CANCEL_SENT_PER_REQUEST
from twinbus.pairing.errors import CannotCancel
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.sdk.messages import stamp
from twinbus.pairing.sdk.namespace import SdkNamespace
from twinbus.pairing.sdk.twins import twin_of
from twinbus.testing import Bus

from .faces import PATIENCE_SECONDS, bodies_at, in_thread, wrong_key

LIMIT = PATIENCE_SECONDS


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with Bus(store="memory") as made:
        yield made


@pytest.fixture(scope="module")
def strict_bus() -> Iterator[Bus]:
    """A bus that offers nothing but Service Bus, as others do."""
    with Bus(store="memory", settings={"strict": True}) as made:
        yield made


def namespace_of(connection_string: str) -> SdkNamespace:
    return SdkNamespace(
        twin_of(ServiceBusClient.from_connection_string(connection_string))
    )


@pytest_asyncio.fixture
async def namespace(bus: Bus) -> AsyncIterator[SdkNamespace]:
    made = namespace_of(bus.connection_string)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def strict_namespace(strict_bus: Bus) -> AsyncIterator[SdkNamespace]:
    made = namespace_of(strict_bus.connection_string)
    yield made
    await made.close()


def numbered(count: int, size: int = 1) -> list[ServiceBusMessage]:
    return [ServiceBusMessage(f"{n}".ljust(size)) for n in range(count)]


async def test_as_many_are_sent_as_fit_into_one_batch(
    bus: Bus, namespace: SdkNamespace
) -> None:
    bus.create_queue("some")
    door = namespace.door("some")
    messages = numbered(30, 20_000)
    count = await door.send_some(messages, LIMIT)
    assert 1 < count < 30
    assert await door.send_some(messages[count:], LIMIT) >= 1
    assert await door.send_some(messages[:1], LIMIT) == 1
    found = await in_thread(bodies_at, bus, "some")
    assert found[:count] == [str(message) for message in messages[:count]]


async def test_a_list_that_is_too_large_is_refused_whole(
    bus: Bus, namespace: SdkNamespace
) -> None:
    bus.create_queue("whole")
    door = namespace.door("whole")
    with pytest.raises(exceptions.MessageSizeExceededError):
        await door.send(numbered(30, 20_000), LIMIT)
    assert await in_thread(bodies_at, bus, "whole") == []


async def test_what_waits_is_peeked_in_pages(bus: Bus, namespace: SdkNamespace) -> None:
    bus.create_queue("waiting")
    door = namespace.door("waiting")
    await door.send(numbered(5), LIMIT)
    pages, number = [], 0
    while page := await door.peek(number, 2, LIMIT):
        pages.append([str(message) for _, message in page])
        number = page[-1][0] + 1
    assert [body for page in pages for body in page] == ["0", "1", "2", "3", "4"]
    assert max(len(page) for page in pages) <= 2


async def test_sent_messages_are_cancelled_by_their_ids(
    bus: Bus, namespace: SdkNamespace
) -> None:
    path = "site-a/x-servicebus-transfer/0"
    bus.create_queue(path)
    door = namespace.door(path)
    messages = numbered(2)
    for message, send_id in zip(messages, (b"first", b"other"), strict=True):
        stamp(message, send_id, None)
    await door.send(messages, LIMIT)
    assert await door.cancel_sent([b"other", b"never"], LIMIT) == [True, False]
    assert await in_thread(bodies_at, bus, path) == ["0"]


async def test_more_are_cancelled_than_one_request_may_name(
    bus: Bus, namespace: SdkNamespace
) -> None:
    path = "site-a/x-servicebus-transfer/1"
    bus.create_queue(path)
    door = namespace.door(path)
    [message] = numbered(1)
    stamp(message, b"last", None)
    await door.send([message], LIMIT)
    others = [b"%d" % number for number in range(CANCEL_SENT_PER_REQUEST)]
    cancelled = await door.cancel_sent([*others, b"last"], LIMIT)
    assert cancelled == [False] * len(others) + [True]


async def test_a_namespace_that_cannot_cancel_says_so(
    strict_bus: Bus, strict_namespace: SdkNamespace
) -> None:
    strict_bus.create_queue("plain")
    door = strict_namespace.door("plain")
    with pytest.raises(CannotCancel, match=r"localhost.*'plain'"):
        await door.cancel_sent([b"id"], LIMIT)
    await door.send(numbered(1), LIMIT)


async def test_a_ping_that_only_lacks_a_session_found_the_entity_well(
    strict_bus: Bus, strict_namespace: SdkNamespace
) -> None:
    strict_bus.create_queue("sessions", requires_session=True)
    await strict_namespace.door("sessions").ping(LIMIT)
    strict_bus.update_queue("sessions", status="SendDisabled")
    with pytest.raises(exceptions.ServiceBusError) as raised:
        await strict_namespace.door("sessions").ping(LIMIT)
    assert kind_of(raised.value) is FailureKind.DISABLED


async def test_a_missing_entity_is_told_from_a_wrong_key(
    bus: Bus, namespace: SdkNamespace
) -> None:
    with pytest.raises(exceptions.ServiceBusError) as missing:
        await namespace.door("nowhere").open(LIMIT)
    assert kind_of(missing.value) is FailureKind.NOT_FOUND
    other = namespace_of(wrong_key(bus.connection_string))
    with pytest.raises(exceptions.ServiceBusError) as refused:
        await other.door("nowhere").open(LIMIT)
    assert kind_of(refused.value) is FailureKind.AUTHENTICATION
    assert type(missing.value) is type(refused.value)
    await other.close()


# --- peers that never answer --------------------------------------------------------


@pytest_asyncio.fixture
async def silent() -> AsyncIterator[SdkNamespace]:
    """A namespace whose host takes connections and says nothing."""
    writers: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.read()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    made = namespace_of(
        f"Endpoint=sb://localhost:{port};SharedAccessKeyName=n;SharedAccessKey=k;"
        "UseDevelopmentEmulator=true"
    )
    yield made
    await made.close()
    server.close()
    for writer in writers:
        writer.close()
        await writer.wait_closed()


CALLS: list[Any] = [
    lambda door, limit: door.open(limit),
    lambda door, limit: door.send(numbered(1), limit),
    lambda door, limit: door.send_some(numbered(2), limit),
    lambda door, limit: door.ping(limit),
    lambda door, limit: door.peek(0, 1, limit),
    lambda door, limit: door.cancel_sent([b"id"], limit),
]


@pytest.mark.parametrize(
    "call", CALLS, ids=["open", "send", "send_some", "ping", "peek", "cancel_sent"]
)
async def test_a_call_ends_when_its_time_does(silent: SdkNamespace, call: Any) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    with pytest.raises((TimeoutError, exceptions.ServiceBusError)) as raised:
        await call(silent.door("orders"), 0.3)
    assert kind_of(raised.value) is FailureKind.TIMEOUT
    # The SDK itself would try for a minute.
    assert loop.time() - start < LIMIT


async def test_a_call_that_is_cancelled_is_left_at_once(silent: SdkNamespace) -> None:
    loop = asyncio.get_running_loop()
    door = silent.door("orders")
    call = asyncio.create_task(door.send(numbered(1), LIMIT))
    done, _ = await asyncio.wait([call], timeout=0.3)
    assert not done
    start = loop.time()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert loop.time() - start < LIMIT / 2, "the call waited for its limit"
