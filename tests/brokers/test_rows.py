"""T1 and A4 where several brokers serve the stores, on each kind of store."""

import asyncio
import contextlib
import gc
import os
import secrets
import signal
import threading
import time

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from twinbus.config.config import local_connection_string
from twinbus.errors import ServerBusy

from .processes import Brokers, as_json, until

# The SDK forgets the sockets of connections that are reset.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PATIENCE_SECONDS = 30
TAKEOVER_SECONDS = 10.0
# Longer than a lock: what a receiver held when its link ended comes back then.
RECEIVING_SECONDS = 80
STORES = 3


@pytest.fixture(params=["sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest, brokers: Brokers) -> list[str]:
    """The flags of three stores."""
    if request.param == "sqlite":
        urls = [f"sqlite:///{brokers.data}/{n}.sqlite3" for n in range(STORES)]
    else:
        server = request.getfixturevalue("postgres_server")
        name = f"b_{secrets.token_hex(8)}"
        urls = [server.url(f"{name}_{number}") for number in range(STORES)]
    # Those of the fixture are replaced.
    brokers.stores = []
    return [f"--store={url}" for url in urls]


class Sending(threading.Thread):
    """The SDK sends numbers to a queue, one after the other, with its own retries."""

    def __init__(self, connection_string: str, queue: str) -> None:
        super().__init__()
        self._connection_string = connection_string
        self._queue = queue
        self.acknowledged: list[str] = []
        # The longest time between two successes.
        self.longest_gap = 0.0
        self.is_over = threading.Event()

    def run(self) -> None:
        client = ServiceBusClient.from_connection_string(self._connection_string)
        number, last = 0, time.monotonic()
        with client, client.get_queue_sender(self._queue) as sender:
            while not self.is_over.is_set():
                number += 1
                try:
                    sender.send_messages(ServiceBusMessage(str(number)))
                except ServiceBusError:
                    continue
                self.acknowledged.append(str(number))
                self.longest_gap = max(self.longest_gap, time.monotonic() - last)
                last = time.monotonic()

    async def has_more(self) -> bool:
        """Twenty more were acknowledged since it was asked first."""
        wanted = len(self.acknowledged) + 20
        while len(self.acknowledged) < wanted:  # noqa: ASYNC110 - a thread tells
            await asyncio.sleep(0.05)
        return True


def receive_all(connection_string: str, queue: str, wanted: set[str]) -> set[str]:
    """Receive until these were seen; what is missing after a while is returned.

    The broker that was started again gets a store back, and its peers hear of that a
    moment later: then links end, and with them a receiver of the SDK.
    """
    missing = set(wanted)
    until_at = time.monotonic() + RECEIVING_SECONDS
    while missing and time.monotonic() < until_at:
        client = ServiceBusClient.from_connection_string(connection_string)
        with (
            contextlib.suppress(ServiceBusError, ValueError),
            client,
            client.get_queue_receiver(queue) as receiver,
        ):
            while messages := receiver.receive_messages(100, max_wait_time=3):
                missing -= set(map(str, messages))
                for message in messages:
                    receiver.complete_message(message)
    return missing


async def created(brokers: Brokers, path: str, properties: str) -> None:
    """By the first broker, as soon as it knows who serves the other stores."""

    async def is_created() -> bool:
        try:
            await brokers.ask("1", "create-queue", path=path, properties=properties)
        except ServerBusy:
            return False
        return True

    await until(is_created)


@pytest.mark.timeout(180)
async def test_t01_a04_fragments_are_at_all_brokers_and_move_when_one_dies(
    brokers: Brokers, stores: list[str]
) -> None:
    await brokers.start("--brokers=3", *stores)
    for path, is_partitioned in (("conventional", False), ("partitioned", True)):
        properties = as_json(enable_partitioning=is_partitioned)
        await created(brokers, path, properties)
    described = await brokers.ask("2", "get-entity", path="partitioned")
    by_store = {one["store"] for one in described["fragments"]}
    before = await brokers.alive()
    owned = {name: {s.hex() for s in one.stores} for name, one in before.items()}
    assert len(described["fragments"]) == 16
    assert all(len(owned[name] & by_store) == 1 for name in "123")

    text = local_connection_string("127.0.0.1", brokers.port, brokers.root_key)
    sendings = [Sending(text, path) for path in ("conventional", "partitioned")]
    for one in sendings:
        one.start()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(one.has_more() for one in sendings))
        # The conventional queue is in a store of the broker that was asked.
        os.kill(before["1"].process.pid, signal.SIGKILL)

        async def are_moved() -> bool:
            alive = await brokers.alive()
            now = {s: e for one in alive.values() for s, e in one.stores.items()}
            return all(now.get(s, 0) > e for s, e in before["1"].stores.items())

        await until(are_moved, TAKEOVER_SECONDS)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(one.has_more() for one in sendings))
    finally:
        for one in sendings:
            one.is_over.set()
        for one in sendings:
            await asyncio.to_thread(one.join)
    # Here, and not in a later test that knows nothing of them.
    gc.collect()
    assert "broker 1 has ended (signal SIGKILL)" in brokers.log

    async def are_at_rest() -> bool:
        return list((await brokers.shares()).values()) == [1, 1, 1]

    await until(are_at_rest)
    for one in sendings:
        wanted = set(one.acknowledged)
        missing = await asyncio.to_thread(receive_all, text, one._queue, wanted)
        assert not missing, "what was acknowledged is there"
        assert one.longest_gap < PATIENCE_SECONDS
