"""HTTP below its methods: framing, hosts, upgrades, and other protocols inside.

Violations that h11 finds are refused with a status; unusual but valid input is
answered. Either way the connection ends or continues in a state that both sides agree
on.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable

import pytest
from crash.server_process import PATIENCE_SECONDS, ServerProcess

from bench.free_port import free_port
from hostile.caller import Caller
from hostile.stranger import Stranger
from hostile.witness import Witness
from twinbus.amqp.handshake import AMQP_HEADER, SASL_HEADER

HEALTHY = b"GET /health HTTP/1.1\r\nHost: bus\r\nConnection: close\r\n\r\n"
PUT = b"PUT /q HTTP/1.1\r\nHost: bus\r\n"

REFUSED = {
    "no-host": b"GET / HTTP/1.1\r\n\r\n",
    "two-hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "no-version": b"GET /\r\n\r\n",
    "space-in-target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "control-in-target": b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
    "text-in-target": "GET /\u00e9 HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    "no-colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "space-before-colon": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "nul-in-header": b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
    "folded-first": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "two-lengths": PUT + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "negative-length": PUT + b"Content-Length: -1\r\n\r\n",
    "no-number": PUT + b"Content-Length: x\r\n\r\n",
    "hex-length": PUT + b"Content-Length: 0x10\r\n\r\n",
    "endless-length": PUT + b"Content-Length: " + b"9" * 1_000 + b"\r\n\r\n",
    "odd-transfer": PUT + b"Transfer-Encoding: gzip\r\n\r\n",
    "two-transfers": PUT + b"Transfer-Encoding: chunked, chunked\r\n\r\n",
    "bad-chunk-size": PUT + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "negative-chunk": PUT + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "endless-chunk-size": PUT + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 50,
    "chunk-without-end": PUT + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n",
}


async def last_words(server: ServerProcess, said: bytes) -> bytes:
    async with await Stranger.dial(server) as stranger:
        stranger.write(said)
        return await stranger.expect_end()


@pytest.mark.parametrize("name", REFUSED)
async def test_requests_that_are_none(server: ServerProcess, name: str) -> None:
    async with Witness(server):
        answer = await last_words(server, REFUSED[name])
        assert answer[:10] == b"HTTP/1.1 4" or answer[:12] == b"HTTP/1.1 501", answer
        assert b"\r\nconnection: close\r\n" in answer.lower()


@pytest.mark.parametrize(
    "outer",
    [
        PUT + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        PUT + b"Transfer-Encoding: chunked\r\nContent-Length: 40\r\n\r\n0\r\n\r\n",
    ],
    ids=["short", "long"],
)
async def test_a_request_inside_of_another(server: ServerProcess, outer: bytes) -> None:
    """Of two lengths a proxy may believe the other: nothing may follow."""
    async with Witness(server):
        answer = await last_words(server, outer + HEALTHY)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "request_line",
    [
        b"OPTIONS * HTTP/1.1",
        b"CONNECT bus:5672 HTTP/1.1",
        b"CONNECT /health HTTP/1.1",
        b"TRACE / HTTP/1.1",
        b"GET http://bus/target HTTP/1.1",
        b"GET http://[::1/target HTTP/1.1",
        b"GET //evil/target HTTP/1.1",
        b"GET ?a=b HTTP/1.1",
        b"GET /%zz%%%2 HTTP/1.1",
        b"GET /%ff%fe HTTP/1.1",
        b"GET /%0d%0aX:%20y HTTP/1.1",
        b"GET /target?%24skip=%00&&&=&a HTTP/1.1",
        b"PRI * HTTP/1.1",
        b"POST /target/messages HTTP/1.1",
        b"GET /target HTTP/1.0",
    ],
)
async def test_strange_but_legal_requests_are_refused_for_their_token(
    server: ServerProcess, request_line: bytes
) -> None:
    async with Witness(server):
        said = request_line + b"\r\nHost: bus\r\nConnection: close\r\n\r\n"
        answer = await last_words(server, said)
        status = answer.split(b" ", 2)[1]
        assert status == (b"405" if b"/health" in request_line else b"401"), answer
        head = answer.partition(b"\r\n\r\n")[0]
        assert b"\r\nX:" not in head


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"evil.example",
        b"a" * 5_000,
        b'"><script>',
        b"[::1",
        b"host:99999999",
        b"\xe9\xff",
        b"a, b",
    ],
)
async def test_hosts_that_are_not_ours(server: ServerProcess, host: bytes) -> None:
    """Any name may lead to a bus; what stands in it is data, also in answers."""
    async with Witness(server):
        said = HEALTHY.replace(b"Host: bus", b"Host: " + host)
        assert (await last_words(server, said)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "header",
    [
        b"Upgrade: h2c\r\nConnection: Upgrade, close\r\nHTTP2-Settings: AAA",
        b"Expect: 100-continue\r\nConnection: close",
        b"Expect: the unexpected\r\nConnection: close",
        b"Range: bytes=0-0,-1\r\nConnection: close",
        b"Accept-Encoding: gzip;q=x\r\nConnection: close, close",
        b"Cookie: " + b"x" * 20_000 + b"\r\nConnection: close",
    ],
)
async def test_wishes_that_are_not_fulfilled(
    server: ServerProcess, header: bytes
) -> None:
    async with Witness(server):
        said = HEALTHY.replace(b"Connection: close", header)
        answer = await last_words(server, said)
        assert b"HTTP/1.1 200 " in answer
        assert b"HTTP/1.1 101 " not in answer


async def test_head_that_is_never_finished_ends_nothing_else(
    make_server: Callable[..., ServerProcess],
) -> None:
    """Its refusal has no body: one that had one was a bug in a tick, and the end."""
    server = make_server("--handshake-seconds", "1")
    async with Witness(server):
        said = b"HEAD /health HTTP/1.1\r\nHost: bus\r\nContent-Length: 5\r\n\r\nab"
        answer = await last_words(server, said)
        assert answer.startswith(b"HTTP/1.1 408 ") and answer.endswith(b"\r\n\r\n")
    assert "Traceback" not in server.errors


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        (b"/$servicebus/websocket", b"", 405),
        (b"/$servicebus/websocket", b"Upgrade: websocket\r\n", 405),
        (b"/q", b"Upgrade: websocket\r\n", 404),
        (b"/q", b"Content-Length: 1000000\r\n", 413),
        (b"/$bulk/append", b"Content-Length: 1000000\r\n", 401),
        (b"/q/messages", b"Content-Length: 1000000\r\n", 413),
        (b"/q", b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"/q", b"Cookie: " + b"x" * 40_000 + b"\r\n", 431),
        (b"/q", b"", 401),
    ],
)
async def test_refused_head_has_no_body(
    server: ServerProcess, target: bytes, headers: bytes, status: int
) -> None:
    async with Witness(server):
        said = b"HEAD " + target + b" HTTP/1.1\r\nHost: bus\r\n" + headers
        answer = await last_words(server, said + b"Connection: close\r\n\r\n")
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
        assert answer.endswith(b"\r\n\r\n") and answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "target", [b"/a://b/health", b"/a/http://b/health", b"//b://c/health"]
)
async def test_path_with_a_url_in_it_is_a_path(
    server: ServerProcess, target: bytes
) -> None:
    """A proxy in front sees it so, too, and decides by it."""
    async with Witness(server):
        answer = await last_words(server, HEALTHY.replace(b"/health", target))
        assert answer.startswith(b"HTTP/1.1 401 ")


async def test_odd_host_is_repeated_in_an_address(server: ServerProcess) -> None:
    call = Caller(server)
    assert (await call("POST", "/target/messages", b"x")).status == 201
    token = call.token().encode()
    said = b"POST /target/messages/head HTTP/1.1\r\nHost: h\xe9\r\nAuthorization: "
    said += token + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with Witness(server):
        answer = await last_words(server, said)
        assert answer.startswith(b"HTTP/1.1 201 ")
        assert b"\r\nlocation: http://h?/target/messages/" in answer


async def test_pipelined_requests_after_a_bad_one_are_not_read(
    server: ServerProcess,
) -> None:
    async with Witness(server):
        keep = HEALTHY.replace(b"Connection: close\r\n", b"")
        answer = await last_words(server, keep + REFUSED["no-host"] + HEALTHY)
        assert answer.count(b"HTTP/1.1 200 ") == 1
        assert answer.count(b"HTTP/1.1 400 ") == 1


def ask_and_reset(server: ServerProcess, said: bytes) -> None:
    """Say it, and reset the connection while it is being answered."""
    with socket.create_connection(("127.0.0.1", server.port)) as connected:
        connected.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        connected.sendall(said)
        # The first answer is there, so the others are being made.
        connected.recv(16)


async def test_reset_of_a_pipelined_connection_is_no_bug(server: ServerProcess) -> None:
    keep = HEALTHY.replace(b"Connection: close\r\n", b"")
    async with Witness(server):
        for _ in range(20):
            await asyncio.to_thread(ask_and_reset, server, keep * 100)
        assert (await last_words(server, HEALTHY)).startswith(b"HTTP/1.1 200 ")
    assert "Traceback" not in server.errors


async def test_the_end_of_writing_is_not_the_end_of_reading(
    server: ServerProcess,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    keep = HEALTHY.replace(b"Connection: close\r\n", b"")
    writer.write(keep * 3)
    writer.write_eof()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await reader.read()).count(b"HTTP/1.1 200 ") == 3
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("second", [AMQP_HEADER, SASL_HEADER, b"\x16\x03\x01\x02\x00"])
async def test_another_protocol_after_http(
    server: ServerProcess, second: bytes
) -> None:
    """What a connection speaks is decided by its first bytes, once."""
    async with Witness(server):
        keep = HEALTHY.replace(b"Connection: close\r\n", b"")
        answer = await last_words(server, keep + second + b"\r\n\r\n")
        assert answer.count(b"HTTP/1.1 ") == 2
        assert b"HTTP/1.1 400 " in answer


async def test_http_after_amqp(server: ServerProcess) -> None:
    async with Witness(server):
        assert b"HTTP" not in await last_words(server, AMQP_HEADER + HEALTHY)
        assert b"HTTP" not in await last_words(server, SASL_HEADER + HEALTHY)


# --- tls ------------------------------------------------------------------------


async def inside_tls(server: ServerProcess, said: bytes) -> bytes:
    """Everything that is answered to these bytes on a connection by TLS."""
    authority = server.data / "tls" / "ca.pem"
    reader, writer = await asyncio.open_connection(
        "localhost", server.port, ssl=ssl.create_default_context(cafile=authority)
    )
    writer.write(said)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            with contextlib.suppress(ConnectionError):
                return await reader.read()
            return b""
    finally:
        writer.transport.abort()


@pytest.fixture
def secure(make_server: Callable[..., ServerProcess]) -> ServerProcess:
    return make_server("--handshake-seconds", "1", "--tls-port", str(free_port()))


async def test_what_is_said_inside_of_tls(secure: ServerProcess) -> None:
    async with Witness(secure):
        assert (await inside_tls(secure, HEALTHY)).startswith(b"HTTP/1.1 200 ")
        assert (await inside_tls(secure, AMQP_HEADER)).startswith(b"AMQP")
        refusal = await inside_tls(secure, REFUSED["no-host"])
        assert refusal.startswith(b"HTTP/1.1 400 ")
        # TLS inside of TLS, garbage, and nothing that anybody speaks.
        for said in (b"\x16\x03\x01\x02\x00" + bytes(512), b"\xff" * 1_000, b"\0"):
            assert b"HTTP" not in await inside_tls(secure, said)
    assert secure.troubles == ""


async def test_who_goes_without_an_answer_writes_no_line(
    secure: ServerProcess,
) -> None:
    authority = secure.data / "tls" / "ca.pem"
    trusting = ssl.create_default_context(cafile=authority)
    keep = HEALTHY.replace(b"Connection: close\r\n", b"")
    async with Witness(secure):
        for _ in range(20):
            _, writer = await asyncio.open_connection(
                "localhost", secure.port, ssl=trusting
            )
            writer.write(keep * 5)
            # The end of TLS is right behind the requests.
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    assert secure.troubles == ""


async def test_handshakes_that_stop_half_way(secure: ServerProcess) -> None:
    """A hello like that of any client, and silence; or an end in the middle of it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    shaking = ssl.create_default_context().wrap_bio(
        incoming, outgoing, server_hostname="localhost"
    )
    with contextlib.suppress(ssl.SSLWantReadError):
        shaking.do_handshake()
    hello = outgoing.read()
    async with Witness(secure):
        for said in (hello, hello[: len(hello) // 2], hello + b"\xff" * 500):
            async with await Stranger.dial(secure) as stranger:
                stranger.write(said)
                assert b"HTTP" not in await stranger.expect_end()
            async with await Stranger.dial(secure) as stranger:
                stranger.write(said)
                await stranger.drain()
    assert secure.troubles == ""


async def test_a_crowd_of_half_handshakes(secure: ServerProcess) -> None:
    async with Witness(secure):
        crowd = [await Stranger.dial(secure) for _ in range(100)]
        for stranger in crowd:
            stranger.write(b"\x16\x03\x01\x02\x00\x01")
        await asyncio.gather(*(stranger.expect_end() for stranger in crowd))
        for stranger in crowd:
            await stranger.__aexit__()
        assert (await inside_tls(secure, HEALTHY)).startswith(b"HTTP/1.1 200 ")
    assert secure.troubles == ""


async def test_tls_where_there_is_none(server: ServerProcess) -> None:
    async with Witness(server):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(
                "localhost", server.port, ssl=ssl.create_default_context()
            )
