"""Requests over links of the blocking SDK, as Spark needs them.

The public interface settles messages one by one, decodes every message that it peeks
at, and opens a link, with credit for a message, even to peek. The requests that it
makes for that are documented (AMQP request-response operations of Service Bus) and can
do more: many locks in one request, properties to set with them, and no link at all.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from azure.servicebus import ServiceBusClient
from azure.servicebus._common import mgmt_handlers
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

_OPERATIONS: Final = "com.microsoft:"
_OK: Final = 200
_NOTHING: Final = (202, 204)

Link = Any
"""A receiver, or a management link: whatever can make requests."""


def management_link(
    client: ServiceBusClient, entity: str, subscription: str | None
) -> Link:
    """A link for requests alone: the one that the SDK lists sessions with."""
    make: Callable[..., Link] = client._create_session_browser
    return make(entity, subscription)


def close_link(link: Link) -> None:
    """Close a link at once.

    Its own close waits up to a second for the thread that keeps the connection alive.
    That thread ends by itself as soon as the connection is gone.
    """
    client = getattr(link, "_handler", None)
    if client is not None:
        client._keep_alive_thread = None
    link.close()


def ask(
    link: Link, operation: str, body: Mapping[str, Any], timeout_seconds: float
) -> Mapping[bytes, Any]:
    """The value of the answer; empty if it has none."""
    answer = link._mgmt_request_response_with_retry(
        f"{_OPERATIONS}{operation}".encode(), body, _value, timeout=timeout_seconds
    )
    return answer or {}


def _value(status: int, message: Any, description: Any, amqp_transport: Any) -> Any:
    if status == _OK:
        return message.value
    if status in _NOTHING:
        return None
    refuse: Callable[..., Any] = mgmt_handlers.default
    return refuse(status, message, description, amqp_transport)


def longs(numbers: Iterable[int]) -> Any:
    return PyamqpTransport.AMQP_ARRAY_VALUE([long(number) for number in numbers])


def long(number: int) -> Any:
    return PyamqpTransport.AMQP_LONG_VALUE(number)


def unsigned(number: int) -> Any:
    return PyamqpTransport.AMQP_UINT_VALUE(number)


def uuids(tokens: Iterable[UUID]) -> Any:
    return PyamqpTransport.AMQP_ARRAY_VALUE(list(tokens))
