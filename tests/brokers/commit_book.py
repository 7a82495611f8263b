"""What the database server itself saw: who committed what, and who held which lease.

Triggers note it, inside the transactions of the brokers. So it is exact: whatever a
broker or a client believes, a note is there if and only if its transaction was
committed. In each store the order of the notes is that of the commits, because every
commit locks the row of the lease.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg.rows import class_row

from twinbus.amqp.messaging import Properties, decode_message
from twinbus.encoding.envelope import decode_envelope

_SQL = Path(__file__).with_name("commit_book.sql")

COMMIT = "commit"
LEASE = "lease"
# A message that came into a queue, or into an outbox, on its way to one.
MESSAGE = "message"
OUTBOX = "outbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One thing that a transaction did."""

    kind: str
    schema: str
    # In seconds since 1970: the database server and the test are on one machine.
    at: float
    # The address from which it was done, and the name of the connection.
    machine: str
    application: str
    # The lease as it was then; after a change of it: as it is from then on.
    epoch: int
    holder: str | None
    # Of a message.
    raw: bytes | None


class CommitBook:
    """Of all stores in one database."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo

    @classmethod
    def begin(cls, conninfo: str) -> Self:
        """Note everything from now on. There is no store yet."""
        with psycopg.connect(conninfo) as db:
            db.execute(_SQL.read_bytes())
        return cls(conninfo)

    def notes(self) -> list[Note]:
        columns = "kind, schema, at, machine, application, epoch, holder, raw"
        with psycopg.connect(self._conninfo, row_factory=class_row(Note)) as db:
            query: Any = f"SELECT {columns} FROM book.note ORDER BY number"
            return db.execute(query).fetchall()


def check_fences(notes: list[Note]) -> None:
    """Every commit was made by the broker that held the lease at that moment, and none
    by an earlier one after that."""
    epochs: dict[str, int] = {}
    for note in notes:
        assert note.epoch >= epochs.get(note.schema, 0), f"{note} is of an old epoch"
        epochs[note.schema] = note.epoch
        if note.kind == COMMIT:
            assert note.application == note.holder, f"{note} is not by the holder"


def replaced_at(notes: list[Note], schema: str) -> dict[int, float]:
    """When an owner was replaced that had not given the store back, by its epoch."""
    replaced: dict[int, float] = {}
    before: Note | None = None
    for note in notes:
        if note.kind != LEASE or note.schema != schema:
            continue
        if before is not None and before.holder and note.epoch > before.epoch:
            replaced[before.epoch] = note.at
        before = note
    return replaced


def first_kept(notes: list[Note]) -> dict[str, Note]:
    """Where each message was kept first, by its name."""
    kept: dict[str, Note] = {}
    for note in notes:
        if note.kind in (MESSAGE, OUTBOX):
            kept.setdefault(_message_id(note), note)
    return kept


def _message_id(note: Note) -> str:
    raw = note.raw
    assert raw is not None
    if note.kind == OUTBOX:
        raw = decode_envelope(raw).raw
    return str((decode_message(raw).properties or Properties()).message_id)
