"""Clients without access: wrong headers, garbage, wrong keys, old tokens, silence."""

import asyncio
import time
from collections.abc import Callable
from random import Random

import pytest
from crash import messages
from crash.server_process import ServerProcess

from hostile.stranger import CLOSE, Stranger
from hostile.witness import Witness
from twinbus.amqp.handshake import AMQP_HEADER, SASL_HEADER
from twinbus.amqp.sasl import plain
from twinbus.auth import sas
from twinbus.client import (
    ClientConnection,
    ConnectionLost,
    LinkClosed,
    RequestFailed,
    connect,
)
from twinbus.config.config import ROOT_KEY_NAME

AUDIENCE = "sb://localhost/target"


def token(key: str, seconds: float, key_name: str = ROOT_KEY_NAME) -> str:
    """A token that expires so many seconds from now."""
    expires_at = int((time.time() + seconds) * 1000)
    return sas.make(
        resource=AUDIENCE, key_name=key_name, key=key, expires_at=expires_at
    )


async def anonymous(server: ServerProcess) -> ClientConnection:
    """A connection that has shown no right yet."""
    return await connect("127.0.0.1", server.port)


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x02\x01\x00\x00",
        b"AMQP\x00\x01\x00\x00",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        b"\x00",
    ],
    ids=["0-9-1", "tls", "no-sasl", "tls-hello", "zero"],
)
async def test_a_wrong_header_is_answered_with_ours(
    server: ServerProcess, header: bytes
) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(header)
        assert await stranger.expect_end() in (SASL_HEADER, b"")


@pytest.mark.parametrize("seed", range(5))
async def test_garbage_instead_of_sasl(server: ServerProcess, seed: int) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(SASL_HEADER + Random(seed).randbytes(100_000))
        assert (await stranger.expect_end())[:8] in (SASL_HEADER, b"")


@pytest.mark.parametrize("seed", range(5))
async def test_garbage_after_the_handshake(server: ServerProcess, seed: int) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.write(Random(seed).randbytes(100_000))
        await stranger.expect_end()


async def test_a_wrong_key_by_sasl_plain(server: ServerProcess) -> None:
    async with Witness(server):
        for name, key in ((ROOT_KEY_NAME, "wrong"), ("nobody", server.key), ("", "")):
            with pytest.raises(ConnectionLost, match="refused us, SASL code 1"):
                await connect("127.0.0.1", server.port, sasl=plain(name, key))


async def test_a_wrong_key_in_a_token(server: ServerProcess) -> None:
    async with Witness(server), await anonymous(server) as connection:
        with pytest.raises(RequestFailed) as refusal:
            await connection.put_token(AUDIENCE, token("wrong", 60))
        assert refusal.value.status == 401
        with pytest.raises(LinkClosed, match="amqp:unauthorized-access"):
            await connection.sender("target")


async def test_an_expired_token(server: ServerProcess) -> None:
    async with Witness(server), await anonymous(server) as connection:
        with pytest.raises(RequestFailed, match="expired at") as refusal:
            await connection.put_token(AUDIENCE, token(server.key, -1))
        assert refusal.value.status == 401


async def test_a_claim_that_is_missing(server: ServerProcess) -> None:
    credentials = plain("listener", "only-listening")
    async with Witness(server):
        connection = await connect("127.0.0.1", server.port, sasl=credentials)
        async with connection:
            with pytest.raises(LinkClosed, match="'Send' claim"):
                await connection.sender("target")
            # The same connection goes on with what it may do.
            await connection.receiver("target", credit=0)


async def test_a_token_that_runs_out_detaches_the_link(server: ServerProcess) -> None:
    async with Witness(server), await anonymous(server) as connection:
        await connection.put_token(AUDIENCE, token(server.key, 2))
        receiver = await connection.receiver("target", credit=1)
        with pytest.raises(LinkClosed, match="amqp:unauthorized-access"):
            await receiver.receive_batch(1, timeout_seconds=20)


async def test_a_renewed_token_keeps_the_link(server: ServerProcess) -> None:
    short = token(server.key, 2)
    async with Witness(server), await anonymous(server) as connection:
        await connection.put_token(AUDIENCE, short)
        sender = await connection.sender("target")
        await connection.put_token(AUDIENCE, token(server.key, 60))
        # The same token without a renewal shows when its time is up.
        async with await anonymous(server) as other:
            await other.put_token(AUDIENCE, short)
            victim = await other.receiver("target", credit=0)
            with pytest.raises(LinkClosed):
                await victim.receive_batch(1, timeout_seconds=20)
        await sender.send(messages.named("still allowed"))


async def test_one_who_never_shows_a_right(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--handshake-seconds", "1")
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server, key="")
        assert await stranger.expect_error(CLOSE) == "amqp:connection:forced"
        await stranger.expect_end()


@pytest.mark.parametrize("said", [b"", b"AM", SASL_HEADER, SASL_HEADER + b"\0\0\0\x20"])
async def test_one_who_never_finishes_the_handshake(
    make_server: Callable[..., ServerProcess], said: bytes
) -> None:
    server = make_server("--handshake-seconds", "1")
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(said)
        await stranger.expect_end()


async def test_a_handshake_byte_by_byte_has_no_more_time(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--handshake-seconds", "1")
    async with Witness(server), await Stranger.dial(server) as stranger:

        async def drip() -> None:
            for byte in (SASL_HEADER + AMQP_HEADER) * 1000:
                stranger.write(bytes((byte,)))
                await asyncio.sleep(0.2)

        dripping = asyncio.create_task(drip())
        await stranger.expect_end()
        assert not dripping.done()
        dripping.cancel()
