"""What the bus and its client say of themselves when a connection is opened."""

from typing import Final

from twinbus.amqp.types import AmqpArray, Symbol
from twinbus.links.extensions import Extensions

_SYMBOL: Final = 0xA3
"""Constructor of an array of short symbols."""

_USER_AGENT: Final = "user-agent"
_SYPHON_AGENT: Final = "twinbus-syphon"
"""The first word of a user agent: the SDK puts its own words behind it."""

_SYPHON: Final = "syphon"


def purpose_of(properties: dict[object, object]) -> str:
    """What the client of an `open` is for, in the operation log: `syphon`, or empty."""
    agent = properties.get(_USER_AGENT)
    is_syphon = isinstance(agent, str) and agent.partition(" ")[0] == _SYPHON_AGENT
    return _SYPHON if is_syphon else ""


def open_properties(
    extensions: Extensions, broker_name: str
) -> dict[object, object] | None:
    """Properties of the bus's `open`. A strict bus sends none, like Service Bus."""
    if extensions.is_strict:
        return None
    names: list[object] = [Symbol(name) for name in extensions.names]
    properties: dict[object, object] = {
        Symbol("product"): "twinbus",
        Symbol("twinbus:extensions"): AmqpArray(_SYMBOL, names),
    }
    if broker_name:
        # Which of several brokers has the connection.
        properties[Symbol("twinbus:broker")] = broker_name
    return properties
