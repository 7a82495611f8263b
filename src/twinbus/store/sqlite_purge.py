"""A portion of a dropped fragment's rows removed, inside a transaction.

Rows that share a body release it with them. The bodies of a dropped topic go with
the rows of its subscriptions; until they have, its number must not be used again,
because a body is named by a row id of the topic.
"""

import sqlite3
from typing import Final

from twinbus.broker.row_id import SEQUENCE_MASK, base_of
from twinbus.store.sqlite_bodies import write_bodies
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("sqlite_store.sql")

_MESSAGES: Final = ("active", "deferred", "scheduled")
_OF_A_FRAGMENT: Final = ("purge_ledger_ids", "purge_session_states", "purge_rules")


def purge_portion(db: sqlite3.Connection, fragment_number: int, limit: int) -> bool:
    """Remove up to `limit` rows; True when the number may be used again."""
    left = limit
    for state in _MESSAGES:
        left -= _purge_messages(db, state, base_of(fragment_number), left)
    for name in _OF_A_FRAGMENT:
        left -= db.execute(_SQL[name], (fragment_number, left)).rowcount
    if left == 0 or _has_bodies(db, base_of(fragment_number)):
        return False
    db.execute(_SQL["forget_dropped_fragment"], (fragment_number,))
    return True


def _purge_messages(db: sqlite3.Connection, state: str, base: int, limit: int) -> int:
    bounds = (base, base + SEQUENCE_MASK, limit)
    count: int
    count, last = db.execute(_SQL[f"portion_of_{state}"], bounds).fetchone()
    if count > 0:
        released = db.execute(_SQL[f"shared_by_{state}"], (base, last)).fetchall()
        db.execute(_SQL[f"delete_{state}"], (base, last))
        write_bodies(db, (), (), [body_id for (body_id,) in released])
    return count


def _has_bodies(db: sqlite3.Connection, base: int) -> bool:
    row = db.execute(_SQL["has_bodies"], (base, base + SEQUENCE_MASK)).fetchone()
    return bool(row[0])
