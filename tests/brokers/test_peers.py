"""Any broker answers any client: what another one owns is reached through it."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from crash import messages

from bench.free_port import free_port
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.outcomes import Released
from twinbus.amqp.sasl import SaslCredentials, anonymous, plain
from twinbus.amqp.types import AmqpArray, Int, Symbol, Timestamp, UInt
from twinbus.client import ClientConnection, connect
from twinbus.client.connection import open_over
from twinbus.client.errors import ClientError
from twinbus.peers.greeting import ANSWER_BYTES, FIRST, HELLO_BYTES
from twinbus.peers.peer_address import host_and_port
from twinbus.peers.reach import ClusterReach

from .processes import Brokers, as_json, until
from .queues_at import finds_all, made_at, received


async def test_send_receive_and_settle_through_another_broker(brokers: Brokers) -> None:
    await brokers.start("--brokers=2")
    other = await made_at(brokers, "1", "q")
    names = {f"m{number}" for number in range(600)}
    async with await brokers.connect(other) as connection:
        sender = await connection.sender("q")
        await sender.send_many([messages.named(name) for name in sorted(names)])
        receiver = await connection.receiver("q", credit=700)
        found = await received(receiver, 600)
        assert {messages.found(one.payload).name for one in found} == names
        first, last = found[0].delivery_id, found[-1].delivery_id
        await receiver.settle_confirmed(first, last)
        # A drain is answered by the owner: there is nothing left.
        assert await receiver.drain() == []
        await sender.send(messages.named("again"))
        receiver.issue_credit(10)
        (again,) = await received(receiver, 1)
        at = again.delivery_id
        await receiver.settle_confirmed(at, at, encode_composite(Released()))
        (again,) = await received(receiver, 1)
        assert messages.found(again.payload).delivery_count == 0
        await receiver.settle_confirmed(again.delivery_id, again.delivery_id)
        assert await messages.peek_all(connection, "q") == []


async def test_receive_and_delete_through_another_broker(brokers: Brokers) -> None:
    await brokers.start("--brokers=2")
    other = await made_at(brokers, "1", "q")
    async with await brokers.connect(other) as connection:
        sender = await connection.sender("q")
        await sender.send_many([messages.named(f"m{number}") for number in range(20)])
        receiver = await connection.receiver("q", settled=True, credit=20)
        assert len(await received(receiver, 20)) == 20
    async with await brokers.connect("1") as connection:
        assert await messages.peek_all(connection, "q") == []


@pytest.mark.parametrize("settled", [False, True])
async def test_credit_is_not_exceeded_through_another_broker(
    brokers: Brokers, settled: bool
) -> None:
    """The owner sends many messages at a time. None of them is more than the client has
    asked for: it would be lost, or come again after later ones."""
    await brokers.start("--brokers=2")
    other = await made_at(brokers, "1", "q")
    names = [f"m{number}" for number in range(2_000)]
    async with await brokers.connect(other) as connection:
        sender = await connection.sender("q")
        await sender.send_many([messages.named(name) for name in names])
        receiver = await connection.receiver("q", settled=settled, credit=0)
        found: list[MessageReceived] = []
        while len(found) < len(names):
            receiver.issue_credit(400)
            found += await received(receiver, 400)
        assert [messages.found(one.payload).name for one in found] == names


async def test_cluster_key_is_for_peers_only(brokers: Brokers) -> None:
    await brokers.start("--brokers=2")
    address, key = (await brokers.alive())["1"].address, await brokers.cluster_key()
    credentials = plain("$cluster", key.hex())

    async def greeted(key: bytes, sasl: SaslCredentials) -> ClientConnection:
        reach = ClusterReach(key, lambda address: None)
        return await open_over(
            lambda make: reach(address, make), sasl=sasl, hostname="localhost"
        )

    async with await greeted(key, credentials):
        pass
    root = plain("RootManageSharedAccessKey", brokers.root_key)
    for others in (root, plain("$cluster", brokers.root_key), anonymous()):
        with pytest.raises(ClientError):
            await greeted(key, others)
    with pytest.raises(ConnectionError):
        await greeted(key[::-1], credentials)
    # Nothing is said to those who do not greet.
    host, port = host_and_port(address)
    with pytest.raises((ClientError, OSError)):
        await connect(host, port, sasl=credentials)
    with pytest.raises(ClientError):
        await connect("127.0.0.1", brokers.port, sasl=credentials)


async def test_stranger_at_the_port_of_a_killed_broker_learns_nothing(
    brokers: Brokers,
) -> None:
    """The port of a broker that has ended is free for any program of the machine."""
    # The kernel gives its own ports to any test beside this one. And nobody starts a
    # broker again.
    for _ in range(2):
        process = await brokers.start("--join", f"--peer-port={free_port()}")
    name = f"of process {process.pid}"
    await until(lambda: brokers.owns_all(*brokers.ports.keys() - {""}))
    other = await made_at(brokers, name, "q")
    host, port = host_and_port((await brokers.alive())[name].address)
    key = await brokers.cluster_key()
    heard = bytearray()

    def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        return answer_as_a_broker_without_the_key(reader, writer, heard)

    async with await brokers.connect(other) as connection:
        sender = await connection.sender("q")
        await sender.send(messages.named("m1"))
        process.kill()
        process.wait()
        async with await asyncio.start_server(listen, host, port):

            async def is_asked() -> bool:
                with suppress(ClientError, OSError, TimeoutError):
                    again = await connection.sender("q")
                    async with asyncio.timeout(1):
                        await again.send(messages.named("secret"))
                return bool(heard)

            await until(is_asked, 30)
    assert heard[0] == FIRST
    assert len(heard) % HELLO_BYTES == 0
    for secret in (key, key.hex().encode(), b"secret", b"AMQP"):
        assert secret not in heard


async def answer_as_a_broker_without_the_key(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: bytearray
) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        heard += await reader.readexactly(HELLO_BYTES)
        writer.write(bytes(ANSWER_BYTES))
        heard += await reader.read()
    writer.close()


async def test_owner_is_killed_while_a_receiver_waits_elsewhere(
    brokers: Brokers,
) -> None:
    await brokers.start("--brokers=2")
    other = await made_at(brokers, "1", "q")
    async with await brokers.connect(other) as connection:
        receiver = await connection.receiver("q", credit=10)
        sender = await connection.sender("q")
        await sender.send(messages.named("m1"))
        await received(receiver, 1)
        os.kill((await brokers.alive())["1"].process.pid, signal.SIGKILL)
        with pytest.raises(ClientError):
            await received(receiver, 1)

    async def is_received() -> bool:
        for name in await brokers.alive():
            try:
                async with await brokers.connect(name) as connection:
                    receiver = await connection.receiver("q", credit=1)
                    found = await received(receiver, 1)
            except (ClientError, OSError, TimeoutError):
                continue
            return messages.found(found[0].payload).name == "m1"
        return False

    await until(is_received, 30)


PARTITIONED = """
[queues.p]
enable_partitioning = true

[queues.s]
enable_partitioning = true
requires_session = true
"""


async def _start_partitioned(brokers: Brokers) -> None:
    """Three brokers, and entities whose fragments are at all of them."""
    config = brokers.folder / "twinbus.toml"
    config.write_text(PARTITIONED)
    await brokers.start("--brokers=3", f"--config={config}", "--fragments=8")
    for name in await brokers.alive():
        await until(lambda name=name: finds_all(brokers, name, "p"))


async def test_partitioned_queue_over_three_brokers(brokers: Brokers) -> None:
    await _start_partitioned(brokers)
    names = [f"m{number}" for number in range(300)]
    async with await brokers.connect("2") as connection:
        sender = await connection.sender("p")
        await sender.send_many([messages.named(name) for name in names])
        found = await messages.peek_all(connection, "p")
        assert sorted(one.name for one in found) == sorted(names)
        assert len({one.number >> 48 for one in found}) >= 5
        receiver = await connection.receiver("p", credit=300)
        delivered = await received(receiver, 300)
        taken = sorted(messages.found(one.payload).name for one in delivered)
        assert taken == sorted(names)
        first, last = delivered[0].delivery_id, delivered[-1].delivery_id
        await receiver.settle_confirmed(first, last)
        assert await receiver.drain() == []
        assert await messages.peek_all(connection, "p") == []


async def test_reserved_messages_return(brokers: Brokers) -> None:
    """A client that takes one message leaves the others to the next one, and their
    deliveries are not counted."""
    await _start_partitioned(brokers)
    names = {f"m{number}" for number in range(40)}
    async with await brokers.connect("1") as connection:
        sender = await connection.sender("p")
        await sender.send_many([messages.named(name) for name in names])
        greedy = await connection.receiver("p", credit=0)
        greedy.issue_credit(1)
        (one,) = await received(greedy, 1)
        async with await brokers.connect("3") as other:
            receiver = await other.receiver("p", credit=100)
            others = await received(receiver, 39)
            found = [messages.found(one.payload) for one in others]
            mine = messages.found(one.payload).name
            assert {one.name for one in found} == names - {mine}
            assert {one.delivery_count for one in found} == {0}
            await greedy.settle_confirmed(one.delivery_id, one.delivery_id)


async def test_receive_and_delete_of_a_partitioned_queue(brokers: Brokers) -> None:
    await _start_partitioned(brokers)
    names = sorted(f"m{number}" for number in range(50))
    async with await brokers.connect("1") as connection:
        sender = await connection.sender("p")
        await sender.send_many([messages.named(name) for name in names])
        receiver = await connection.receiver("p", settled=True, credit=50)
        delivered = await received(receiver, 50)
        assert sorted(messages.found(m.payload).name for m in delivered) == names
        assert await messages.peek_all(connection, "p") == []


def _in_session(name: str, session_id: str) -> bytes:
    return encode_message(
        Message(
            properties=Properties(message_id=name, group_id=session_id),
            body=Data((b"",)),
        )
    )


def _session_filter(session_id: str | None) -> dict[object, object]:
    return {Symbol("com.microsoft:session-filter"): session_id}


async def test_sessions_at_other_brokers(brokers: Brokers) -> None:
    await _start_partitioned(brokers)
    ids = [f"session{number}" for number in range(12)]
    async with await brokers.connect("1") as connection:
        sender = await connection.sender("s")
        for session_id in ids:
            await sender.send(_in_session(f"of {session_id}", session_id))
        listed = await messages.manage(
            connection,
            "s",
            "get-message-sessions",
            {
                "last-updated-time": Timestamp(253_402_300_800_000),
                "skip": Int(0),
                "top": Int(100),
            },
        )
        assert sorted(listed["sessions-ids"].items) == sorted(ids)
        for session_id in ids:
            receiver = await connection.receiver(
                "s", source_filter=_session_filter(session_id), credit=1
            )
            (message,) = await received(receiver, 1)
            assert messages.found(message.payload).name == f"of {session_id}"
            named = {"session-id": session_id}
            await messages.manage(connection, "s", "renew-session-lock", named)
            state = {**named, "session-state": session_id.encode()}
            await messages.manage(connection, "s", "set-session-state", state)
            got = await messages.manage(connection, "s", "get-session-state", named)
            assert got["session-state"] == session_id.encode()
            await receiver.settle_confirmed(message.delivery_id, message.delivery_id)
            await receiver.close()


async def test_next_session_is_found_at_any_broker(brokers: Brokers) -> None:
    await _start_partitioned(brokers)
    ids = [f"session{number}" for number in range(8)]
    async with await brokers.connect("2") as connection:
        sender = await connection.sender("s")
        for session_id in ids:
            await sender.send(_in_session(f"of {session_id}", session_id))
        found = []
        for _ in ids:
            receiver = await connection.receiver(
                "s", source_filter=_session_filter(None), credit=1
            )
            (message,) = await received(receiver, 1)
            found.append(messages.found(message.payload).name)
        assert sorted(found) == sorted(f"of {session_id}" for session_id in ids)


async def test_schedule_defer_and_settle_by_token_elsewhere(brokers: Brokers) -> None:
    await _start_partitioned(brokers)
    async with await brokers.connect("3") as connection:
        sender = await connection.sender("p")
        await sender.send_many([messages.named(f"m{number}") for number in range(30)])
        receiver = await connection.receiver("p", credit=30)
        delivered = await received(receiver, 30)
        tokens = AmqpArray(0x98, [UUID(bytes_le=m.delivery_tag) for m in delivered])
        renewed = await messages.manage(
            connection, "p", "renew-lock", {"lock-tokens": tokens}
        )
        assert len(renewed["expirations"].items) == 30
        await messages.manage(
            connection,
            "p",
            "update-disposition",
            {"lock-tokens": tokens, "disposition-status": "defered"},
        )
        numbers = [messages.found(m.payload).number for m in delivered]
        got = await messages.manage(
            connection,
            "p",
            "receive-by-sequence-number",
            {
                "sequence-numbers": AmqpArray(0x81, list(numbers)),
                "receiver-settle-mode": UInt(1),
            },
        )
        assert len(got["messages"]) == 30
        due = int(time.time() * 1000) + 3_600_000
        later = [messages.named(f"l{n}", due_at=due) for n in range(12)]
        scheduled = await messages.manage(
            connection,
            "p",
            "schedule-message",
            {"messages": [{"message": raw, "message-id": "x"} for raw in later]},
        )
        cancelled = {"sequence-numbers": scheduled["sequence-numbers"]}
        await messages.manage(connection, "p", "cancel-scheduled-message", cancelled)
        left = await messages.peek_all(connection, "p")
        assert {one.name for one in left} == {f"m{number}" for number in range(30)}


async def test_entities_are_made_and_changed_at_any_broker(brokers: Brokers) -> None:
    await _start_partitioned(brokers)
    wide = as_json(enable_partitioning=True)
    await brokers.ask("1", "create-queue", path="wide", properties=wide)
    # Peers have followed before the answer.
    for name in "123":
        assert "wide" in await brokers.paths(name)
    async with await brokers.connect("2") as connection:
        sender = await connection.sender("wide")
        await sender.send_many([messages.named(f"m{number}") for number in range(64)])
    counts = []
    for name in "123":
        found = await brokers.ask(name, "get-entity", path="wide")
        counts.append(found["counts"]["active"])
    assert counts == [64, 64, 64]
    # A topic of one broker, its subscription and rule from another.
    await brokers.ask("1", "create-topic", path="t", properties="{}")
    await brokers.ask(
        "2", "create-subscription", path="t/Subscriptions/s", properties="{}"
    )
    async with await brokers.connect("3") as connection:
        sender = await connection.sender("t")
        await sender.send(messages.named("m"))
        receiver = await connection.receiver("t/Subscriptions/s", credit=1)
        (message,) = await received(receiver, 1)
        assert messages.found(message.payload).name == "m"
        rules = await messages.manage(
            connection,
            "t/Subscriptions/s",
            "enumerate-rules",
            {"skip": Int(0), "top": Int(10)},
        )
        assert len(rules["rules"]) == 1
    await brokers.ask(
        "3", "update-entity", path="wide", properties=as_json(max_delivery_count=3)
    )
    await brokers.ask("2", "delete-entity", path="t")
    for name in "123":
        found = await brokers.ask(name, "get-entity", path="wide")
        assert found["properties"]["max_delivery_count"] == 3
        assert "t" not in await brokers.paths(name)
