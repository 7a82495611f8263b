"""What strangers send to an HTTP connection on purpose: HEAD, and tiny chunks."""

import asyncio

import pytest
from unit.doors.http.http_home import GET, HANDSHAKE_MS, Home, Wire, pass_time, settle

from twinbus.doors.http.http_connection import HttpConnection
from twinbus.limits import HTTP_HEADER_BYTES


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"HEAD / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nab", 408),
        (b"HEAD / HTTP/1.1\r\nhost: a\r\ncontent-length: 101\r\n\r\n", 413),
        (
            b"HEAD / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n"
            b"transfer-encoding: chunked\r\n\r\n",
            400,
        ),
        (b"HEAD / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * HTTP_HEADER_BYTES, 431),
    ],
)
async def test_refused_head_has_no_body(
    connection: HttpConnection,
    home: Home,
    wire: Wire,
    request_bytes: bytes,
    status: int,
) -> None:
    connection.data_received(request_bytes + b"\r\n\r\n" * (status == 431))
    pass_time(connection, home, HANDSHAKE_MS + 1)
    assert wire.statuses() == [status]
    assert wire.written.endswith(b"\r\n\r\n")
    assert wire.end


async def test_request_that_cannot_be_read_after_head_is_told_why(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    connection.data_received(GET.replace(b"GET", b"HEAD") + b"no request\r\n\r\n")
    await settle(connection)
    assert wire.statuses() == [200, 400]
    assert wire.written.endswith(b"\n") and b"Bad request" in wire.written


CHUNKS = b"1\r\na\r\n" * 5_000 + b"0\r\n\r\n"


@pytest.mark.parametrize("ends", [False, True])
async def test_many_chunks_are_taken_in_turns(
    connection: HttpConnection, home: Home, wire: Wire, ends: bool
) -> None:
    home.body_bytes = 10_000
    # A look a millisecond: turns are over at once.
    home.clock.step = 1
    connection.data_received(b"PUT /a HTTP/1.1\r\nhost: bus\r\n")
    connection.data_received(b"transfer-encoding: chunked\r\n\r\n" + CHUNKS[:9_000])
    connection.data_received(CHUNKS[9_000:] + GET)
    assert not wire.is_reading
    if ends:
        assert connection.eof_received()
    turn_count = 0
    while len(home.asked) < 2:
        await asyncio.sleep(0)
        await settle(connection)
        turn_count += 1
    await settle(connection)
    assert home.asked[0].body == b"a" * 5_000
    assert turn_count > 5
    assert wire.statuses() == [200, 200]
    assert wire.is_reading or ends


async def test_chunks_that_wait_end_with_their_connection(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    home.clock.step = 1
    home.body_bytes = 10_000
    connection.data_received(b"PUT /a HTTP/1.1\r\nhost: bus\r\n")
    connection.data_received(b"transfer-encoding: chunked\r\n\r\n" + CHUNKS)
    connection.connection_lost(None)
    for _ in range(100):
        await asyncio.sleep(0)
    assert (home.asked, home.members, home.held_by_strangers) == ([], set(), 0)
