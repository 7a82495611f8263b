"""WebSockets: handshakes that lead nowhere, broken frames, floods, and rights."""

import asyncio
import os
from collections.abc import Callable
from random import Random

import pytest
from crash.server_process import PATIENCE_SECONDS, ServerProcess
from websockets.frames import Opcode

from bench.attackers.raw_frames import hello
from hostile.stranger import ATTACH, CLOSE, DETACH, FLOW, Closed, Stranger
from hostile.websocket_stranger import WebSocketStranger, framed, request
from hostile.witness import Witness
from twinbus.amqp.messaging import Data, Message, encode_message
from twinbus.limits import HTTP_HEADER_BYTES

MEGABYTE = 1024 * 1024
MESSAGE = encode_message(Message(body=Data((b"hello",))))
ACCEPTED = 0x24
MASK = b"\x01\x02\x03\x04"


# --- well-behaved ---------------------------------------------------------------


async def test_message_is_accepted_over_a_websocket(server: ServerProcess) -> None:
    async with Witness(server), await WebSocketStranger.meet(server) as stranger:
        stranger.listen()
        await stranger.open(server)
        stranger.attach("target")
        await stranger.expect(FLOW)
        stranger.transfer(MESSAGE)
        assert await stranger.expect_outcome() == (ACCEPTED, "")
        stranger.raw(framed(b"now", Opcode.PING))
        stranger.raw(framed(b"\x03\xe8", Opcode.CLOSE))
        assert await stranger.expect_code() == 1000
        assert stranger.pongs == [b"now"]


@pytest.mark.parametrize("size", [1, 3, 1_000])
async def test_frames_may_be_cut_anywhere(server: ServerProcess, size: int) -> None:
    """AMQP is a stream: neither frames nor messages of WebSockets are its frames."""
    async with Witness(server), await WebSocketStranger.meet(server) as stranger:
        stranger.listen()
        data = hello("RootManageSharedAccessKey", server.key)
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        for number, piece in enumerate(pieces, 1):
            opcode = Opcode.BINARY if number == 1 else Opcode.CONT
            stranger.raw(framed(piece, opcode, is_last=number == len(pieces)))
        stranger.attach("target")
        await stranger.expect(ATTACH)


# --- rights ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key_name", "key", "is_receiver"),
    [("listener", "only-listening", False), ("sender", "only-sending!", True)],
)
async def test_key_gives_no_other_right_over_a_websocket(
    server: ServerProcess, key_name: str, key: str, is_receiver: bool
) -> None:
    async with Witness(server), await WebSocketStranger.meet(server) as stranger:
        stranger.listen()
        await stranger.open(server, key, key_name)
        stranger.attach("target", is_receiver=is_receiver)
        assert await stranger.expect_error(DETACH) == "amqp:unauthorized-access"


async def test_wrong_key_is_refused_over_a_websocket(server: ServerProcess) -> None:
    async with Witness(server), await WebSocketStranger.meet(server) as stranger:
        stranger.listen()
        with pytest.raises(Closed):
            await stranger.open(server, "wrong")


# --- handshakes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request(Upgrade=""), 426),
        (request(Sec_WebSocket_Version="12"), 426),
        (request(Sec_WebSocket_Key="short"), 400),
        (request(Sec_WebSocket_Key="x" * 1_000), 400),
        (request(Sec_WebSocket_Protocol="mqtt"), 400),
        (request(Origin="http://evil.example"), 403),
        (request(Origin="null"), 403),
        (request(Origin="http://localhost:1/\xff"), 403),
        (request("/$servicebus/other"), 404),
        (request(Cookie="x" * HTTP_HEADER_BYTES), 431),
        (request(**{f"X_{number}": "y" * 100 for number in range(2_000)}), 431),
    ],
    ids=[
        *("no upgrade", "version", "short nonce", "long nonce", "subprotocol"),
        *("origin", "null origin", "odd origin", "path", "header", "headers"),
    ],
)
async def test_wrong_handshake_is_refused_as_a_request(
    server: ServerProcess, sent: bytes, status: int
) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(sent)
        head = await stranger.read_until(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode()), head


async def test_frames_right_behind_the_handshake_are_read(
    server: ServerProcess,
) -> None:
    async with Witness(server), await WebSocketStranger.dial(server) as stranger:
        stranger.raw(request() + framed(b"soon", Opcode.PING))
        await stranger.read_until(b"\r\n\r\n")
        stranger.raw(framed(b"", Opcode.CLOSE))
        assert await stranger.expect_code() is not None
        assert stranger.pongs == [b"soon"]


async def test_websocket_behind_another_request_is_listened_to(
    server: ServerProcess,
) -> None:
    health = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with Witness(server), await WebSocketStranger.dial(server) as stranger:
        stranger.raw(health + request())
        await stranger.read_until(b"\r\n\r\nhealthy\n")
        head = await stranger.read_until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        stranger.listen()
        await stranger.open(server)
        stranger.attach("target")
        await stranger.expect(ATTACH)


async def test_half_handshakes_and_silent_websockets_end_in_time(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--handshake-seconds", "2")
    async with Witness(server):
        halves = [await Stranger.dial(server) for _ in range(30)]
        for half in halves:
            half.write(request()[:-2])
        silent = [await WebSocketStranger.meet(server) for _ in range(30)]
        # Pings are no sign of a key.
        for each in silent:
            each.raw(framed(b"still here", Opcode.PING))
        ends = await asyncio.gather(*(half.expect_end() for half in halves))
        # Of half a head nobody can say that it is a request.
        assert set(ends) == {b""}
        codes = await asyncio.gather(*(each.expect_code() for each in silent))
        assert set(codes) <= {1000, None} and 1000 in codes
        for one in (*halves, *silent):
            await one.__aexit__()


async def test_flood_of_handshakes_takes_no_place_of_clients(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--max-connections", "300")
    there: list[WebSocketStranger] = []
    async with Witness(server):
        for _ in range(400):
            there.append(await WebSocketStranger.meet(server))
        async with await WebSocketStranger.meet(server) as client:
            client.listen()
            await client.open(server)
            client.attach("target")
            await client.expect(ATTACH)
        for stranger in there:
            await stranger.__aexit__()


# --- frames ---------------------------------------------------------------------

BROKEN = {
    "unmasked": (b"\x82\x08AMQP\x03\x01\x00\x00", 1002),
    "text": (b"\x81\x84" + MASK + b"AMQP", 1003),
    "reserved bits": (b"\xf2\x80" + MASK, 1002),
    "opcode 7": (b"\x87\x80" + MASK, 1002),
    "fragment of nothing": (b"\x80\x80" + MASK, 1002),
    "large ping": (b"\x89\xfe\x01\x00" + MASK + bytes(256), 1002),
    "oversized": (b"\x82\xff" + (1 << 62).to_bytes(8, "big") + MASK, 1009),
    "more than oversized": (b"\x82\xff" + b"\xff" * 8 + MASK, 1009),
    "close of one byte": (b"\x88\x81" + MASK + b"x", 1002),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_frame_is_answered_with_its_code(
    server: ServerProcess, name: str
) -> None:
    data, code = BROKEN[name]
    async with Witness(server), await WebSocketStranger.meet(server) as stranger:
        stranger.raw(data)
        # Whatever follows is not read.
        stranger.raw(framed(hello("", "")))
        assert await stranger.expect_code() == code


@pytest.mark.parametrize("seed", range(3))
async def test_garbage_instead_of_frames(server: ServerProcess, seed: int) -> None:
    async with Witness(server), await WebSocketStranger.meet(server) as stranger:
        stranger.raw(b"\xff" + Random(seed).randbytes(100_000))
        assert await stranger.expect_code() == 1002


async def test_wrong_mask_is_garbage_to_amqp(server: ServerProcess) -> None:
    """Nobody can tell a wrong mask from other bytes; AMQP refuses what comes out."""
    async with Witness(server), await WebSocketStranger.meet(server) as stranger:
        stranger.raw(b"\x82\x88" + MASK + b"AMQP\x03\x01\x00\x00")
        assert await stranger.expect_code() in (1000, None)


# --- floods ---------------------------------------------------------------------


async def test_endless_fragments_hold_no_memory(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    async with Witness(server), await WebSocketStranger.meet(server) as stranger:
        stranger.listen()
        await stranger.open(server)
        before = server.memory_bytes()
        stranger.raw(framed(b"", is_last=False))
        # Empty heartbeats of AMQP, and fragments with nothing in them.
        heartbeat = b"\x00\x00\x00\x08\x02\x00\x00\x00"
        some = framed(heartbeat, Opcode.CONT, is_last=False)
        some += framed(b"", Opcode.CONT, is_last=False) * 10
        for _ in range(40):
            stranger.raw(some * 500)
            await stranger.drain()
        stranger.raw(framed(b"", Opcode.CONT))
        stranger.attach("target")
        await stranger.expect(ATTACH)
        assert server.memory_bytes() - before < 16 * MEGABYTE


async def test_fragments_of_an_oversized_frame_of_amqp_are_refused(
    server: ServerProcess,
) -> None:
    async with Witness(server), await WebSocketStranger.meet(server) as stranger:
        stranger.listen()
        await stranger.open(server)
        size = (100 * MEGABYTE).to_bytes(4, "big")
        stranger.raw(framed(size + b"\x02\x00\x00\x00", is_last=False))
        assert await stranger.expect_error(CLOSE) == "amqp:connection:framing-error"


async def test_pings_of_a_client_that_never_reads_hold_no_memory(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    many = framed(os.urandom(125), Opcode.PING) * 5_000
    async with (
        Witness(server),
        await WebSocketStranger.meet(server, receive_bytes=4_096) as stranger,
    ):
        before = server.memory_bytes()
        for _ in range(40):
            stranger.raw(many)
            await stranger.drain()
        assert server.memory_bytes() - before < 16 * MEGABYTE


async def test_client_that_never_reads_its_messages_is_not_served_for_ever(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    large = encode_message(Message(body=Data((b"x" * 50_000,))))
    async with Witness(server) as witness:
        async with await server.connect() as connection:
            sender = await connection.sender("target")
            async with asyncio.timeout(2 * PATIENCE_SECONDS):
                await asyncio.gather(*(sender.send(large) for _ in range(1_000)))
        async with await WebSocketStranger.meet(
            server, receive_bytes=4_096
        ) as stranger:
            before = server.memory_bytes()
            stranger.write(hello("RootManageSharedAccessKey", server.key))
            stranger.attach("target", is_receiver=True)
            stranger.credit(10_000)
            await stranger.drain()
            await witness.rounds(20)
            assert server.memory_bytes() - before < 24 * MEGABYTE
