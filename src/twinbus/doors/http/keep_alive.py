"""A client's connection, as the requests on it see it.

A request may keep something for later requests of the same connection; it is closed
when the connection ends. A request that waits for a message says so: then the end of
the connection is noticed at once, and the request is cancelled.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Closable(Protocol):
    """Something that a connection keeps."""

    def close(self) -> None: ...


def _nothing() -> None:
    """Nobody has to know."""


class KeepAlive:
    """What outlives a request."""

    def __init__(self, on_waiting: Callable[[], None] = _nothing) -> None:
        """`on_waiting`: called when a request begins to wait."""
        self._on_waiting = on_waiting
        # The request waits, and has changed nothing.
        self.is_waiting = False
        # The client has closed its side. It can still read a response.
        self.is_half_closed = False
        self._is_closed = False
        # By a key of whoever keeps it.
        self.kept: dict[object, Closable] = {}

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The request may be cancelled in here, if the client goes. It is cancelled at
        once if the client has gone before."""
        if self._is_closed or self.is_half_closed:
            raise asyncio.CancelledError
        self.is_waiting = True
        self._on_waiting()
        try:
            yield
        finally:
            self.is_waiting = False

    def close(self) -> None:
        """The connection has ended. Called again after a request that was processed
        meanwhile, which may have kept something."""
        self._is_closed = True
        kept, self.kept = self.kept, {}
        for each in kept.values():
            each.close()
