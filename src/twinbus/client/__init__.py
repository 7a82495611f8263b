"""The client side: connection strings, credentials, and an asyncio AMQP 1.0 client.

For our own use: the command line, pairs, Spark, benches. Messages are payload bytes
both ways (encode_message and decode_message of twinbus.amqp.messaging translate), sends
are pipelined, and a range of messages is settled at once.

- `connection_string` reads and writes connection strings; nothing else does.
- `secret_reference` reads `env:NAME` and `file:PATH`.
- `address` and `credentials`: where a namespace is, and the tokens for it.
- `connection`: one AMQP connection, with its senders and receivers.
- `namespace_connection`: one that is opened when needed and keeps its tokens valid.
- `management`: requests to `$management` over a connection.

    async with await connect("localhost", 5672, sasl=plain(name, key)) as connection:
        sender = await connection.sender("orders")
        await sender.send_many(payloads)
        receiver = await connection.receiver("orders")
        batch = await receiver.receive_batch(100, timeout_seconds=5)
        await receiver.settle_confirmed(batch[0].delivery_id, batch[-1].delivery_id)

The names of the AMQP client are imported when they are used: each worker of Spark reads
connection strings, and few processes of it speak AMQP.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from twinbus.client.connection import ClientConnection, connect
    from twinbus.client.errors import (
        ClientError,
        ConnectionLost,
        LinkClosed,
        NotAccepted,
        RequestFailed,
    )
    from twinbus.client.receiver import ClientReceiver
    from twinbus.client.sender import ClientSender
    from twinbus.client.transactions import ClientTransaction, Controller

__all__ = [
    "ClientConnection",
    "ClientError",
    "ClientTransaction",
    "ConnectionLost",
    "Controller",
    "LinkClosed",
    "NotAccepted",
    "ClientReceiver",
    "RequestFailed",
    "ClientSender",
    "connect",
]

_MODULES: Final = {
    "ClientConnection": "connection",
    "ClientError": "errors",
    "ClientTransaction": "transactions",
    "ConnectionLost": "errors",
    "Controller": "transactions",
    "LinkClosed": "errors",
    "NotAccepted": "errors",
    "ClientReceiver": "receiver",
    "RequestFailed": "errors",
    "ClientSender": "sender",
    "connect": "connection",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'twinbus.client' has no attribute '{name}'")
    return getattr(import_module(f"twinbus.client.{_MODULES[name]}"), name)
