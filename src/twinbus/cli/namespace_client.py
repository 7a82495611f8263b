"""Questions to a server about its entities, at `$management` of the namespace.

The other side is `doors/amqp/namespace_management.py`: arguments are texts, the answer
is JSON in a text. A refusal comes back as the error that the server raised.
"""

import json
import ssl as ssl_module
from collections.abc import Mapping
from typing import Any, Final

from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.amqp.sasl import plain
from twinbus.client.connection import connect
from twinbus.errors import from_condition

_ADDRESS: Final = "$management"
_PREFIX: Final = "twinbus:"


async def ask_namespace(
    host: str,
    port: int,
    operation: str,
    arguments: Mapping[str, str],
    *,
    key_name: str,
    key: str,
    timeout_seconds: float,
    ssl: ssl_module.SSLContext | None = None,
) -> Any:
    """The server's answer. Raises ServiceBusError, ClientError, OSError, TimeoutError.

    The server must know the key, and the key must have the Manage right.
    """
    request = Message(
        application_properties={"operation": _PREFIX + operation},
        body=AmqpValue(dict(arguments)),
    )
    connection = await connect(
        host,
        port,
        ssl=ssl,
        sasl=plain(key_name, key),
        timeout_seconds=timeout_seconds,
    )
    async with connection:
        response = await connection.request(
            _ADDRESS, request, timeout_seconds=timeout_seconds
        )
    return _result(response, arguments.get("path", ""))


def _result(response: Message, path: str) -> Any:
    status = response.application_properties or {}
    condition = status.get("errorCondition")
    if condition is not None:
        text = str(status.get("statusDescription"))
        raise from_condition(str(condition), text, entity_path=path)
    assert isinstance(response.body, AmqpValue)
    assert isinstance(response.body.value, dict)
    return json.loads(response.body.value["result"])
