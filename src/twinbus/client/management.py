"""Requests to `$management`, of an entity or of the namespace, and their answers.

A refusal comes back as the error that the server raised. The other side, for the
namespace of a twinbus, takes texts as arguments and answers with JSON in a text.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.client.connection import DEFAULT_TIMEOUT_SECONDS, ClientConnection
from twinbus.errors import from_condition

_NODE: Final = "$management"
_VENDOR: Final = "com.microsoft:"
_OWN: Final = "twinbus:"


async def ask(
    connection: ClientConnection, path: str, operation: str, body: dict[object, object]
) -> dict[object, object]:
    """The answer of an entity; empty if it has no content.

    Raises ServiceBusError, ClientError, TimeoutError.
    """
    address = f"{path}/{_NODE}"
    return await _answer(
        connection, address, _VENDOR + operation, body, path, DEFAULT_TIMEOUT_SECONDS
    )


async def ask_extension(
    connection: ClientConnection, path: str, operation: str, body: dict[object, object]
) -> dict[object, object]:
    """As `ask`, for an operation that only a twinbus has."""
    address = f"{path}/{_NODE}"
    return await _answer(
        connection, address, _OWN + operation, body, path, DEFAULT_TIMEOUT_SECONDS
    )


async def ask_namespace(
    connection: ClientConnection,
    operation: str,
    arguments: Mapping[str, str],
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Any:
    """The answer of a twinbus about its entities, read from JSON. Raises like `ask`.

    The key of the connection must have the Manage right.
    """
    path = arguments.get("path", "")
    answer = await _answer(
        connection, _NODE, _OWN + operation, dict(arguments), path, timeout_seconds
    )
    return json.loads(str(answer["result"]))


async def _answer(
    connection: ClientConnection,
    address: str,
    operation: str,
    body: object,
    path: str,
    timeout_seconds: float,
) -> dict[object, object]:
    request = Message(
        application_properties={"operation": operation}, body=AmqpValue(body)
    )
    response = await connection.request(
        address, request, timeout_seconds=timeout_seconds
    )
    status = response.application_properties or {}
    condition = status.get("errorCondition")
    if condition is not None:
        text = str(status.get("statusDescription"))
        raise from_condition(str(condition), text, entity_path=path)
    content = response.body
    value = content.value if isinstance(content, AmqpValue) else None
    return value if isinstance(value, dict) else {}
