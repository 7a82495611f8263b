"""Transactions of a client: declared on a control link, then named by each operation.

    controller = await connection.controller()
    transaction = await controller.declare()
    await sender.send(payload, state=transaction.state())
    await receiver.settle_confirmed(at, at, transaction.state(ACCEPTED_OUTCOME))
    await transaction.commit()

Messages that are sent or settled with the transaction's state are so once it commits.
"""

from twinbus.amqp.composite import encode_composite, to_described
from twinbus.amqp.messaging import AmqpValue, Message, encode_message
from twinbus.amqp.transactions import (
    Declare,
    Declared,
    Discharge,
    TransactionalState,
)
from twinbus.client.errors import ClientError
from twinbus.client.sender import ClientSender


class Controller:
    """A control link; its open transactions end with it."""

    def __init__(self, sender: ClientSender) -> None:
        self._sender = sender

    async def declare(self) -> "ClientTransaction":
        """Begin a transaction. Raises NotAccepted, LinkClosed or ConnectionLost."""
        state = await self._sender.send(_request(Declare()))
        if not isinstance(state, Declared):
            raise ClientError("a declare was not answered with a transaction")
        return ClientTransaction(self, state.txn_id)

    async def discharge(self, txn_id: bytes, *, fail: bool) -> None:
        """End a transaction. Raises NotAccepted, LinkClosed or ConnectionLost."""
        await self._sender.send(_request(Discharge(txn_id=txn_id, fail=fail)))

    async def close(self) -> None:
        await self._sender.close()


class ClientTransaction:
    """A declared transaction."""

    def __init__(self, controller: Controller, txn_id: bytes) -> None:
        self._controller = controller
        self.txn_id = txn_id

    def state(self, outcome: object | None = None) -> bytes:
        """The delivery state, encoded, for operations in this transaction."""
        state = TransactionalState(txn_id=self.txn_id, outcome=outcome)
        return encode_composite(state)

    async def commit(self) -> None:
        """Commit. Raises NotAccepted if the peer has rolled back instead."""
        await self._controller.discharge(self.txn_id, fail=False)

    async def roll_back(self) -> None:
        """Undo everything in it."""
        await self._controller.discharge(self.txn_id, fail=True)


def _request(body: Declare | Discharge) -> bytes:
    return encode_message(Message(body=AmqpValue(to_described(body))))
