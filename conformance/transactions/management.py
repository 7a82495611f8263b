"""Requests to an entity's `$management` node, in a transaction or outside of one.

In a transaction the request's transfer carries it; the response does not, and comes at
once. Numbers and tokens go as AMQP arrays, as the SDKs send them.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import proton
from proton.reactor import LinkOption

from .client import WAIT_SECONDS, OpenTransaction, TransactionClient

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Response:
    """What the node answered."""

    status: int
    condition: str
    body: Any


class _ReplyTo(LinkOption):
    """Names the address under which a receiver wants its responses."""

    def __init__(self, address: str) -> None:
        self._address = address

    def apply(self, link: Any) -> None:
        link.target.address = self._address


class Management:
    """The pair of links to one entity's node."""

    def __init__(self, client: TransactionClient, entity: str) -> None:
        node = f"{entity}/$management"
        self._reply_to = f"reply-{next(_numbers)}"
        self._sender = client.sender(node)
        self._receiver = client.receiver(node, options=_ReplyTo(self._reply_to))

    def request(
        self,
        operation: str,
        body: dict[str, Any],
        transaction: OpenTransaction | None = None,
    ) -> Response:
        """Ask, and wait for the response."""
        message = proton.Message(
            id=f"request-{next(_numbers)}",
            reply_to=self._reply_to,
            properties={"operation": f"com.microsoft:{operation}"},
            body=body,
        )
        if transaction is None:
            self._sender.send(message)
        else:
            transaction.send(self._sender, message)
        return self._response_to(message.id)

    def _response_to(self, message_id: str) -> Response:
        answer = self._receiver.receive(timeout=WAIT_SECONDS)
        if self._receiver.fetcher.unsettled:
            self._receiver.accept()
        assert answer.correlation_id == message_id
        properties = answer.properties
        condition = str(properties.get("errorCondition", ""))
        return Response(properties["statusCode"], condition, answer.body)


def tokens(*values: Any) -> Any:
    return proton.Array(proton.UNDESCRIBED, proton.Data.UUID, *values)


def sequence_numbers(*values: int) -> Any:
    return proton.Array(proton.UNDESCRIBED, proton.Data.LONG, *values)
