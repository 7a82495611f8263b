"""Bodies that several rows share, inside a transaction: stored once, counted by use.

A use is a row of a subscription. The uses of a commit are added up first, so that a
body is counted once for all of its rows, and a run of bodies with the same
difference in one statement: subscriptions settle in the order of the topic.
"""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Final

from twinbus.broker.changes import SharedBody
from twinbus.store.rows.sqlite_rows import row_ranges
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("sqlite_store.sql")


def write_bodies(
    db: sqlite3.Connection,
    added: Sequence[SharedBody],
    taken: Sequence[int],
    released: Sequence[int],
) -> None:
    """Add bodies, count uses, and remove bodies that have none any more."""
    if not (added or taken or released):
        return
    differences = Counter(taken)
    differences.subtract(released)
    unused = [body_id for body_id, count in differences.items() if count < 0]
    if added:
        uses = [(body.body_id, differences.pop(body.body_id, 0)) for body in added]
        unused += [body_id for body_id, count in uses if count <= 0]
        db.executemany(
            _SQL["insert_body"], [(b.body_id, bytearray(b.raw)) for b in added]
        )
        db.executemany(_SQL["insert_body_use"], uses)
    _count_uses(db, differences)
    if unused:
        ranges = row_ranges(unused)
        db.executemany(_SQL["delete_body_use"], ranges)
        db.executemany(_SQL["delete_body"], ranges)


def _count_uses(db: sqlite3.Connection, differences: dict[int, int]) -> None:
    by_difference: dict[int, list[int]] = {}
    for body_id, difference in differences.items():
        by_difference.setdefault(difference, []).append(body_id)
    for difference, body_ids in by_difference.items():
        if difference != 0:
            db.executemany(
                _SQL["count_body_use"],
                [(difference, first, last) for first, last in row_ranges(body_ids)],
            )
