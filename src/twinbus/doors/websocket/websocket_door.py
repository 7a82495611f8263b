"""Where HTTP connections become AMQP connections over WebSockets."""

import asyncio
from collections.abc import Callable, Collection

from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.doors.websocket.handshake import answer_to, is_meant_by
from twinbus.doors.websocket.websocket_stream import Lingering, WebSocketStream
from twinbus.owner.turns import Turns


class WebSocketDoor:
    """Of one server."""

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        turns: Turns,
        origins: Collection[str],
    ) -> None:
        """`make` gives what speaks AMQP on a new connection; pages of `origins` may
        connect from a browser."""
        self._make = make
        self._turns = turns
        self._origins = origins
        self._lingering = Lingering()

    def is_meant_by(self, request: HttpRequest) -> bool:
        return is_meant_by(request)

    def answer(self, request: HttpRequest) -> HttpResponse:
        return answer_to(request, self._origins)

    def successor(self, request: HttpRequest) -> asyncio.Protocol:
        host = request.headers.get("host", "")
        return WebSocketStream(self._make(), self._turns, self._lingering, host)
