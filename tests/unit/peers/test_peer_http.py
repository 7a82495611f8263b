"""HTTP requests to another broker, over connections that are used again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from twinbus.errors import ServerBusy
from twinbus.peers.peer_address import host_and_port
from twinbus.peers.peer_http import PeerHttp


async def over_tcp(address: str, make: Any) -> Any:
    """The broker below does not greet."""
    loop = asyncio.get_running_loop()
    return await loop.create_connection(make, *host_and_port(address))


class HandClock:
    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at


class Broker:
    """Answers each request with its body, or as it is told."""

    def __init__(self) -> None:
        self.connection_count = 0
        self.requests: list[bytes] = []
        self.answer = b""
        self.must_close = False
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connection_count += 1
        try:
            while not self.must_close:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split()[0])
                body = await reader.readexactly(length)
                self.requests.append(head)
                head = b"HTTP/1.1 200 OK\r\nx-a: b\r\ncontent-length: "
                whole = head + str(len(body)).encode() + b"\r\n\r\n" + body
                writer.write(self.answer or whole)
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    made = Broker()
    yield made
    await made.stop()


@pytest.fixture
async def http() -> AsyncIterator[PeerHttp]:
    made = PeerHttp(HandClock(), over_tcp)
    yield made
    made.close()


async def test_answers_and_connections_are_used_again(
    broker: Broker, http: PeerHttp
) -> None:
    address = await broker.start()
    for body in (b"", b"x", b"y" * 1_000_000):
        answer = await http.post(address, "/a", {"x-client": "c"}, body, 10)
        assert (answer.status, answer.body) == (200, body)
        assert answer.headers["x-a"] == "b"
    assert broker.connection_count == 1
    assert b"x-client: c" in broker.requests[0].lower()
    assert f"host: {address}".encode() in broker.requests[0].lower()


async def test_requests_at_the_same_time_have_connections_of_their_own(
    broker: Broker, http: PeerHttp
) -> None:
    address = await broker.start()
    asking = (http.post(address, "/a", {}, b"%d" % n, 10) for n in range(20))
    answers = await asyncio.gather(*asking)
    assert [one.body for one in answers] == [b"%d" % n for n in range(20)]
    assert 1 < broker.connection_count <= 20


async def test_connection_that_was_idle_for_long_is_not_used(broker: Broker) -> None:
    clock = HandClock()
    http, address = PeerHttp(clock, over_tcp), await broker.start()
    await http.post(address, "/a", {}, b"", 10)
    clock.at += 60_000
    await http.post(address, "/a", {}, b"", 10)
    assert broker.connection_count == 2
    clock.at += 60_000
    http.forget_idle()
    assert http._idle == {}
    http.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\n",
        b"\x00\x01\x02\r\n\r\n",
    ],
)
async def test_broker_that_is_lost_or_speaks_nonsense_is_busy(
    broker: Broker, http: PeerHttp, answer: bytes
) -> None:
    address = await broker.start()
    broker.answer, broker.must_close = answer, False

    async def ask() -> None:
        await http.post(address, "/a", {}, b"", 0.2)

    with pytest.raises(ServerBusy, match="did not answer"):
        await ask()
    assert http._idle.get(address, []) == []


async def test_nobody_listens(http: PeerHttp) -> None:
    gone = Broker()
    address = await gone.start()
    await gone.stop()
    with pytest.raises(ServerBusy, match="another one takes over"):
        await http.post(address, "/a", {}, b"", 5)
