"""What the bus says of itself when a connection is opened."""

from typing import Final

from twinbus.amqp.types import AmqpArray, Symbol
from twinbus.links.extensions import Extensions

_SYMBOL: Final = 0xA3
"""Constructor of an array of short symbols."""


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
