"""The stream of a WebSocket, between a socket and a protocol that are lists."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from websockets.frames import Frame, Opcode

from twinbus.clock import SystemClock
from twinbus.doors.websocket.websocket_stream import Lingering, WebSocketStream
from twinbus.owner.turns import Turns


class Wire(asyncio.Transport):
    """What was written, and what else was done to it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 7)})
        self.written = b""
        self.is_reading = True
        self.end = ""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.end != ""

    def close(self) -> None:
        self.end = "close"

    def abort(self) -> None:
        self.end = "abort"

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def get_write_buffer_size(self) -> int:
        return len(self.written)


class Behind(asyncio.Protocol):
    """What the protocol of the stream was told."""

    def __init__(self) -> None:
        self.received = b""
        self.told: list[str] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.told.append("lost")

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


class Connection:
    """A stream with both its ends."""

    def __init__(self, lingering: Lingering | None = None) -> None:
        self.wire, self.behind = Wire(), Behind()
        self.lingering = lingering or Lingering()
        turns = Turns(SystemClock())
        self.stream = WebSocketStream(self.behind, turns, self.lingering)
        self.stream.connection_made(self.wire)

    def sends(self, data: bytes, opcode: Opcode = Opcode.BINARY) -> None:
        self.stream.data_received(Frame(opcode, data).serialize(mask=True))


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until it is so."""
    async with asyncio.timeout(20):
        while True:
            if is_so():
                return
            await asyncio.sleep(0)


@pytest.fixture
async def connection() -> Connection:
    return Connection()


async def test_stream_passes_in_both_directions(connection: Connection) -> None:
    connection.sends(b"AMQP")
    connection.sends(b"")
    assert connection.behind.received == b"AMQP"
    connection.behind.transport.write(b"answer")
    assert connection.wire.written == b"\x82\x06answer"
    assert connection.behind.transport.get_extra_info("peername")[1] == 7


async def test_nothing_to_write_is_no_message(connection: Connection) -> None:
    connection.behind.transport.write(b"")
    assert connection.wire.written == b""


async def test_ping_is_answered_with_its_payload(connection: Connection) -> None:
    connection.sends(b"now", Opcode.PING)
    assert connection.wire.written == b"\x8a\x03now"


async def test_pings_of_a_client_that_does_not_read_pile_up_nothing(
    connection: Connection,
) -> None:
    connection.stream.pause_writing()
    for number in range(1_000):
        connection.sends(b"%d" % number, Opcode.PING)
    assert connection.wire.written == b""
    connection.stream.resume_writing()
    assert connection.wire.written == b"\x8a\x03999"
    assert connection.behind.told == ["pause", "resume"]


async def test_close_of_the_client_is_answered_after_its_last_bytes(
    connection: Connection,
) -> None:
    connection.stream.data_received(
        Frame(Opcode.BINARY, b"last").serialize(mask=True)
        + Frame(Opcode.CLOSE, b"\x03\xe9bye").serialize(mask=True)
    )
    assert connection.behind.received == b"last"
    assert connection.wire.written == b"\x88\x02\x03\xe9"
    assert connection.wire.end == "close"
    assert connection.behind.transport.is_closing()


async def test_our_close_waits_for_the_answer(connection: Connection) -> None:
    transport = connection.behind.transport
    transport.pause_reading()
    transport.write(b"x")
    transport.close()
    transport.write(b"too late")
    assert connection.wire.written == b"\x82\x01x\x88\x02\x03\xe8"
    assert connection.wire.end == "" and transport.is_closing()
    assert connection.wire.is_reading and connection.lingering.count == 1
    connection.sends(b"is not heard")
    connection.sends(b"\x03\xe8", Opcode.CLOSE)
    assert connection.wire.written == b"\x82\x01x\x88\x02\x03\xe8"
    assert connection.wire.end == "close" and connection.lingering.count == 0
    assert connection.behind.received == b""


async def test_close_without_an_answer_ends_in_time(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "twinbus.doors.websocket.websocket_stream._CLOSING_SECONDS", 0.001
    )
    connection.behind.transport.close()
    await until(lambda: connection.wire.end == "abort")
    assert connection.lingering.count == 0


async def test_only_some_connections_wait_for_the_answer() -> None:
    lingering = Lingering()
    connections = [Connection(lingering) for _ in range(40)]
    for each in connections:
        each.behind.transport.close()
    assert [each.wire.end for each in connections] == [""] * 32 + ["close"] * 8
    for each in connections:
        each.stream.connection_lost(None)
    assert lingering.count == 0


async def test_client_that_reads_nothing_is_not_waited_for(
    connection: Connection,
) -> None:
    connection.stream.pause_writing()
    connection.behind.transport.close()
    assert connection.wire.end == "close"


async def test_broken_frame_closes_with_the_reason(connection: Connection) -> None:
    connection.stream.data_received(b"\x82\x01x")
    assert connection.wire.written[2:4] == (1002).to_bytes(2, "big")
    assert b"mask" in connection.wire.written
    connection.sends(b"nobody listens")
    assert connection.behind.received == b"" and connection.wire.end == ""
    connection.stream.connection_lost(None)
    assert connection.behind.told == ["lost"]


async def test_many_small_frames_wait_for_their_turn(connection: Connection) -> None:
    one = Frame(Opcode.BINARY, b"x").serialize(mask=True)
    connection.stream.data_received(one * 3_500)
    assert len(connection.behind.received) == 1_000
    assert not connection.wire.is_reading
    await until(lambda: connection.wire.is_reading)
    assert len(connection.behind.received) == 3_500


async def test_reading_goes_on_only_if_the_protocol_wants_more(
    connection: Connection,
) -> None:
    one = Frame(Opcode.BINARY, b"x").serialize(mask=True)
    connection.stream.data_received(one * 1_500)
    connection.behind.transport.pause_reading()
    await until(lambda: len(connection.behind.received) == 1_500)
    assert not connection.wire.is_reading
    connection.behind.transport.resume_reading()
    assert connection.wire.is_reading


async def test_lost_connection_has_its_received_bytes_processed(
    connection: Connection,
) -> None:
    one = Frame(Opcode.BINARY, b"x").serialize(mask=True)
    connection.stream.data_received(one * 2_500)
    connection.stream.connection_lost(None)
    assert len(connection.behind.received) == 2_500
    assert connection.behind.told == ["lost"]
    assert connection.behind.transport.is_closing()
    connection.behind.transport.write(b"nobody")
    connection.behind.transport.close()


async def test_abort_ends_at_once(connection: Connection) -> None:
    connection.behind.transport.abort()
    assert connection.wire.end == "abort" and connection.wire.written == b""
