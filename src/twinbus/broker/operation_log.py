"""The operation log: who did what to which messages, as part of the commit.

Every commit writes one compact blob in its own transaction, so the log has no gaps.
Operations are run-length coded: one record says "this actor did this to N messages from
that row id on", all of the same size and age. If messages are handled in order, a
commit of a thousand sends has a few records.

Actors (links, or the bus itself) and fragments are numbers. `log_book.py` adds their
descriptions. The blob is read by `operation_record.py`, which describes its form.

What has no message (a refusal, a receive that came back empty) is an event: its row id
is that of sequence number zero, and equal ones are counted together.
"""

import struct
from array import array
from sys import byteorder
from typing import Final, final

from twinbus.broker.message import Message

# Operations. The numbers are part of the stored format: never change one.
SEND: Final = 1
SCHEDULE: Final = 2
ACTIVATE: Final = 3
LOCK: Final = 4
RECEIVE_AND_DELETE: Final = 5
COMPLETE: Final = 6
ABANDON: Final = 7
DEFER: Final = 8
DEAD_LETTER: Final = 9
RELEASE: Final = 10
LOCK_EXPIRED: Final = 11
EXPIRE: Final = 12
CANCEL: Final = 13
DELETE: Final = 14
RENEW: Final = 15
PEEK: Final = 16
REFUSE: Final = 17
DUPLICATE: Final = 18
FORWARD: Final = 19
# Of an entity, not of a message: the row id is that of sequence number zero.
PING: Final = 20
# Locks that a reader lease revoked.
REVOKE: Final = 21
# The bus put a message here: a dead letter, a forwarded or activated message, a copy in
# a subscription.
ARRIVE: Final = 22
RECEIVE_EMPTY: Final = 23
# An entity was created or deleted.
ADMINISTRATION: Final = 24

THE_BUS: Final = 0
"""The actor of operations without a client, such as expiry and activation."""

FORMAT: Final = 2

# Version, flags, opened at, sealed at, epoch, previous blob, what its commit took (ms),
# counts of actors, fragments, texts, uids and runs, bytes of message ids.
HEAD: Final = struct.Struct("<BBqqqqqIIIIII")
NAMED: Final = struct.Struct("<qH")
LENGTH: Final = struct.Struct("<H")

IS_LAST: Final = 1
"""Flag of the last blob before the owner stopped: nothing is missing after it."""

# The key of a run: the operation, these bits, and the delivery count.
HAS_UID: Final = 1 << 8
HAS_ID: Final = 1 << 9
IS_EVENT: Final = 1 << 10
OPERATION_MASK: Final = 0xFF
COUNT_SHIFT: Final = 16

# Of a run's detail: the text of the reason below, that of the destination above.
REASON_MASK: Final = (1 << 24) - 1
DESTINATION_SHIFT: Final = 24

RUN_FIELDS: Final = 10
"""Key, actor, first row, count, bytes of each, enqueued at, when, first origin, text of
the session, detail."""

_LONG: Final = 10_000
"""Limit of entries that wait: lock renewals, for example, need no commit."""

_TEXT_CHARACTERS: Final = 256
"""Longer reasons are cut."""


@final
class OperationLog:
    """Collects one commit's operations."""

    def __init__(self) -> None:
        # When the first of them happened.
        self.opened_at: int = 0
        # Number and description, written by the book.
        self.actors: list[tuple[int, bytes]] = []
        self.fragments: list[tuple[int, bytes]] = []
        # Set by the book.
        self.epoch: int = 0
        self.previous: int = 0
        self.previous_ms: int = 0
        self.is_last: bool = False
        # Closed runs, flat.
        self.runs: list[int] = []
        # Where each event is in `runs`.
        self._events: dict[tuple[int, int, int, int], int] = {}
        # Session ids, reasons and destinations; numbered from 1.
        self._texts: dict[str, int] = {}
        # Of the messages of runs that have them, in order.
        self._uids: list[bytes] = []
        # Messages whose ids are in the log. The ids are cut out when it is encoded.
        self._named: list[Message] = []
        self._ids: bytes = b""
        # The open run.
        self._key: int = 0
        self._actor: int = 0
        self._first: int = 0
        self._count: int = 0
        self._bytes: int = 0
        self._enqueued_at: int = 0
        self._at: int = 0
        self._first_origin: int = 0
        self._session: int = 0
        self._detail: int = 0

    def is_long(self) -> bool:
        """True if it should be committed even if nothing else has to be."""
        return len(self.runs) > _LONG

    def entry_count(self) -> int:
        """How long it is, in numbers and descriptions."""
        return len(self.runs) + len(self.actors) + len(self._uids)

    def is_empty(self) -> bool:
        return (
            self._count == 0
            and not self.runs
            and not self.fragments
            and not self.is_last
        )

    def text(self, text: str) -> int:
        """The number of a reason or destination, for a record's detail."""
        if len(text) > _TEXT_CHARACTERS:
            text = text[:_TEXT_CHARACTERS]
        number = self._texts.get(text)
        if number is None:
            number = self._texts[text] = len(self._texts) + 1
        return number

    def destination(self, path: str) -> int:
        """The detail of a record that says where the message goes."""
        return self.text(path) << DESTINATION_SHIFT

    def record(
        self, operation: int, actor: int, message: Message, now: int, detail: int = 0
    ) -> None:
        """Record an operation on one message."""
        key = operation | message.delivery_count << COUNT_SHIFT
        if message.uid:
            key |= HAS_UID
            self._uids.append(message.uid)
        if message.id_end != 0 and (
            operation == SEND or operation == SCHEDULE or operation == DUPLICATE
        ):
            key |= HAS_ID
            self._named.append(message)
        session = 0 if message.session_id is None else self.text(message.session_id)
        self._add(
            key,
            actor,
            message.row_id,
            len(message.raw) + message.absent_bytes,
            message.enqueued_at,
            now,
            message.body_id,
            session,
            detail,
        )

    def arrive(self, message: Message, now: int) -> None:
        """Record that the bus put the message where it is now."""
        annex, detail = message.annex, 0
        if annex is not None and annex.dead_letter_reason is not None:
            detail = self.text(annex.dead_letter_reason)
        self.record(ARRIVE, THE_BUS, message, now, detail)

    def duplicate(self, actor: int, message: Message, base: int, now: int) -> None:
        """Record a message that was accepted and dropped. It has no number: `base` is
        the row id of sequence zero."""
        message.row_id = base
        message.enqueued_at = now
        self.record(DUPLICATE, actor, message, now)
        message.row_id = 0

    def add(
        self,
        operation: int,
        actor: int,
        row_id: int,
        size_bytes: int,
        enqueued_at: int,
        now: int,
        uid: bytes = b"",
        origin: int = 0,
    ) -> None:
        """Record an operation on one message of which only this is known."""
        key = operation
        if uid:
            key |= HAS_UID
            self._uids.append(uid)
        self._add(key, actor, row_id, size_bytes, enqueued_at, now, origin, 0, 0)

    def _add(
        self,
        key: int,
        actor: int,
        row_id: int,
        size_bytes: int,
        enqueued_at: int,
        now: int,
        origin: int,
        session: int,
        detail: int,
    ) -> None:
        """It extends the open run if it can."""
        count = self._count
        if (
            count != 0
            and row_id == self._first + count
            and key == self._key
            and actor == self._actor
            and size_bytes == self._bytes
            and enqueued_at == self._enqueued_at
            and now == self._at
            and session == self._session
            and detail == self._detail
            and (
                origin == self._first_origin + count
                if origin != 0
                else self._first_origin == 0
            )
        ):
            self._count = count + 1
            return
        if count != 0:
            self.close_run()
        elif not self.runs:
            self.opened_at = now
        self._key = key
        self._actor = actor
        self._first = row_id
        self._count = 1
        self._bytes = size_bytes
        self._enqueued_at = enqueued_at
        self._at = now
        self._first_origin = origin
        self._session = session
        self._detail = detail

    def close_run(self) -> None:
        """Close the open run, if there is one."""
        if self._count == 0:
            return
        runs = self.runs
        runs.append(self._key)
        runs.append(self._actor)
        runs.append(self._first)
        runs.append(self._count)
        runs.append(self._bytes)
        runs.append(self._enqueued_at)
        runs.append(self._at)
        runs.append(self._first_origin)
        runs.append(self._session)
        runs.append(self._detail)
        self._count = 0

    def event(
        self, operation: int, actor: int, row_id: int, now: int, reason: str = ""
    ) -> None:
        """Record what happened to no message; `row_id` is that of sequence zero."""
        self.close_run()
        detail = self.text(reason) if reason else 0
        same = (operation, actor, row_id, detail)
        at = self._events.get(same)
        if at is not None:
            self.runs[at + 3] += 1
            return
        if not self.runs:
            self.opened_at = now
        self._events[same] = len(self.runs)
        key = operation | IS_EVENT
        self.runs += [key, actor, row_id, 1, 0, now, now, 0, 0, detail]

    def deleted(self, base: int, number: int, description: str) -> None:
        """A fragment is deleted. It is described now, because later nobody can."""
        self.fragments.append((number, description.encode()))
        self.event(ADMINISTRATION, THE_BUS, base, 0, "deleted")

    def encode(self, now: int) -> bytes:
        """Encode the blob; nothing may be added afterwards."""
        self.close_run()
        if self._named:
            # A log may outlive its commit, and must not keep the messages.
            self._ids += b"".join(
                [named.raw[named.id_at : named.id_end] for named in self._named]
            )
            self._named = []
        head = HEAD.pack(
            FORMAT,
            IS_LAST if self.is_last else 0,
            self.opened_at or now,
            now,
            self.epoch,
            self.previous,
            self.previous_ms,
            len(self.actors),
            len(self.fragments),
            len(self._texts),
            len(self._uids),
            len(self.runs) // RUN_FIELDS,
            len(self._ids),
        )
        parts = [head]
        for number, description in self.actors:
            parts.append(NAMED.pack(number, len(description)))
            parts.append(description)
        for number, description in self.fragments:
            parts.append(NAMED.pack(number, len(description)))
            parts.append(description)
        for text in self._texts:
            encoded = text.encode()
            parts.append(LENGTH.pack(len(encoded)))
            parts.append(encoded)
        for uid in self._uids:
            parts.append(LENGTH.pack(len(uid)))
            parts.append(uid)
        runs = array("q", self.runs)
        if byteorder == "big":
            runs.byteswap()
        parts.append(runs.tobytes())
        parts.append(self._ids)
        return b"".join(parts)
