"""Listening sockets: each new connection is handed over as a plain socket.

asyncio's own listeners create a transport at once, and so must know beforehand whether
it is TLS. Here a connection stays a plain socket until its first byte can be peeked
(`arrival.py`).
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import Final, Self

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1_024

_ACCEPTS_PER_TURN: Final = 64
"""Limits the time of one turn, so that other work continues during a rush."""

_RETRY_SECONDS: Final = 1.0
"""Pause after the system had no files or memory for another connection."""

_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


Admit = Callable[[socket.socket], None]


class Listener:
    """Accepts connections on all addresses of a host, at one port."""

    @classmethod
    def at(cls, host: str, port: int, admit: Admit) -> Self:
        """Listens when this returns. Raises OSError."""
        return cls(listening_sockets(host, port), admit)

    def __init__(
        self,
        sockets: list[socket.socket],
        admit: Admit,
        accepts_per_turn: int = _ACCEPTS_PER_TURN,
    ) -> None:
        """`accepts_per_turn`: of sockets that others accept from as well each takes
        one at a time, so that all get their share."""
        self._admit = admit
        self._sockets = list(sockets)
        self._accepts_per_turn = accepts_per_turn
        self.port: int = self._sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        for listening in self._sockets:
            self._loop.add_reader(listening, self._on_readable, listening)

    def close(self) -> None:
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets.clear()

    def _on_readable(self, listening: socket.socket) -> None:
        for _ in range(self._accepts_per_turn):
            try:
                connected, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._on_failure(listening, error)
                return
            connected.setblocking(False)
            self._admit(connected)

    def _on_failure(self, listening: socket.socket, error: OSError) -> None:
        why = os.strerror(error.errno or 0)
        _log.error("can't accept a connection on port %d: %s", self.port, why)
        if error.errno in _EXHAUSTED:
            # The connection is still pending, and would be reported again at once.
            self._loop.remove_reader(listening)
            self._loop.call_later(_RETRY_SECONDS, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._on_readable, listening)


def listening_sockets(
    host: str, port: int, *, is_shared: bool = False
) -> list[socket.socket]:
    """One socket for each address of the host name. `is_shared`: other processes may
    listen at the same port, if they share it as well. Raises OSError."""
    found = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    opened: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            opened.append(_listening_socket(family, address, port, is_shared))
            # If any free port is used, all addresses get the port of the first.
            port = port or opened[0].getsockname()[1]
    except BaseException:
        for listening in opened:
            listening.close()
        raise
    return opened


def _listening_socket(
    family: int, address: tuple[object, ...], port: int, is_shared: bool
) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # IPv4 has its own socket.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((address[0], port, *address[2:]))
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
