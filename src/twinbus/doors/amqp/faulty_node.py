"""A node whose requests faults can hit."""

from typing import Final, Protocol

from twinbus.amqp.messaging import AmqpMap
from twinbus.broker.entity_path import parse_entity_path
from twinbus.doors.amqp import namespace_management
from twinbus.doors.amqp.request_links import Node, Request, Response
from twinbus.errors import ServiceBusError
from twinbus.faults.fault import Operation
from twinbus.faults.faults import Faults

_SUFFIX: Final = "/$management"

_OPERATIONS: Final = {
    "schedule-message": Operation.SEND,
    "cancel-scheduled-message": Operation.SEND,
    "cancel-sent": Operation.SEND,
    "add-rule": Operation.MANAGE,
    "remove-rule": Operation.MANAGE,
    "enumerate-rules": Operation.MANAGE,
}
"""The other requests to an entity are parts of receiving."""

_OF_RECEIVED: Final = ("update-disposition", "renew-lock", "renew-session-lock")
"""Requests about messages that were received before; they are not refused."""


class Cuttable(Protocol):
    """The connection of the client that asks."""

    def cut_off(self) -> None: ...

    def mute(self) -> None: ...


class FaultyNode:
    """Stands between a client and the node."""

    def __init__(self, node: Node, faults: Faults, connection: Cuttable) -> None:
        self._node = node
        self._faults = faults
        self._connection = connection
        self.address = node.address
        self.max_request_bytes = node.max_request_bytes

    def allowed_request_bytes(self) -> int:
        return self._node.allowed_request_bytes()

    def status_properties(self, response: Response) -> AmqpMap:
        return self._node.status_properties(response)

    async def answer(self, request: Request) -> Response:
        operation, entity = self._occasion(request)
        if self._faults.drops(operation, entity):
            self._connection.cut_off()
        name = request.operation.rpartition(":")[2]
        error = self._faults.refusal(operation, entity)
        if error is not None and name not in _OF_RECEIVED:
            raise error
        if self._faults.leaves_unanswered(operation, entity):
            self._connection.mute()
        return await self._node.answer(request)

    def _occasion(self, request: Request) -> tuple[Operation, str]:
        if self.address == namespace_management.ADDRESS:
            path = request.optional("path")
            return Operation.MANAGE, path if isinstance(path, str) else ""
        name = request.operation.rpartition(":")[2]
        path = entity_of(self.address.removesuffix(_SUFFIX))
        return _OPERATIONS.get(name, Operation.RECEIVE), path


def entity_of(path: str) -> str:
    """The entity of a path that may name one of its sub-queues."""
    try:
        return parse_entity_path(path).entity
    except ServiceBusError:
        return path
