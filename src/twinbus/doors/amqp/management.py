"""`$management` of an entity: requests that need no link to it.

The tables below have one function for each request, and the claim that it needs. The
function reads the request, calls an operation (`twinbus.operations`) and returns the
body of the answer. Errors become status codes. Some values are AMQP arrays and others
lists, as the SDKs expect them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from twinbus.amqp.messaging import AmqpMap
from twinbus.amqp.types import Symbol
from twinbus.auth.claims import Claim
from twinbus.broker.entity_path import EntityPath
from twinbus.clock import Clock
from twinbus.doors.amqp import management_locks as locks
from twinbus.doors.amqp import management_messages as messages
from twinbus.doors.amqp import management_rules as rules
from twinbus.doors.amqp import management_sessions as sessions
from twinbus.doors.amqp.connection_caller import ConnectionCaller
from twinbus.doors.amqp.remote_enlistment import RemoteEnlistment
from twinbus.doors.amqp.remote_requests import RemoteRequests
from twinbus.doors.amqp.request_links import Request, Response, status_code
from twinbus.doors.audit import audited
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.errors import (
    NotAllowed,
    NotSupported,
    ServiceBusError,
    UnauthorizedAccess,
)
from twinbus.limits import MANAGEMENT_REQUEST_BYTES, TOKEN_REQUEST_BYTES
from twinbus.operations.entity_arrivals import entity_arrivals
from twinbus.operations.entity_handle import EntityHandle, open_entity
from twinbus.peers.peer_properties import FRAGMENT, IS_CHECK
from twinbus.peers.peers import Peers

_PREFIX: Final = "com.microsoft:"

_Operation = Callable[[EntityHandle, Request], Awaitable[Response]]

_OPERATIONS: Final[dict[str, tuple[Claim, _Operation]]] = {
    "peek-message": (Claim.LISTEN, messages.peek),
    "receive-by-sequence-number": (Claim.LISTEN, messages.receive_deferred),
    "schedule-message": (Claim.SEND, messages.schedule_messages),
    "cancel-scheduled-message": (Claim.SEND, messages.cancel_scheduled),
    "batch-delete-messages": (Claim.LISTEN, messages.delete_messages),
    "renew-lock": (Claim.LISTEN, locks.renew_locks),
    "update-disposition": (Claim.LISTEN, locks.update_disposition),
    "renew-session-lock": (Claim.LISTEN, sessions.renew_session_lock),
    "get-session-state": (Claim.LISTEN, sessions.get_session_state),
    "set-session-state": (Claim.LISTEN, sessions.set_session_state),
    "get-message-sessions": (Claim.LISTEN, sessions.list_sessions),
    "add-rule": (Claim.LISTEN, rules.add_rule),
    "remove-rule": (Claim.LISTEN, rules.remove_rule),
    "enumerate-rules": (Claim.LISTEN, rules.enumerate_rules),
}

_EXTENSIONS: Final[dict[str, tuple[Claim, _Operation]]] = {
    "twinbus:cancel-sent": (Claim.SEND, messages.cancel_by_send_id),
    "twinbus:resubmit": (Claim.LISTEN, messages.resubmit),
}
"""Operations that Service Bus does not have; a strict bus does not offer them."""

_PARTS_OF_TRANSACTIONS: Final = {
    "update-disposition",
    "schedule-message",
    "cancel-scheduled-message",
    "set-session-state",
    "add-rule",
    "remove-rule",
}
"""Operations that are applied by the commit if they are part of a transaction."""

_BESIDE_TRANSACTIONS: Final = {
    "peek-message",
    "renew-lock",
    "renew-session-lock",
    "get-session-state",
    "get-message-sessions",
    "enumerate-rules",
}
"""Operations that change nothing durable. .NET marks all requests inside a transaction
scope; these are answered as if they were outside."""

_ADMINISTRATION: Final = ("add-rule", "remove-rule")
"""Operations that are noted in the audit log."""

_OF_RECEIVED: Final = ("update-disposition", "renew-lock", "renew-session-lock")
"""Requests about messages that were received before. A bus that is throttled answers
them, because they end work and do not begin it."""


class ManagementNode:
    """Answers the management requests of one connection to one entity.

    The entity is opened for each request: it may have been deleted and created again
    since the links to this node were attached. They may have been attached before a
    token was put. Until then each request is refused, a large one unread, and the
    client learns nothing about the entity.
    """

    def __init__(
        self,
        address: str,
        path: EntityPath,
        max_message_bytes: int,
        namespace: Namespace,
        caller: ConnectionCaller,
        peers: Peers | None,
    ) -> None:
        """`peers`: None if the client is another broker itself."""
        self.address = address
        # A schedule request must fit at least one message of the maximum size.
        self.max_request_bytes = max_message_bytes + MANAGEMENT_REQUEST_BYTES
        # The entity or sub-queue, without the name of this node.
        self._entity = replace(path, is_management=False)
        self._path = path.text
        self._namespace = namespace
        self._clock: Clock = namespace.clock
        self._caller = caller
        self._peers = peers

    def allowed_request_bytes(self) -> int:
        knows_client = self._caller.holds_some(self._path)
        return self.max_request_bytes if knows_client else TOKEN_REQUEST_BYTES

    async def answer(self, request: Request) -> Response:
        name = request.operation.removeprefix(_PREFIX)
        caller, is_of_peer = self._caller, self._peers is None
        # Who has shown no key is refused, has no name, and may ask without end.
        if name not in _ADMINISTRATION or is_of_peer or not caller.has_shown_key:
            return await self._answer(request)
        rule = str(request.optional("rule-name"))[:300]
        key_name = caller.key_name_for(Claim.LISTEN, self._path)
        call = f"{name} {self._path[:300]!r} {rule!r}"
        with audited(caller.peer_name, key_name, call, looks=False):
            return await self._answer(request)

    async def _answer(self, request: Request) -> Response:
        claim, _ = self._operation(request.operation)
        self._caller.require(claim, self._path)
        if request.operation.removeprefix(_PREFIX) not in _OF_RECEIVED:
            self._namespace.check_not_busy(self._path)
        self._check_transaction(request)
        if self._peers is not None:
            entity = self._namespace.find(self._entity.entity)
            if entity is not None and self._peers.has_remote(entity.homes()):
                return await self._elsewhere(self._peers, entity, request)
            return await self._serve(request, None)
        index = request.properties.get(FRAGMENT)
        return await self._serve(
            request,
            index if isinstance(index, int) else None,
            is_check=request.properties.get(IS_CHECK) is True,
        )

    async def _serve(
        self, request: Request, index: int | None, is_check: bool = False
    ) -> Response:
        """Answer it here; `index`: for this fragment only; `is_check`: do nothing, but
        refuse what would be refused."""
        claim, operation = self._operation(request.operation)
        handle = open_entity(self._namespace, self._entity, self._caller, claim)
        handle.only = None if index is None else (index,)
        handle.is_check = is_check
        try:
            return await operation(handle, request)
        except ServiceBusError as error:
            handle.log_refusal(error)
            raise

    async def _elsewhere(
        self, peers: Peers, entity: Entity, request: Request
    ) -> Response:
        """Answer a request about fragments of which others have some."""

        def may_restore(_: int) -> bool:
            return self._caller.holds(Claim.SEND, "")

        arrivals = entity_arrivals(self._namespace, entity, may_restore)

        def index_of(encoded: bytes) -> int | None:
            message = arrivals.read_one(encoded, self._clock.now())
            key = entity.routing().key_of([message])
            return None if key is None else entity.routing().index_of(key)

        transaction, name = request.transaction, request.operation
        if transaction is not None:
            if name.removeprefix(_PREFIX) in _PARTS_OF_TRANSACTIONS:
                enlistment = RemoteEnlistment(
                    *(entity, self.address, self._serve, index_of, self._clock.now)
                )
                return await enlistment.enlist(request, transaction)
            request = replace(request, transaction=None)
        remote = RemoteRequests(peers, entity, self.address, self._serve, index_of)
        return await remote.answer(request)

    def _operation(self, name: str) -> tuple[Claim, _Operation]:
        """Raises NotSupported, or UnauthorizedAccess if the client has no claim."""
        found = _OPERATIONS.get(name.removeprefix(_PREFIX))
        if found is None and not self._namespace.extensions.is_strict:
            found = _EXTENSIONS.get(name)
        if found is not None:
            return found
        if not self._caller.holds_some(self._path):
            raise UnauthorizedAccess.missing(Claim.LISTEN.title, entity_path=self._path)
        raise NotSupported(
            f"'{self._path}' has no operation '{name}'.", entity_path=self._path
        )

    def _check_transaction(self, request: Request) -> None:
        """Raises NotAllowed, TransactionNotFound, TransactionTimedOut."""
        if request.transaction is None:
            return
        request.transaction.check(self._clock.now())
        name = request.operation.removeprefix(_PREFIX)
        if name not in _PARTS_OF_TRANSACTIONS and name not in _BESIDE_TRANSACTIONS:
            raise NotAllowed(
                f"'{request.operation}' of '{self._path}' cannot be part of a "
                "transaction. Do it outside of one.",
                entity_path=self._path,
            )

    def status_properties(self, response: Response) -> AmqpMap:
        return management_status(response)


def management_status(response: Response) -> AmqpMap:
    """Status and error as the SDKs read them from a management node."""
    properties: AmqpMap = {
        "statusCode": status_code(response),
        "statusDescription": response.description,
    }
    if response.condition is not None:
        properties["errorCondition"] = Symbol(response.condition)
    return properties
