"""One HTTP connection: framing and limits, on a transport that is a list."""

import asyncio

import pytest
from unit.doors.http.http_home import (
    BODY_BYTES,
    GET,
    GET_WITH_KEY,
    HANDSHAKE_MS,
    Home,
    Wire,
    pass_time,
    settle,
)

from twinbus.doors.http.http_connection import HttpConnection
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.limits import (
    HTTP_HEADER_BYTES,
    HTTP_KEEP_ALIVE_SECONDS,
    HTTP_STRANGER_SECONDS,
)


async def test_a_request_is_answered(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    connection.data_received(
        b"PUT /a%2Fb/c?x=%24y HTTP/1.1\r\nHost: bus\r\nX: 1\r\nX: 2\r\n"
        b"Content-Length: 3\r\n\r\nabc"
    )
    await settle(connection)
    (request,) = home.asked
    assert (request.method, request.path) == ("PUT", "a/b/c")
    assert (request.query, request.body) == ({"x": "$y"}, b"abc")
    assert request.headers["x"] == "1, 2"
    assert request.root == "http://bus"
    assert wire.written == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    assert wire.end == ""


async def test_a_request_byte_by_byte(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    for byte in GET + GET:
        connection.data_received(bytes((byte,)))
        await settle(connection)
    assert wire.statuses() == [200, 200]


async def test_pipelined_requests_wait_for_their_turn(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    home.may_answer.clear()
    connection.data_received(GET * 5)
    await asyncio.sleep(0)
    assert len(home.asked) == 1
    assert not wire.is_reading
    home.may_answer.set()
    await settle(connection)
    assert wire.statuses() == [200] * 5
    assert wire.is_reading


async def test_who_does_not_read_is_not_answered_further(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    connection.pause_writing()
    connection.data_received(GET)
    await settle(connection)
    assert (home.asked, wire.is_reading) == ([], False)
    connection.resume_writing()
    await settle(connection)
    assert wire.statuses() == [200]
    assert wire.is_reading


async def test_what_is_held_for_a_stranger_is_counted_apart(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    head = b"PUT /a HTTP/1.1\r\nhost: bus\r\n"
    connection.data_received(head)
    assert home.held_by_strangers == len(head)
    connection.data_received(b"content-length: 9\r\n\r\nabcd")
    assert home.held_by_strangers == 4
    home.may_answer.clear()
    connection.data_received(b"efghi" + GET)
    # What it sends before it has its answer counts as well.
    assert home.held_by_strangers == 9 + len(GET)
    home.may_answer.set()
    await settle(connection)
    assert home.held_by_strangers == 0
    connection.data_received(GET_WITH_KEY[:-1])
    assert home.held_by_strangers == len(GET_WITH_KEY) - 1
    connection.data_received(GET_WITH_KEY[-1:])
    assert home.held_by_strangers == 0
    await settle(connection)
    assert home.held.held == 0


async def test_what_is_held_for_a_client_is_counted(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    connection.data_received(
        b"PUT /a HTTP/1.1\r\nhost: bus\r\nauthorization: x\r\n"
        b"content-length: 9\r\n\r\nabcd"
    )
    assert home.held.held == 4
    home.may_answer.clear()
    connection.data_received(b"efghi")
    assert home.held.held == 9
    home.may_answer.set()
    await settle(connection)
    assert home.held.held == 0
    connection.pause_writing()
    assert home.held.held == len(wire.written)
    connection.resume_writing()
    assert home.held.held == 0
    connection.pause_writing()
    connection.connection_lost(None)
    assert home.held.held == 0


async def test_response_that_was_sent_in_part_is_held_as_a_whole(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    home.response = HttpResponse(status=200, body=bytes(50_000))
    connection.data_received(GET_WITH_KEY)
    await settle(connection)
    # The system has taken the rest.
    wire.written = wire.written[-10:]
    connection.pause_writing()
    assert home.held.held == 50_000
    connection.resume_writing()
    assert home.held.held == 0


async def test_chunks_are_put_together(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    connection.data_received(
        b"PUT /a HTTP/1.1\r\nhost: bus\r\ntransfer-encoding: chunked\r\n\r\n"
        b"2\r\nab\r\n3;ext=1\r\ncde\r\n0\r\n\r\n"
    )
    await settle(connection)
    assert home.asked[0].body == b"abcde"


async def test_who_asks_whether_to_go_on_is_told_so(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    connection.data_received(
        b"PUT /a HTTP/1.1\r\nhost: bus\r\ncontent-length: 2\r\n"
        b"expect: 100-continue\r\n\r\n"
    )
    assert wire.written == b"HTTP/1.1 100 \r\n\r\n"
    connection.data_received(b"ab")
    await settle(connection)
    assert wire.statuses() == [100, 200]


async def test_head_has_no_body(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    connection.data_received(GET.replace(b"GET", b"HEAD") + GET)
    await settle(connection)
    assert wire.statuses() == [200, 200]
    assert wire.written.count(b"hello") == 1
    assert wire.written.count(b"content-length: 5") == 2


async def test_an_answer_without_a_body(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    home.response = HttpResponse(status=204)
    connection.data_received(GET)
    await settle(connection)
    assert wire.written == b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
    ],
)
async def test_the_connection_ends_where_the_client_wants_it(
    connection: HttpConnection, home: Home, wire: Wire, request_bytes: bytes
) -> None:
    connection.data_received(request_bytes)
    await settle(connection)
    assert wire.statuses() == [200]
    assert wire.end == "close"


async def test_who_ends_its_side_is_still_answered(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    home.may_answer.clear()
    connection.data_received(GET)
    assert connection.eof_received()
    home.may_answer.set()
    await settle(connection)
    assert wire.statuses() == [200]
    assert wire.end == "close"


async def test_an_end_without_a_request_is_one() -> None:
    home = Home()
    connection, wire = HttpConnection(home), Wire()
    connection.connection_made(wire)
    assert not connection.eof_received()
    connection.connection_lost(None)
    assert home.members == set()


async def test_a_bug_is_an_internal_error(
    connection: HttpConnection,
    home: Home,
    wire: Wire,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(request: HttpRequest) -> HttpResponse:
        raise AssertionError("secret")

    monkeypatch.setattr(home, "answer", fail)
    connection.data_received(GET)
    await settle(connection)
    assert wire.statuses() == [500]
    assert b"secret" not in wire.written


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET\r\n\r\n", 400),
        (b"GET / HTCPCP/1.0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\nx: \x00\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 1e9\r\n\r\n", 400),
        (
            b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n"
            b"content-length: 2\r\n\r\n",
            400,
        ),
        (b"PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n", 501),
        (
            b"PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
            400,
        ),
        (
            b"PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
            b"FFFFFFFFFFFFFFFFFFFFFFFF\r\n",
            400,
        ),
        (b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * HTTP_HEADER_BYTES, 431),
        (b"GET /" + b"y" * HTTP_HEADER_BYTES, 431),
        (b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 101\r\n\r\n", 413),
        (
            b"PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
            b"65\r\n" + b"y" * 101,
            413,
        ),
    ],
)
async def test_what_cannot_be_read_is_refused(
    connection: HttpConnection,
    home: Home,
    wire: Wire,
    request_bytes: bytes,
    status: int,
) -> None:
    connection.data_received(request_bytes)
    assert wire.statuses() == [status]
    assert b"connection: close" in wire.written.lower()
    assert wire.end in ("eof", "close")
    written = wire.written
    connection.data_received(GET * 100)
    assert (wire.written, home.asked) == (written, [])


async def test_a_body_at_the_limit_is_taken(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    head = b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % BODY_BYTES
    connection.data_received(head + bytes(BODY_BYTES))
    await settle(connection)
    assert wire.statuses() == [200]


# --- time -----------------------------------------------------------------------


async def test_who_says_nothing_is_cut_off(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    pass_time(connection, home, HANDSHAKE_MS)
    assert wire.end == ""
    pass_time(connection, home, 1)
    assert wire.end == "abort"


async def test_headers_byte_by_byte_have_no_more_time(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    for byte in GET[:6]:
        connection.data_received(bytes((byte,)))
        pass_time(connection, home, HANDSHAKE_MS // 5)
    assert wire.end == "abort"


async def test_a_body_byte_by_byte_has_no_more_time(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    head = b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 50\r\n\r\n"
    connection.data_received(head)
    for _ in range(6):
        connection.data_received(b"y")
        pass_time(connection, home, HANDSHAKE_MS // 5)
    assert wire.statuses() == [408]
    pass_time(connection, home, HANDSHAKE_MS)
    assert wire.end == "abort"


async def test_an_answer_may_take_its_time(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    home.may_answer.clear()
    connection.data_received(GET)
    pass_time(connection, home, 10 * HANDSHAKE_MS)
    home.may_answer.set()
    await settle(connection)
    assert wire.statuses() == [200]


async def test_a_connection_with_a_key_is_kept_for_a_while(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    connection.data_received(GET_WITH_KEY)
    await settle(connection)
    pass_time(connection, home, HTTP_KEEP_ALIVE_SECONDS * 1000)
    connection.data_received(GET)
    await settle(connection)
    assert wire.statuses() == [200, 200]
    assert home.recognized_count == 1
    pass_time(connection, home, HTTP_KEEP_ALIVE_SECONDS * 1000 + 1)
    assert wire.end == "abort"


async def test_a_connection_without_a_key_is_kept_for_less(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    connection.data_received(GET)
    await settle(connection)
    pass_time(connection, home, HANDSHAKE_MS)
    assert wire.end == ""
    pass_time(connection, home, 1)
    assert wire.end == "abort"
    assert home.recognized_count == 0


@pytest.mark.parametrize(("request_bytes", "end"), [(GET, "close"), (GET_WITH_KEY, "")])
async def test_a_connection_without_a_key_has_a_last_answer(
    connection: HttpConnection, home: Home, wire: Wire, request_bytes: bytes, end: str
) -> None:
    """A probe that comes all the time is told that it should connect anew."""
    while home.clock.at < 1_000 + HTTP_STRANGER_SECONDS * 1000:
        assert wire.end == ""
        connection.data_received(request_bytes)
        await settle(connection)
        pass_time(connection, home, HANDSHAKE_MS)
    assert b"connection: close" not in wire.written
    home.clock.at += 1
    connection.data_received(request_bytes)
    await settle(connection)
    assert set(wire.statuses()) == {200}
    assert (b"connection: close" in wire.written) == bool(end)
    assert wire.end == end


async def test_under_pressure_nothing_is_read(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    connection.pause_reading()
    assert not wire.is_reading
    connection.resume_reading()
    assert wire.is_reading


async def test_stopping_closes_it(connection: HttpConnection, wire: Wire) -> None:
    connection.close(None, 0)
    assert wire.end == "close"


# --- requests that wait -----------------------------------------------------------


class Kept:
    """Something that a request keeps."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


async def test_end_of_the_stream_ends_a_request_that_waits(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    home.waits = True
    home.may_answer.clear()
    connection.data_received(GET)
    await asyncio.sleep(0)
    (request,) = connection.requests
    assert wire.is_reading, "or the end would not be noticed"
    assert not connection.eof_received(), "the transport closes"
    await asyncio.gather(request, return_exceptions=True)
    assert request.cancelled()
    assert not connection.requests
    assert wire.written == b""


async def test_request_does_not_begin_to_wait_after_the_end_of_the_stream(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    home.waits = True
    home.may_answer.clear()
    connection.data_received(GET)
    (request,) = connection.requests
    assert connection.eof_received(), "it could be one that does not wait"
    await asyncio.gather(request, return_exceptions=True)
    assert request.cancelled()
    assert not connection.requests
    assert wire.written == b""
    assert wire.end == "close"


async def test_lost_connection_ends_a_request_that_waits_and_what_is_kept(
    connection: HttpConnection, home: Home
) -> None:
    home.waits = True
    home.may_answer.clear()
    connection.data_received(GET)
    await asyncio.sleep(0)
    (request,) = connection.requests
    kept = home.asked[0].connection.kept["mine"] = Kept()
    connection.connection_lost(None)
    await asyncio.gather(request, return_exceptions=True)
    assert request.cancelled()
    assert kept.is_closed


async def test_other_requests_go_on_without_their_client(
    connection: HttpConnection, home: Home
) -> None:
    home.may_answer.clear()
    connection.data_received(GET)
    await asyncio.sleep(0)
    (request,) = connection.requests
    assert connection.eof_received()
    connection.connection_lost(None)
    home.may_answer.set()
    await request
    assert not request.cancelled()


async def test_requests_behind_one_that_waits_are_read_up_to_a_limit(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    home.waits = True
    home.may_answer.clear()
    connection.data_received(GET)
    await asyncio.sleep(0)
    connection.data_received(GET)
    assert wire.is_reading
    connection.data_received(GET * (HTTP_HEADER_BYTES // len(GET)))
    assert not wire.is_reading
    home.may_answer.set()
    await settle(connection)
    assert set(wire.statuses()) == {200}
    assert wire.is_reading


async def test_requests_of_a_connection_share_what_they_keep(
    connection: HttpConnection, home: Home
) -> None:
    connection.data_received(GET + GET)
    await settle(connection)
    first, second = home.asked
    assert first.connection is second.connection


async def test_names_of_headers_are_kept_as_written(
    connection: HttpConnection, home: Home
) -> None:
    connection.data_received(b"GET /a HTTP/1.1\r\nHost: b\r\nMy-Name: x\r\n\r\n")
    await settle(connection)
    assert home.asked[0].names["my-name"] == "My-Name"
    assert home.asked[0].headers["my-name"] == "x"


async def test_request_whose_client_has_gone_before_it_waits_is_cancelled(
    connection: HttpConnection, home: Home
) -> None:
    """It was read, and the connection ended before it began."""
    home.waits = True
    home.may_answer.clear()
    connection.data_received(GET)
    (request,) = connection.requests
    connection.connection_lost(None)
    await asyncio.gather(request, return_exceptions=True)
    assert request.cancelled()
    assert not connection.requests


async def test_what_is_kept_after_the_end_is_closed_with_its_request(
    connection: HttpConnection, home: Home
) -> None:
    home.may_answer.clear()
    connection.data_received(GET)
    await asyncio.sleep(0)
    connection.connection_lost(None)
    kept = home.asked[0].connection.kept["mine"] = Kept()
    home.may_answer.set()
    await settle(connection)
    assert kept.is_closed


async def test_aborted_connection_is_not_touched_again(
    connection: HttpConnection, home: Home, wire: Wire
) -> None:
    """Its request goes on until the connection is lost."""
    home.may_answer.clear()
    connection.data_received(GET)
    await asyncio.sleep(0)
    connection.abort()
    wire.is_reading = False
    home.may_answer.set()
    await settle(connection)
    assert (wire.end, wire.written, wire.is_reading) == ("abort", b"", False)
