"""A broker connects to brokers, and says nothing to others at their addresses."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from twinbus.peers.greeting import (
    ANSWER_BYTES,
    HELLO_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    Greeting,
)
from twinbus.peers.reach import ClusterReach, NotABroker, reach_nobody, read_and_write

KEY = bytes(range(32))


class Listening:
    """What listens at the address of a broker of this machine."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.address = ""
        self.proof = b""
        self.is_proved = False
        self.heard = b""
        # What it answers instead.
        self.answer: Callable[[bytes], bytes] | None = None

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        said = await reader.readexactly(HELLO_BYTES)
        greeting = Greeting(
            key=self.key,
            address=self.address,
            nonce_of_connecting=said[1:],
            nonce_of_accepting=bytes(NONCE_BYTES),
        )
        answer = greeting.answer()
        writer.write(self.answer(answer) if self.answer else answer)
        if self.answer and len(self.answer(answer)) < ANSWER_BYTES:
            writer.close()
            return
        self.proof = await reader.read(PROOF_BYTES)
        self.is_proved = greeting.is_proof_of_connecting(self.proof)
        self.heard = await reader.read()
        writer.write(self.heard[::-1])
        writer.close()


@pytest.fixture
async def listening() -> AsyncIterator[Listening]:
    made = Listening(KEY)
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield made


def reach(key: bytes = KEY) -> ClusterReach:
    return ClusterReach(key, lambda address: None)


async def test_broker_with_the_key_is_reached(listening: Listening) -> None:
    reader, writer = await read_and_write(reach(), listening.address)
    writer.write(b"hello")
    writer.write_eof()
    assert await reader.read() == b"olleh"
    assert listening.is_proved
    writer.close()


@pytest.mark.parametrize(
    "answer",
    [lambda answer: bytes(ANSWER_BYTES), lambda answer: b"AMQP\0\1\0\0" * 8],
    ids=["zeros", "AMQP"],
)
async def test_stranger_gets_no_proof(
    listening: Listening, answer: Callable[[bytes], bytes]
) -> None:
    listening.answer = answer
    with pytest.raises(NotABroker, match="does not know the key of the cluster"):
        await read_and_write(reach(), listening.address)
    assert listening.proof == listening.heard == b""


async def test_stranger_that_closes_is_told_apart(listening: Listening) -> None:
    listening.answer = lambda answer: answer[:-1]
    with pytest.raises(NotABroker):
        await read_and_write(reach(), listening.address)


async def test_broker_of_another_cluster_gets_no_proof(listening: Listening) -> None:
    with pytest.raises(NotABroker):
        await read_and_write(reach(KEY[::-1]), listening.address)
    assert listening.proof == b""


async def test_proof_made_for_another_address_is_not_taken(
    listening: Listening,
) -> None:
    """As when a program passes the greeting on to a broker elsewhere."""
    asked = listening.address
    listening.address = "127.0.0.1:1"
    with pytest.raises(NotABroker):
        await read_and_write(reach(), asked)
    assert listening.proof == b""


async def test_nobody_is_reached_without_a_cluster() -> None:
    with pytest.raises(ConnectionRefusedError, match=r"127\.0\.0\.1:7000"):
        await read_and_write(reach_nobody, "127.0.0.1:7000")
