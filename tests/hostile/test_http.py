"""HTTP and TLS from attackers: slow, huge, malformed or unread."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from random import Random

import pytest
from crash.server_process import ServerProcess

from bench.free_port import free_port
from hostile.stranger import Stranger
from hostile.witness import Witness

MEGABYTE = 1024 * 1024
GET = b"GET /health HTTP/1.1\r\nHost: bus\r\n\r\n"


async def test_who_sends_headers_for_ever(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(b"GET / HTTP/1.1\r\nHost: bus\r\n")
        with contextlib.suppress(ConnectionError):
            for number in range(10_000):
                stranger.write(b"X-%d: %s\r\n" % (number, b"y" * 1_000))
                await stranger.drain()
        assert (await stranger.expect_end()).startswith(b"HTTP/1.1 431 ")


async def test_who_announces_a_huge_body(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(
            b"PUT /q HTTP/1.1\r\nHost: bus\r\nContent-Length: 1000000000000\r\n\r\n"
        )
        assert (await stranger.expect_end()).startswith(b"HTTP/1.1 413 ")


async def test_who_sends_chunks_for_ever(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(
            b"PUT /q HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        with contextlib.suppress(ConnectionError):
            for _ in range(10_000):
                stranger.write(b"3E8\r\n" + b"y" * 1_000 + b"\r\n")
                await stranger.drain()
        assert (await stranger.expect_end()).startswith(b"HTTP/1.1 413 ")


async def test_crowd_that_sends_chunks_of_one_byte(
    make_server: Callable[..., ServerProcess],
) -> None:
    """A read has forty thousand of them, and all reads come at once."""
    server = make_server("--handshake-seconds", "120")
    head = b"PUT /q HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n"
    said = head + b"1\r\ny\r\n" * 10_000
    crowd = [await Stranger.dial(server) for _ in range(40)]
    async with Witness(server):
        for stranger in crowd:
            stranger.write(said)
        await asyncio.gather(*(stranger.drain() for stranger in crowd))
        for stranger in crowd:
            stranger.write(b"0\r\n\r\n")
        for stranger in crowd:
            head = await stranger.read_until(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 401 ")
    for stranger in crowd:
        await stranger.__aexit__()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("verb", [b"GET ", b"PUT /q HTTP/1.1\r\nHost: bus\r\n"])
async def test_garbage_after_a_verb(
    server: ServerProcess, verb: bytes, seed: int
) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(verb + Random(seed).randbytes(100_000))
        assert (await stranger.expect_end())[:9] in (b"", b"HTTP/1.1 ")


async def test_who_pipelines_and_does_not_read(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    before = server.memory_bytes()

    async def ask_for_ever(stranger: Stranger) -> None:
        while True:
            stranger.write(GET * 1_000)
            await stranger.drain()

    async with (
        Witness(server) as witness,
        await Stranger.dial(server, receive_bytes=32 * 1024) as stranger,
    ):
        asking = asyncio.create_task(ask_for_ever(stranger))
        await witness.rounds(100)
        assert server.memory_bytes() - before < 25 * MEGABYTE
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_pipelined_requests_are_all_answered(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        stranger.write(GET * 99 + last)
        assert (await stranger.expect_end()).count(b"HTTP/1.1 200 ") == 100


@pytest.mark.parametrize(
    "said",
    [
        b"G",
        b"GET / HTTP/1.1\r\nHost: b",
        b"PUT / HTTP/1.1\r\nHost: b\r\nContent-Length: 9\r\n\r\nx",
        b"\x16",
        b"\x16\x03\x01\x02\x00",
    ],
    ids=["verb", "headers", "body", "tls", "tls-hello"],
)
async def test_one_who_never_finishes(
    make_server: Callable[..., ServerProcess], said: bytes
) -> None:
    server = make_server("--handshake-seconds", "1", "--tls-port", str(free_port()))
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(said)
        assert (await stranger.expect_end())[:12] in (b"", b"HTTP/1.1 408")
    assert "Traceback" not in server.errors


async def test_a_request_byte_by_byte_has_no_more_time(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--handshake-seconds", "1")
    async with Witness(server), await Stranger.dial(server) as stranger:

        async def drip() -> None:
            for byte in GET * 1_000:
                stranger.write(bytes((byte,)))
                await asyncio.sleep(0.2)

        dripping = asyncio.create_task(drip())
        await stranger.expect_end()
        assert not dripping.done()
        dripping.cancel()


@pytest.mark.parametrize("seed", range(5))
async def test_garbage_as_tls(
    make_server: Callable[..., ServerProcess], seed: int
) -> None:
    server = make_server("--tls-port", str(free_port()))
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(b"\x16\x03\x01\x02\x00" + Random(seed).randbytes(10_000))
        await stranger.expect_end()
    assert server.troubles == ""


async def test_one_who_distrusts_the_certificate_or_says_nothing_inside_of_tls(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--handshake-seconds", "1", "--tls-port", str(free_port()))
    authority = server.data / "tls" / "ca.pem"
    async with Witness(server):
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection(
                "localhost", server.port, ssl=ssl.create_default_context()
            )
        reader, writer = await asyncio.open_connection(
            "localhost", server.port, ssl=ssl.create_default_context(cafile=authority)
        )
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()
    assert server.troubles == ""


async def test_a_crowd_that_says_nothing(
    make_server: Callable[..., ServerProcess],
) -> None:
    """They count as connections, and go when their time is up."""
    server = make_server("--handshake-seconds", "2", "--max-connections", "50")
    async with Witness(server):
        crowd = [await Stranger.dial(server) for _ in range(200)]
        try:
            await asyncio.gather(*(stranger.expect_end() for stranger in crowd))
        finally:
            for stranger in crowd:
                await stranger.__aexit__()
        async with await Stranger.dial(server) as late:
            late.write(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert (await late.expect_end()).startswith(b"HTTP/1.1 200 ")
