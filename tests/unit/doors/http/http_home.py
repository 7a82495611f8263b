"""A server with one HTTP connection, on a transport that is a list."""

import asyncio
from typing import Any

from twinbus.doors.http.held_bytes import HeldBytes
from twinbus.doors.http.http_connection import HttpConnection
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.doors.visitor import Visits
from twinbus.owner.turns import Turns

BODY_BYTES = 100
HANDSHAKE_MS = 5_000
GET = b"GET /a HTTP/1.1\r\nhost: bus\r\n\r\n"
GET_WITH_KEY = b"GET /a HTTP/1.1\r\nhost: bus\r\nauthorization: x\r\n\r\n"


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.at = 1_000
        # How far each look at it moves it.
        self.step = 0

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        self.at += self.step
        return self.at


class Wire(asyncio.Transport):
    """What was written, and what else was done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_reading = True
        self.end = ""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.end in ("close", "abort")

    def close(self) -> None:
        self.end = "close"

    def abort(self) -> None:
        self.end = "abort"

    def can_write_eof(self) -> bool:
        return True

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def write_eof(self) -> None:
        self.end = "eof"

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def statuses(self) -> list[int]:
        parts = self.written.split(b"HTTP/1.1 ")[1:]
        return [int(part[:3]) for part in parts]


class Home:
    """A server with one connection, which answers when it is told to."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.handshake_ms = HANDSHAKE_MS
        self.held = HeldBytes()
        self.strangers_held = self
        self.visits = Visits(self.clock, 0)
        self.turns = Turns(self.clock)
        self.body_bytes = BODY_BYTES
        self.gateway = self
        self.asked: list[HttpRequest] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        # Requests say that they wait.
        self.waits = False
        self.response = HttpResponse(status=200, body=b"hello")
        self.members: set[HttpConnection] = set()
        self.recognized_count = 0
        self.held_by_strangers = 0

    def joined(self, connection: HttpConnection) -> None:
        self.members.add(connection)

    def left(self, connection: HttpConnection) -> None:
        self.members.discard(connection)

    def shows_key(self, request: HttpRequest) -> bool:
        return "authorization" in request.headers

    def recognized(self, connection: HttpConnection) -> None:
        self.recognized_count += 1

    def hold(self, holder: HttpConnection, size: int) -> None:
        self.held_by_strangers = size

    def max_body_bytes(self, request: HttpRequest) -> int:
        return self.body_bytes

    def too_large(self, request: HttpRequest, text: str) -> HttpResponse:
        return HttpResponse(status=413, body=text.encode())

    async def answer(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request)
        if self.waits:
            with request.connection.waiting():
                await self.may_answer.wait()
        await self.may_answer.wait()
        return self.response


async def settle(connection: HttpConnection) -> None:
    """Let what was asked be answered."""
    while connection.requests:
        await asyncio.gather(*connection.requests)


def pass_time(connection: HttpConnection, home: Home, milliseconds: int) -> None:
    home.clock.at += milliseconds
    connection.tick(home.clock.now(), home.clock.monotonic())
