"""A change set as SQL statements, inside the transaction of its commit.

Most of a commit is messages added and messages removed: the first go many rows to
a statement, the second as ranges of row ids. The rest is small.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from twinbus.broker.changes import ChangeSet, LedgerRange, SessionState
from twinbus.store.base import CommitFailed
from twinbus.store.rows.sqlite_rows import (
    ANY,
    EXPIRING,
    OF_SESSION,
    PLAIN,
    ROWS_PER_INSERT,
    SHARED,
    active_inserts,
    changed_rows,
    deferred_rows,
    moved_active_rows,
    moved_deferred_rows,
    row_ranges,
    scheduled_rows,
)
from twinbus.store.sqlite_bodies import write_bodies
from twinbus.store.sqlite_fragments import fragment_row
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("sqlite_store.sql")


def _for_each_count(statement: str) -> list[str]:
    """An INSERT of one row, for each number of rows."""
    head, values, row = statement.rstrip(";").rpartition("VALUES ")
    return [
        head + values + ", ".join([row] * count) for count in range(ROWS_PER_INSERT + 1)
    ]


# By shape and number of rows.
_INSERTS: Final = {
    PLAIN: _for_each_count(_SQL["insert_plain"]),
    EXPIRING: _for_each_count(_SQL["insert_expiring"]),
    OF_SESSION: _for_each_count(_SQL["insert_of_session"]),
    SHARED: _for_each_count(_SQL["insert_shared"]),
    ANY: _for_each_count(_SQL["insert_any"]),
}


def write_changes(db: sqlite3.Connection, changes: ChangeSet) -> None:
    """Everything but the fence."""
    _write_messages(db, changes)
    write_bodies(
        db, changes.bodies_added, changes.bodies_taken, changes.bodies_released
    )
    _write_fragments(db, changes)
    _write_sessions(db, changes)
    _write_rules(db, changes)
    _write_reader_leases(db, changes)
    _write_ledgers(db, changes)
    if not changes.log.is_empty():
        blob = changes.log.encode(changes.sealed_at)
        db.execute(_SQL["insert_operations"], (changes.batch, blob))


def _many(db: sqlite3.Connection, name: str, rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        db.executemany(_SQL[name], rows)


def _move(db: sqlite3.Connection, name: str, rows: Sequence[Sequence[Any]]) -> None:
    """Raises CommitFailed if the bytes of a message are not where they were left."""
    if rows and db.executemany(_SQL[name], rows).rowcount != len(rows):
        raise CommitFailed("A message that moves has no bytes in the store.")


def _write_messages(db: sqlite3.Connection, changes: ChangeSet) -> None:
    # First: the rows that these are copied from are removed by the same commit.
    _move(db, "move_to_active", moved_active_rows(changes.active_moved))
    _move(db, "move_to_deferred", moved_deferred_rows(changes.deferred_moved))
    _many(db, "delete_active", row_ranges(changes.active_removed))
    for shape, count, values in active_inserts(changes.active_added):
        db.execute(_INSERTS[shape][count], values)
    _many(db, "change_active", changed_rows(changes.active_changed))
    _many(db, "delete_deferred", row_ranges(changes.deferred_removed))
    _many(db, "insert_deferred", deferred_rows(changes.deferred_added))
    _many(db, "change_deferred", changed_rows(changes.deferred_changed))
    _many(db, "delete_scheduled", row_ranges(changes.scheduled_removed))
    _many(db, "insert_scheduled", scheduled_rows(changes.scheduled_added))


def _write_fragments(db: sqlite3.Connection, changes: ChangeSet) -> None:
    _many(db, "put_fragment", [fragment_row(record) for record in changes.records])
    # After the records: a fragment may be touched and dropped in one commit.
    dropped = [(number,) for number in changes.dropped]
    _many(db, "delete_fragment", dropped)
    _many(db, "drop_fragment", dropped)
    _many(
        db,
        "put_entity",
        [(entity.generation, entity.definition) for entity in changes.entities_put],
    )
    _many(db, "delete_entity", [(removed,) for removed in changes.entities_removed])


def _write_sessions(db: sqlite3.Connection, changes: ChangeSet) -> None:
    # A state may be set several times in one commit; the last one counts.
    last: dict[tuple[int, str], SessionState] = {}
    for state in changes.session_states:
        last[state.fragment_number, state.session_id] = state
    _many(db, "delete_session_state", list(last))
    _many(
        db,
        "insert_session_state",
        [
            (s.fragment_number, s.session_id, s.updated_at, s.state)
            for s in last.values()
            if s.state is not None
        ],
    )


def _write_rules(db: sqlite3.Connection, changes: ChangeSet) -> None:
    _many(db, "delete_rule", changes.rules_removed)
    _many(
        db,
        "put_rule",
        [
            (r.fragment_number, r.name, r.definition, r.created_at)
            for r in changes.rules_put
        ],
    )


def _write_reader_leases(db: sqlite3.Connection, changes: ChangeSet) -> None:
    _many(
        db,
        "put_reader_lease",
        [
            (
                *(lease.fragment_number, lease.reader, lease.epoch, lease.duration_ms),
                *(lease.expires_at, lease.planned_from, lease.planned_through),
            )
            for lease in changes.reader_leases
        ],
    )
    _many(db, "delete_reader_lease", [(number,) for number in changes.dropped])


def _write_ledgers(db: sqlite3.Connection, changes: ChangeSet) -> None:
    _many(db, "delete_outbox", [(entry_id,) for entry_id in changes.outbox_removed])
    _many(
        db,
        "insert_outbox",
        [(e.entry_id, e.target, e.raw, e.origin) for e in changes.outbox_added],
    )
    for added in changes.ledger_ranges:
        _add_range(db, added)
    _many(
        db,
        "put_ledger_id",
        [(i.fragment_number, i.unique_id, i.forget_at) for i in changes.ledger_ids],
    )


def _add_range(db: sqlite3.Connection, added: LedgerRange) -> None:
    """Add a range as one row with those it overlaps or adjoins."""
    key = (added.source, added.generation)
    names = {
        "source": added.source,
        "generation": added.generation,
        "first": added.first,
        "last": added.last,
    }
    first, last = db.execute(_SQL["touching_ranges"], names).fetchone()
    if first is None:
        first, last = added.first, added.last
    else:
        db.execute(_SQL["delete_ranges"], (*key, first, last))
        first, last = min(first, added.first), max(last, added.last)
    db.execute(_SQL["insert_range"], (*key, first, last))
