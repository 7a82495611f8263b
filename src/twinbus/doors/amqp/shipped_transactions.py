"""Transactions of clients of other brokers, in a store of this one.

The client's broker tells all work when the client discharges the transaction: what it
settles, asks for and sends. It is enlisted and committed here as that of our own
clients. The rights of the client were checked by its broker.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from twinbus.amqp.codec import decode
from twinbus.amqp.composite import from_described
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.types import Described
from twinbus.auth.claims import Claim
from twinbus.auth.resource import address_path
from twinbus.broker.entity_path import parse_entity_path
from twinbus.broker.fragment_address import address_from
from twinbus.broker.transaction import Transaction, Work
from twinbus.clock import Clock
from twinbus.doors.amqp.connection_caller import ConnectionCaller
from twinbus.doors.amqp.remote_enlistment import REQUEST_STEP
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.encoding.envelope import decode_envelope
from twinbus.entities.namespace import Namespace
from twinbus.errors import (
    ArgumentError,
    MessagingEntityNotFound,
    ServiceBusError,
    TransactionNotFound,
    TransactionTimedOut,
)
from twinbus.fragments.routing import Routing
from twinbus.links.coordinator import Coordinator
from twinbus.links.enlistment import Enlistment
from twinbus.links.outcomes import settlement_of
from twinbus.links.relayed_enlistment import VIA_STEP
from twinbus.links.remote_work import TransactionalRemoteSend
from twinbus.links.transaction_commit import Commit, TransactionListener
from twinbus.links.transactional_work import SEND_STEP, TransactionalSend
from twinbus.links.via import Via
from twinbus.operations import locks
from twinbus.operations.entity_handle import open_entity
from twinbus.peers.receive_relay import SETTLE_STEP

AskNode = Callable[[str, Request], Awaitable[Response]]
"""Has a request answered by the management node of that address."""


class ShippedTransactions:
    """Those of one other broker."""

    def __init__(
        self,
        namespace: Namespace,
        clock: Clock,
        coordinator: Coordinator,
        caller: ConnectionCaller,
        ask_node: AskNode,
    ) -> None:
        self._namespace = namespace
        self._clock = clock
        self._coordinator = coordinator
        self._caller = caller
        self._ask_node = ask_node

    async def transact(self, request: Request) -> Response:
        """A portion of a transaction's work. Raises ServiceBusError, and then the
        transaction is rolled back."""
        txn_id, now = request.optional("transaction"), self._clock.now()
        if not txn_id:
            txn_id = self._coordinator.declare(self, now).txn_id
        enlistment = Enlistment(self._coordinator, txn_id)
        try:
            for step in request.argument("steps"):
                await self._enlist(step, enlistment)
        except BaseException:
            with contextlib.suppress(TransactionNotFound, TransactionTimedOut):
                self._coordinator.take(txn_id, now).roll_back()
            raise
        if request.optional("commit"):
            transaction = self._coordinator.take(txn_id, self._clock.now())
            await _committed(transaction)
        return Response(value={"transaction": txn_id})

    async def _enlist(self, step: list[Any], enlistment: Enlistment) -> None:
        """Raises ServiceBusError."""
        kind, *rest = step
        if kind == SETTLE_STEP:
            await self._settle(enlistment, *rest)
        elif kind == REQUEST_STEP:
            address, operation, value = rest
            request = Request(
                operation=operation,
                properties={},
                value=value,
                transaction=enlistment,
            )
            await self._ask_node(address, request)
        elif kind == SEND_STEP:
            self._send(enlistment, *rest)
        elif kind == VIA_STEP:
            self._send_via(enlistment, *rest)
        else:
            raise ArgumentError(f"A transaction between brokers has no step '{kind}'.")

    async def _settle(
        self, enlistment: Enlistment, path: str, token: bytes, state: bytes
    ) -> None:
        entity = parse_entity_path(path)
        handle = open_entity(self._namespace, entity, self._caller, Claim.LISTEN)
        settlement = settlement_of(_decoded(state), path)
        await locks.settle(handle, [token], settlement, None, enlistment)

    def _send(
        self, enlistment: Enlistment, path: str, address: str, envelopes: list[bytes]
    ) -> None:
        entity, target = self._namespace.entity(path), address_from(address)
        if entity.record.generation != target.generation:
            raise MessagingEntityNotFound(entity_path=path)
        messages = [decode_envelope(envelope) for envelope in envelopes]
        destination = entity.routing().destination_at(target.index)
        fragment, home = destination.fragment, destination.home
        work: Work = TransactionalRemoteSend(destination, messages)
        if fragment is not None and home.is_serving:
            actor = self._caller.actor_in(home)
            work = TransactionalSend(fragment, messages, actor)
        enlistment.enlist(work, self._clock.now())

    def _send_via(
        self, enlistment: Enlistment, path: str, address: str, envelopes: list[bytes]
    ) -> None:
        way = self._namespace.entity(path).fragment()
        messages = [decode_envelope(envelope) for envelope in envelopes]
        find = destination_finder(self._namespace, address_path(address))
        via = Via(way, find, self._caller.actor_in(way.home))
        enlistment.enlist(via.work(messages), self._clock.now())


def destination_finder(namespace: Namespace, path: str) -> Callable[[], Routing]:
    """Finds the entity to which messages are sent on, each time anew. It raises
    ServiceBusError if that takes none."""

    def find_destination() -> Routing:
        destination = namespace.entity(path)
        destination.check_may_send()
        return destination.routing()

    return find_destination


async def _committed(transaction: Transaction) -> None:
    """Raises ServiceBusError if it is rolled back; InternalError: that is unknown."""
    discharge = _Discharge()
    transaction.home.admit(Commit(transaction, 0, discharge))
    try:
        await discharge.outcome
    except ServiceBusError:
        transaction.roll_back()
        raise
    transaction.committed()


class _Discharge(TransactionListener):
    """Waits for the end of one transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def applied(self, transaction: Transaction, answer_to: int) -> None:
        self.note(transaction.home, answer_to)

    def refused(self, answer_to: int, error: ServiceBusError) -> None:
        self.failed([answer_to], error)

    def committed(self, items: list[int]) -> None:
        if not self.outcome.done():
            self.outcome.set_result(None)

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)


def _decoded(state: bytes) -> object:
    """An outcome. Raises ArgumentError."""
    try:
        found, _ = decode(state, 0)
        return from_described(found) if isinstance(found, Described) else found
    except DecodeError as error:
        raise ArgumentError(f"The outcome is malformed: {error}.") from None
