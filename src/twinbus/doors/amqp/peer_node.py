"""`$cluster`: answers what other brokers ask, on the listener for brokers only."""

from typing import Any

from twinbus.amqp.messaging import AmqpMap
from twinbus.broker.changes import OutboxEntry
from twinbus.doors.amqp.management import management_status
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.shipped_transactions import ShippedTransactions
from twinbus.entities.namespace import Namespace
from twinbus.errors import NotSupported
from twinbus.limits import MANAGEMENT_REQUEST_BYTES
from twinbus.peers.peer_requests import ADDRESS, APPEND, DIVERTED, TRANSACT


class PeerNode:
    """Answers the requests of one other broker."""

    address = ADDRESS

    def __init__(
        self,
        namespace: Namespace,
        transactions: ShippedTransactions,
        largest: int,
    ) -> None:
        """`largest`: message of any namespace; what is for another store is brought
        without regard to namespaces."""
        self._namespace = namespace
        self._transactions = transactions
        # A portion has at least one message.
        self.max_request_bytes = largest + 2 * MANAGEMENT_REQUEST_BYTES

    def allowed_request_bytes(self) -> int:
        return self.max_request_bytes

    async def answer(self, request: Request) -> Response:
        if request.operation == APPEND:
            return await self._append(request)
        if request.operation == TRANSACT:
            return await self._transactions.transact(request)
        if request.operation == DIVERTED:
            log, store = request.argument("log"), request.argument("store")
            targets = self._namespace.transfer_log.kept_for(log, store)
            return Response(value={"targets": targets})
        raise NotSupported(f"A broker has no operation '{request.operation}'.")

    async def _append(self, request: Request) -> Response:
        entries: list[Any] = request.argument("entries")
        receipt = await self._namespace.transfer_log.foreign.append(
            request.argument("store"),
            request.argument("source"),
            request.argument("epoch"),
            [
                OutboxEntry(entry_id=entry_id, target=target, raw=raw, origin=origin)
                for entry_id, target, raw, origin in entries
            ],
        )
        refused = [[refused.reason, refused.text] for refused in receipt.refused]
        return Response(
            value={
                "taken": len(receipt.taken),
                "refused": refused,
                "full": receipt.full,
            }
        )

    def status_properties(self, response: Response) -> AmqpMap:
        return management_status(response)
