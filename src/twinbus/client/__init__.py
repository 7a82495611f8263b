"""A small asyncio AMQP 1.0 client on the engine of twinbus.amqp.

For our own use: benches, links between brokers, the syphon, and Spark. Messages are
payload bytes both ways (encode_message and decode_message of twinbus.amqp.messaging
translate), sends are pipelined, and settlement goes by ranges.

    async with await connect("localhost", 5672, sasl=plain(name, key)) as connection:
        sender = await connection.sender("orders")
        await sender.send_many(payloads)
        receiver = await connection.receiver("orders")
        batch = await receiver.receive_batch(100, timeout_seconds=5)
        await receiver.settle_confirmed(batch[0].delivery_id, batch[-1].delivery_id)
"""

from twinbus.client.connection import ClientConnection, connect
from twinbus.client.errors import (
    ClientError,
    ConnectionLost,
    LinkClosed,
    NotAccepted,
    RequestFailed,
)
from twinbus.client.receiver import Receiver
from twinbus.client.sender import Sender
from twinbus.client.transactions import ClientTransaction, Controller

__all__ = [
    "ClientConnection",
    "ClientError",
    "ClientTransaction",
    "ConnectionLost",
    "Controller",
    "LinkClosed",
    "NotAccepted",
    "Receiver",
    "RequestFailed",
    "Sender",
    "connect",
]
