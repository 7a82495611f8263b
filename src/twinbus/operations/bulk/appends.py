"""Append: sends many messages to several entities.

An append has the same checks and ledgers as a send, and is durable before the answer.
It is done in portions, so that other tasks can run between them. Rows are refused one
by one, and the rest is sent. But if an entity is closed, or has no room for a portion,
all later rows for it are refused, too: a client that sends the refused rows again keeps
their order. On a partitioned entity that is a matter of each fragment: others have no
order to keep.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from twinbus.auth.claims import Claim
from twinbus.broker.message import Message
from twinbus.encoding.layout import PING
from twinbus.entities.namespace import Namespace
from twinbus.errors import FragmentUnavailable, ServiceBusError
from twinbus.operations import sending
from twinbus.operations.bulk.requests import Appended, RefusedRow
from twinbus.operations.caller import Caller
from twinbus.operations.entity_handle import EntityHandle, open_entity
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.owner.awaited_commit import AwaitedCommit

_PORTION: Final = 250
"""Rows in a portion: takes a few milliseconds."""

_TEXT_CHARACTERS: Final = 500
"""Length of an error text: the entity name in it may have a megabyte."""

_FragmentKey = tuple[str, int]
"""A fragment: the lower-case path of its entity, and its index."""


class _Portion:
    """Rows of one fragment on their way to the store."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.messages: list[Message] = []


_Sent = tuple[_FragmentKey, _Portion, AwaitedCommit]


class Append:
    """The rows of one request."""

    def __init__(
        self,
        namespace: Namespace,
        caller: Caller,
    ) -> None:
        self._namespace = namespace
        self._caller = caller
        self._applied_count = 0
        self._known: list[int] = []
        self._refused: list[RefusedRow] = []
        # Why later rows of an entity are refused, by its lower-case path.
        self._closed: dict[str, ServiceBusError] = {}
        # The same for one fragment of an entity, by its index.
        self._closed_fragments: dict[_FragmentKey, ServiceBusError] = {}

    async def apply(
        self, entities: Sequence[str], messages: Sequence[bytes]
    ) -> Appended:
        """Raises UnauthorizedAccess if the caller may not send to all of them."""
        for path in set(entities):
            self._caller.require(Claim.SEND, path)
        for first in range(0, len(messages), _PORTION):
            by_entity: dict[str, list[int]] = {}
            for row in range(first, min(first + _PORTION, len(messages))):
                by_entity.setdefault(entities[row].lower(), []).append(row)
            sent = [
                sent
                for rows in by_entity.values()
                for sent in self._send(entities[rows[0]], rows, messages)
            ]
            for key, portion, commit in sent:
                await self._note_outcome(key, portion, commit)
            # Let other tasks run, also if nothing was sent.
            await asyncio.sleep(0)
        self._refused.sort(key=lambda refused: refused.row)
        return Appended(
            applied_count=self._applied_count,
            known=sorted(self._known),
            refused=self._refused,
        )

    def _send(
        self, path: str, rows: list[int], messages: Sequence[bytes]
    ) -> list[_Sent]:
        """Read the rows of one entity, and start sending them."""
        lower = path.lower()
        try:
            if lower in self._closed:
                raise self._closed[lower]
            handle = open_entity(self._namespace, path, self._caller, Claim.SEND)
            sending.check_may_send(handle)
        except ServiceBusError as error:
            self._closed[lower] = error
            self._refuse(rows, error)
            return []
        portions: dict[FragmentHandle, _Portion] = {}
        for row in rows:
            try:
                message = sending.read(handle, messages[row])
                part = self._part(handle, lower, message)
            except ServiceBusError as error:
                self._refuse([row], error)
            else:
                portion = portions.setdefault(part, _Portion())
                portion.rows.append(row)
                portion.messages.append(message)
        return [
            (
                (lower, part.index),
                portion,
                sending.begin_sending(part, portion.messages),
            )
            for part, portion in portions.items()
        ]

    def _part(
        self, handle: EntityHandle, path: str, message: Message
    ) -> FragmentHandle:
        """The fragment of one row. Raises why it is refused."""
        index = sending.fixed_index(handle, [message])
        if index is None:
            return sending.route(handle, [message])
        if (path, index) in self._closed_fragments:
            raise self._closed_fragments[path, index]
        try:
            return sending.route(handle, [message])
        except FragmentUnavailable as error:
            self._closed_fragments[path, index] = error
            raise

    async def _note_outcome(
        self, key: _FragmentKey, portion: _Portion, commit: AwaitedCommit
    ) -> None:
        try:
            await commit.done()
        except ServiceBusError as error:
            self._closed_fragments[key] = error
            self._refuse(portion.rows, error)
            return
        for row, message in zip(portion.rows, portion.messages, strict=True):
            if _is_copy(message):
                self._known.append(row)
            else:
                self._applied_count += 1

    def _refuse(self, rows: list[int], error: ServiceBusError) -> None:
        self._refused += [
            RefusedRow(
                row=row,
                condition=error.condition,
                text=error.text[:_TEXT_CHARACTERS],
                is_retryable=error.retryable,
            )
            for row in rows
        ]


def _is_copy(message: Message) -> bool:
    """True for a duplicate: it has no sequence number."""
    return message.row_id == 0 and message.layout & PING == 0
