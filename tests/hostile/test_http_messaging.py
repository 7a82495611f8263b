"""Malicious messaging requests: headers, bodies, paths and connections.

Each gets a documented status, nothing is stored, and the bus serves others meanwhile.
"""

import asyncio
import json
import re
import socket

import pytest
from crash.server_process import PATIENCE_SECONDS, ServerProcess
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.caller import Answer, Caller
from hostile.witness import Witness

BATCH = "application/vnd.microsoft.servicebus.json"
TOKEN = "00000000-0000-0000-0000-000000000000"
LIMIT_BYTES = 256 * 1024

BROKER_PROPERTIES = {
    "no-json": "{'MessageId': 1}",
    "half": '{"MessageId": "',
    "deep": "[" * 15_000,
    "deep-object": '{"a":' * 6_000,
    "digits": '{"TimeToLive": ' + "9" * 20_000 + "}",
    "exponent": '{"TimeToLive": -1e999}',
    "infinity": '{"TimeToLive": Infinity}',
    "array": "[]",
    "number": "5",
    "surrogate": '{"MessageId": "\\ud800"}',
    "long-id": json.dumps({"MessageId": "x" * 20_000}),
    "long-session": json.dumps({"SessionId": "x" * 20_000}),
    "keys-differ": '{"SessionId": "a", "PartitionKey": "b"}',
    "types": '{"Label": {"a": 1}}',
    "time": '{"ScheduledEnqueueTimeUtc": "Fri, 99 Jul 99999 22:34:06 GMT"}',
    "time-zone": '{"ScheduledEnqueueTimeUtc": "0001-01-01T00:00:00+99:99"}',
    "span": '{"TimeToLiveTimeSpan": "99999999999999999999.00:00:00"}',
    "latin": '{"MessageId": "\u00ff"',
}

BATCHES = {
    "nothing": b"",
    "empty": b"[]",
    "object": b"{}",
    "deep": b"[" * 200_000,
    "deep-body": b'[{"Body": ' + b"[" * 100_000,
    "digits": b"[" + b"9" * 100_000 + b"]",
    "utf-16": '[{"Body": "x"}]'.encode("utf-16")[:-1],
    "bytes": b"\xff\xfe\xfd",
    "nul": b"\0" * 1_000,
    "mixed": b'[{"Body": "good"}, 5]',
    "properties": b'[{"UserProperties": {"a": {"b": 1}}}]',
    "nan": b'[{"UserProperties": {"a": NaN}}]',
    "half-character": b'[{"Body": "\\ud800"}]',
}

PATHS = (
    *("/target/messages/../../news/messages", "/../target/messages"),
    *("/%2e%2e/target/messages", "//messages", "/%00/messages", "/target%00/messages"),
    *("/target/./messages", "/" + "a/" * 5_000 + "messages", "/%ff%fe/messages"),
    *("/$cbs/messages", "/$bulk%2Fx/messages"),
    *("/target/$management/messages", "/target/$management/messages/head?timeout=9"),
    *("/target/subscriptions/x/messages/head", "/target/$Transfer/messages/head"),
)


@pytest.mark.parametrize("name", BROKER_PROPERTIES)
async def test_broker_properties_that_are_none(
    server: ServerProcess, name: str
) -> None:
    call = Caller(server)
    async with Witness(server):
        answer = await call(
            "POST", "/target/messages", b"x", BrokerProperties=BROKER_PROPERTIES[name]
        )
        assert answer.status == 400, answer
        assert answer.detail.startswith("SubCode=40000. ")
        assert (await call("POST", "/target/messages/head?timeout=0")).status == 204


@pytest.mark.parametrize("name", BATCHES)
async def test_batches_that_are_none(server: ServerProcess, name: str) -> None:
    call = Caller(server)
    before = server.memory_bytes()
    async with Witness(server):
        answer = await call(
            "POST", "/target/messages", BATCHES[name], Content_Type=BATCH
        )
        assert answer.status == 400, answer
        assert answer.detail.startswith("SubCode=40000. ")
        assert (await call("POST", "/target/messages/head?timeout=0")).status == 204
    assert server.memory_bytes() - before < 64 * 1024 * 1024


@pytest.mark.parametrize("path", PATHS)
async def test_paths_that_lead_nowhere(server: ServerProcess, path: str) -> None:
    call = Caller(server)
    for method in ("POST", "DELETE"):
        answer = await call(method, path, b"x")
        assert answer.status in (400, 404, 405, 410), (method, path, answer)
    for entity in ("target", "news/subscriptions/all"):
        left = await call("POST", f"/{entity}/messages/head?timeout=0")
        assert left.status == 204, "it has led somewhere"


async def test_headers_beyond_the_limit_are_refused(server: ServerProcess) -> None:
    call = Caller(server)
    async with Witness(server):
        answer = await call("POST", "/target/messages", b"x", Big="y" * 40_000)
        assert answer.status == 431
        many = {f"X-{number}": "y" for number in range(5_000)}
        assert (await call("POST", "/target/messages", b"x", **many)).status == 431


async def test_properties_beyond_their_limit_are_refused(server: ServerProcess) -> None:
    call = Caller(server)
    user = {f"p{number}": "y" * 100 for number in range(700)}
    body = json.dumps([{"UserProperties": user}]).encode()
    answer = await call("POST", "/target/messages", body, Content_Type=BATCH)
    assert answer.status in (400, 403)


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("is_chunked", [True, False])
async def test_endless_bodies_are_not_read(
    server: ServerProcess, has_key: bool, is_chunked: bool
) -> None:
    """With a key as far as a message may go, without one hardly at all."""
    token = Caller(server).token() if has_key else "x"
    length = (
        "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {1 << 40}"
    )
    head = (
        f"POST /target/messages HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n"
        f"{length}\r\n\r\n"
    )
    before = server.memory_bytes()

    def flood() -> bytes:
        with socket.create_connection(("127.0.0.1", server.port), 30) as connected:
            connected.sendall(head.encode())
            sent, chunk = 0, b"x" * 32_768
            framed = b"%x\r\n%s\r\n" % (len(chunk), chunk) if is_chunked else chunk
            answered = b""
            connected.settimeout(0.2)
            while sent < 64 * 1024 * 1024:
                try:
                    connected.sendall(framed)
                except OSError:
                    break
                sent += len(chunk)
                if sent > LIMIT_BYTES:
                    break
            connected.settimeout(30)
            while more := connected.recv(65_536):
                answered += more
            return answered

    async with Witness(server):
        answered = await asyncio.to_thread(flood)
    status = 403 if has_key else 401
    assert answered.startswith(f"HTTP/1.1 {status}".encode()), answered
    assert b"connection: close" in answered
    if has_key:
        assert f"may have {LIMIT_BYTES} bytes".encode() in answered
    assert server.memory_bytes() - before < 32 * 1024 * 1024


async def test_many_who_wait_do_not_stop_others(server: ServerProcess) -> None:
    """As many as there may be; each is gone at once when its connection ends."""
    token = Caller(server).token()
    head = (
        "POST /target/messages/head?timeout=200 HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: {token}\r\nContent-Length: 0\r\n\r\n"
    )
    async with Witness(server):
        waiting = [
            await asyncio.open_connection("127.0.0.1", server.port)
            for _ in range(1_000)
        ]
        for _, writer in waiting:
            writer.write(head.encode())
            await writer.drain()
        call = Caller(server)
        assert (await call("POST", "/news/messages", b"x")).status == 201
        taken = await call("DELETE", "/news/subscriptions/all/messages/head?timeout=9")
        assert taken.status == 200
        for _, writer in waiting:
            writer.transport.abort()
        # Without a look at their connections they would wait for 200 seconds.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await connection_count(call) > 100:
                pass
        sent = await call("POST", "/target/messages", b"for the living")
        assert sent.status == 201
        answer = await call("DELETE", "/target/messages/head?timeout=20")
        assert (answer.status, answer.body) == (200, b"for the living")


async def connection_count(call: Caller) -> int:
    """As the server has it."""
    metrics = (await call("GET", "/metrics")).body.decode()
    (line,) = re.findall(r"^twinbus_connections (\S+)$", metrics, re.MULTILINE)
    return int(float(line))


class KeptOpen:
    """A connection that sends one request after another, by hand."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
    ) -> None:
        self._reader, self._writer, self._token = reader, writer, token

    async def ask(self, method: str, target: str, body: bytes = b"") -> Answer:
        head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: {self._token}"
        head += f"\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        async with asyncio.timeout(PATIENCE_SECONDS):
            start, *lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            pairs = (line.decode().partition(": ") for line in lines if line)
            headers = {name.lower(): value for name, _, value in pairs}
            length = int(headers.get("content-length", 0))
            body = await self._reader.readexactly(length)
        assert "connection" not in headers, "it is kept"
        return Answer(int(start.split()[1]), headers, body)

    def close(self) -> None:
        self._writer.transport.abort()


async def test_many_connections_are_used_again_and_again(
    server: ServerProcess,
) -> None:
    """All stay open; each sends and receives in turn, and nothing is lost or twice."""
    token, count, rounds = Caller(server).token(seconds=600), 1_000, 3
    kept = [
        KeptOpen(*await asyncio.open_connection("127.0.0.1", server.port), token)
        for _ in range(count)
    ]
    # Not all at the same moment: the machine of the tests is not what is tried.
    turns = asyncio.Semaphore(20)

    async def go_round(number: int, connection: KeptOpen) -> bytes:
        async with turns:
            sent = await connection.ask("POST", "/target/messages", b"%d" % number)
            assert sent.status == 201
            taken = await connection.ask("DELETE", "/target/messages/head?timeout=60")
            assert taken.status == 200
            return taken.body

    try:
        async with Witness(server):
            for _ in range(rounds):
                found = await asyncio.gather(*map(go_round, range(count), kept))
                assert sorted(map(int, found)) == list(range(count))
            last = await kept[0].ask("POST", "/target/messages/head?timeout=0")
            assert last.status == 204
    finally:
        for connection in kept:
            connection.close()


@settings(max_examples=60)
@given(
    method=st.sampled_from(["POST", "PUT", "DELETE", "PATCH"]),
    tail=st.text(
        st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"),
        max_size=40,
    ),
    body=st.binary(max_size=100),
)
def test_any_request_is_answered(
    server: ServerProcess, method: str, tail: str, body: bytes
) -> None:
    call = Caller(server)
    target = f"/nowhere/messages/{tail}"
    answer = asyncio.run(call(method, target, body))
    assert answer.status in (400, 401, 404, 405, 410, 501), answer


UNREADABLE = b"\x00\x53\x74\xc1\x06\x02\xa1\x01\xff\xa1\x00\x00\x53\x75\xa0\x04well"
"""Application properties whose name is no UTF-8."""


async def test_message_of_a_sender_that_breaks_the_rules_is_received(
    server: ServerProcess,
) -> None:
    """Otherwise it would be lost, or stay in the way of those behind it."""
    call = Caller(server)
    while (await call("DELETE", "/target/messages/head?timeout=0")).status == 200:
        continue
    async with await server.connect() as connection:
        sender = await connection.sender("target")
        await sender.send_many([UNREADABLE] * 2)
    for method, status in (("POST", 201), ("DELETE", 200)):
        answer = await call(method, "/target/messages/head?timeout=5")
        assert (answer.status, answer.body) == (status, b"well")
