"""Opening, asking and closing links of the asynchronous SDK."""

import asyncio
import contextlib
import logging
from typing import Any, Final

from azure.servicebus._common import mgmt_handlers
from azure.servicebus.aio import ServiceBusSender

_log = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 2.0
"""For a peer to answer the end of a link; then the socket is closed."""


async def open_link(link: Any, timeout_seconds: float) -> None:
    """Open a sender or receiver and no more: `async with` has no time-out."""
    await link._do_retryable_operation(
        link._open, timeout=timeout_seconds, operation_requires_timeout=True
    )


def batch_bytes_of(sender: ServiceBusSender) -> int | None:
    """How large a batch may be; known once the link is open."""
    return int(sender._max_batch_size_on_link) or None


async def request(
    sender: ServiceBusSender,
    operation: str,
    body: dict[str, Any],
    timeout_seconds: float,
) -> Any:
    """A management request that the SDK has no method for: the value of its answer."""
    return await sender._mgmt_request_response_with_retry(
        operation.encode(), body, mgmt_handlers.default, timeout=timeout_seconds
    )


def remember_connection(link: Any) -> None:
    """Let `close_link` find the connection of a sender or receiver in any case.

    A link that fails or is cancelled while it opens forgets its connection, and leaves
    the socket open.
    """
    create = link._create_handler

    def create_and_remember(auth: Any) -> None:
        create(auth)
        link._twinbus_client = link._handler

    link._create_handler = create_and_remember


async def close_link(link: Any, timeout_seconds: float = CLOSE_SECONDS) -> None:
    """Close a sender or receiver; after that time, its socket.

    Its own close waits for its peer, and up to a second for the task that keeps the
    connection alive. When it is cancelled, or has failed before, the socket stays open.
    """
    client = getattr(link, "_twinbus_client", None) or link._handler
    try:
        async with asyncio.timeout(timeout_seconds):
            await _end_keep_alive(client)
            await link.close()
    except Exception as error:
        _log.debug("a link was not closed in order: %s", error)
    finally:
        link._handler = None
        await _abort(client)


async def abort(link: Any) -> None:
    """Close the socket of a sender or receiver without telling its peer."""
    client = getattr(link, "_twinbus_client", None) or link._handler
    link._handler = None
    await _abort(client)


async def _abort(client: Any) -> None:
    await _end_keep_alive(client)
    connection = getattr(client, "_connection", None)
    if connection is not None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                await connection._transport.close()


async def _end_keep_alive(client: Any) -> None:
    keep_alive = getattr(client, "_keep_alive_thread", None)
    if keep_alive is not None:
        client._keep_alive_thread = None
        keep_alive.cancel()
        await asyncio.gather(keep_alive, return_exceptions=True)
