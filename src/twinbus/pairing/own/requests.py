"""Requests to `$management` of an entity, or of the namespace, and their answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.client.connection import ClientConnection
from twinbus.client.errors import ClientError
from twinbus.errors import (
    MessagingEntityNotFound,
    ServiceBusError,
    from_condition,
)
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.own.failures import kind_of
from twinbus.pairing.syphon.errors import SecondaryError

_SECONDS: Final = 30.0

_REFUSED: Final = frozenset((FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION))


async def ask(
    connection: ClientConnection, path: str, operation: str, body: dict[object, object]
) -> dict[object, object]:
    """The answer of an entity; empty if there is nothing to say. Raises
    ServiceBusError, ClientError, TimeoutError."""
    request = Message(
        application_properties={"operation": f"com.microsoft:{operation}"},
        body=AmqpValue(body),
    )
    return await _answer(connection, f"{path}/$management", request, path)


async def ask_namespace(
    connection: ClientConnection, operation: str, arguments: Mapping[str, str]
) -> Any:
    """The answer of a twinbus about its entities: JSON, read. Raises like `ask`."""
    request = Message(
        application_properties={"operation": f"twinbus:{operation}"},
        body=AmqpValue(dict(arguments)),
    )
    answer = await _answer(
        connection, "$management", request, arguments.get("path", "")
    )
    return json.loads(str(answer["result"]))


async def _answer(
    connection: ClientConnection, address: str, request: Message, path: str
) -> dict[object, object]:
    response = await connection.request(address, request, timeout_seconds=_SECONDS)
    status = response.application_properties or {}
    condition = status.get("errorCondition")
    if condition is not None:
        text = str(status.get("statusDescription"))
        raise from_condition(str(condition), text, entity_path=path)
    body = response.body
    value = body.value if isinstance(body, AmqpValue) else None
    return value if isinstance(value, dict) else {}


@asynccontextmanager
async def secondary_errors() -> AsyncIterator[None]:
    """What goes wrong with the secondary, as the syphon knows it."""
    try:
        yield
    except ServiceBusError as error:
        raise SecondaryError(
            error.text,
            is_refused=error.http_status == 401,
            is_gone=isinstance(error, MessagingEntityNotFound),
        ) from error
    except (ClientError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        kind = kind_of(error)
        raise SecondaryError(
            str(error) or "it does not answer",
            is_refused=kind in _REFUSED,
            is_gone=kind is FailureKind.NOT_FOUND,
        ) from error
