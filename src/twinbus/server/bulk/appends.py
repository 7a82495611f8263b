"""Sending many messages at a time, each to its entity.

An append is a send: the same checks, the same ledgers, one commit for what came
together. What an entity does not take is refused row by row, and the rest is sent.
"""

from collections.abc import Sequence

from twinbus.broker.message import Message
from twinbus.encoding.layout import PING
from twinbus.errors import ServiceBusError
from twinbus.gateway.bulk.ports import Appended, RefusedRow
from twinbus.links.arrivals import Arrivals
from twinbus.links.sending import Sending, check, check_status
from twinbus.server.awaited_commit import AwaitedCommit
from twinbus.server.entity import Entity
from twinbus.server.namespace import Namespace


class Append:
    """The rows of one request."""

    def __init__(self, namespace: Namespace, actor: int, may_restore: bool) -> None:
        self._namespace = namespace
        self._actor = actor
        self._may_restore = may_restore
        self._refused: list[RefusedRow] = []
        # What is being sent: rows, messages, and who is told.
        self._sendings: list[tuple[list[int], list[Message], AwaitedCommit]] = []

    async def apply(
        self, entities: Sequence[str], messages: Sequence[bytes]
    ) -> Appended:
        by_entity: dict[str, list[int]] = {}
        for row, path in enumerate(entities):
            by_entity.setdefault(path, []).append(row)
        for path, rows in by_entity.items():
            self._send(path, rows, messages)
        known: list[int] = []
        applied_count = 0
        for rows, sent, commit in self._sendings:
            try:
                await commit.done()
            except ServiceBusError as error:
                self._refuse(rows, error)
                continue
            # A duplicate was given no number.
            copies = [
                row
                for row, message in zip(rows, sent, strict=True)
                if _is_copy(message)
            ]
            known += copies
            applied_count += len(rows) - len(copies)
        self._refused.sort(key=lambda refused: refused.row)
        return Appended(
            applied_count=applied_count, known=sorted(known), refused=self._refused
        )

    def _send(self, path: str, rows: list[int], messages: Sequence[bytes]) -> None:
        """Read what goes to one entity, and have it sent."""
        try:
            entity = self._namespace.entity(path)
            entity.check_may_send()
            fragment = entity.fragment()
            check_status(fragment)
        except ServiceBusError as error:
            self._refuse(rows, error)
            return
        owner, arrivals = entity.owner, self._arrivals(entity)
        taken: list[int] = []
        read: list[Message] = []
        for row in rows:
            try:
                message = arrivals.read_one(messages[row], owner.clock.now())
                check(fragment, message)
            except ServiceBusError as error:
                self._refuse([row], error)
            else:
                taken.append(row)
                read.append(message)
        if read:
            commit = AwaitedCommit()
            owner.admit(Sending(owner, fragment, read, self._actor, 0, commit))
            self._sendings.append((taken, read, commit))

    def _arrivals(self, entity: Entity) -> Arrivals:
        return Arrivals(
            entity.path,
            entity.owner.extensions,
            self._namespace.max_message_bytes_of(entity),
            self._namespace.headroom_bytes_of(entity),
            lambda now: self._may_restore,
        )

    def _refuse(self, rows: list[int], error: ServiceBusError) -> None:
        self._refused += [
            RefusedRow(
                row=row,
                condition=error.condition,
                text=error.text,
                is_retryable=error.retryable,
            )
            for row in rows
        ]


def _is_copy(message: Message) -> bool:
    return message.row_id == 0 and message.layout & PING == 0
