"""Notices that an application closes its client.

A client closes all senders and receivers that it has made. The sign is registered with
the client like one of these, so its `close` is called, too. No method of the client is
replaced.
"""

from collections.abc import Callable
from typing import Any

from twinbus.pairing.sdk.twins import is_asynchronous
from twinbus.sdk_internals import clients


class ClosingSign:
    """A part of a synchronous client."""

    # The SDK logs this name.
    _container_id = "twinbus-pair"

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def close(self) -> None:
        self._tell()


class AsyncClosingSign:
    """A part of an asynchronous client."""

    _container_id = "twinbus-pair"

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    async def close(self) -> None:
        self._tell()


def put_sign(client: Any, tell: Callable[[], None]) -> ClosingSign | AsyncClosingSign:
    """`tell` is called in the thread that closes the client. Keep the sign: the client
    holds it weakly."""
    kind = AsyncClosingSign if is_asynchronous(client) else ClosingSign
    sign = kind(tell)
    clients.close_with(client, sign)
    return sign
