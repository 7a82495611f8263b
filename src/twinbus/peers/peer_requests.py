"""Requests that only brokers send to each other, at a node that clients cannot reach.

| operation                    | asks the other broker to                            |
|------------------------------|-----------------------------------------------------|
| `twinbus:append-entries`     | append entries of an outbox to a store that it has  |
| `twinbus:diverted-messages`  | say which diverted messages it keeps for a store    |
| `twinbus:transact`           | do, and commit, the work of a transaction           |
"""

from typing import Any, Final

from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.errors import from_condition

ADDRESS: Final = "$cluster"
APPEND: Final = "twinbus:append-entries"
DIVERTED: Final = "twinbus:diverted-messages"
TRANSACT: Final = "twinbus:transact"

Values = dict[str, Any]


def peer_request(operation: str, value: Values) -> Message:
    return Message(
        application_properties={"operation": operation}, body=AmqpValue(value)
    )


def answered(answer: Message) -> Values:
    """What the other broker says. Raises its error."""
    properties: dict[Any, Any] = answer.application_properties or {}
    if properties.get("statusCode") != 200:
        condition = str(properties.get("errorCondition", "amqp:internal-error"))
        raise from_condition(condition, str(properties.get("statusDescription", "")))
    body = answer.body
    value = body.value if isinstance(body, AmqpValue) else None
    return value if isinstance(value, dict) else {}
