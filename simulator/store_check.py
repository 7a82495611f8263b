"""What must be true of the content of any store, whatever happened before.

Counters are what is there, sizes too; each shared body is used as often as it says,
no row uses a body that is not there, and nothing belongs to a fragment that is not.
Read behind the back of the bus, from the disk itself.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.sighting import Violation
from twinbus.store.memory_disk import MemoryDisk

_TABLES = ("message", "deferred", "scheduled")
_SEQUENCE_BITS = 48


@dataclass(slots=True, kw_only=True)
class Content:
    """A store, as far as it can be compared with itself."""

    # By number: counts of active, deferred and scheduled messages, and bytes.
    records: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    # Of each table: row id, own bytes, shared body or None.
    rows: list[list[tuple[int, int, int | None]]] = field(default_factory=list)
    # Bytes and uses of shared bodies.
    bodies: dict[int, int] = field(default_factory=dict)
    uses: dict[int, int] = field(default_factory=dict)
    # Fragment number and bytes.
    states: list[tuple[int, int]] = field(default_factory=list)
    # Fragment numbers of other things.
    others: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)


def in_memory(disk: MemoryDisk) -> Content:
    content = Content(dropped=set(disk.dropped))
    for number, record in disk.fragments.items():
        content.records[number] = (
            record.active_count,
            record.deferred_count,
            record.scheduled_count,
            record.size_bytes,
        )
    everything = (-(1 << 63), (1 << 63) - 1)
    for table in (disk.active, disk.deferred, disk.scheduled):
        rows = []
        for row in table.between(*everything):
            body_id = row.body_id if row.is_shared else None
            rows.append((row.row_id, len(row.raw) if body_id is None else 0, body_id))
        content.rows.append(rows)
    content.bodies = {i: len(raw) for i, raw in disk.bodies._raw.items()}
    content.uses = dict(disk.bodies._use_counts)
    for (number, _), state in disk.session_states._states.items():
        content.states.append((number, len(state.state or b"")))
    content.others = {key[0] for key in disk.rules} | {key[0] for key in disk.ids}
    content.others |= set(disk.reader_leases)
    return content


def in_file(path: Path) -> Content:
    """Of a SQLite file that a bus may have open."""
    with closing(sqlite3.connect(path)) as db:

        def read(sql: str) -> list[Any]:
            return db.execute(sql).fetchall()

        content = Content(dropped={row[0] for row in read(_DROPPED)})
        content.records = {row[0]: row[1:] for row in read(_RECORDS)}
        content.rows = [read(_ROWS.format(table)) for table in _TABLES]
        content.bodies = dict(read(_BODIES))
        content.uses = dict(read("SELECT body_id, use_count FROM body_use"))
        content.states = read(_STATES)
        content.others = {row[0] for row in read(_OTHERS)}
        return content


_DROPPED = "SELECT number FROM dropped_fragment"
_RECORDS = """
    SELECT number, active_count, deferred_count, scheduled_count, size_bytes
    FROM fragment"""
_ROWS = """
    SELECT row_id, CASE WHEN is_shared THEN 0 ELSE length(raw) END,
        CASE WHEN is_shared THEN body_id END FROM {}"""
_BODIES = "SELECT body_id, length(raw) FROM shared_body"
_STATES = "SELECT fragment_number, length(state) FROM session_state"
_OTHERS = """
    SELECT fragment_number FROM rule UNION SELECT fragment_number FROM ledger_id
    UNION SELECT fragment_number FROM reader_lease"""


def check_content(content: Content) -> None:
    """Raises Violation. Everything that is to be purged must have been."""
    if content.dropped:
        raise Violation(f"fragments {sorted(content.dropped)} were never purged")
    used = Counter(row[2] for rows in content.rows for row in rows)
    del used[None]
    if dict(used) != content.uses or set(used) != set(content.bodies):
        raise Violation(
            f"shared bodies {sorted(content.bodies)} are counted as "
            f"{content.uses} and used as {dict(used)}"
        )
    _check_numbers(content)
    for number, record in content.records.items():
        counts = [_of(rows, number) for rows in content.rows]
        held_bytes = sum(
            own if body_id is None else content.bodies[body_id]
            for rows in counts
            for _, own, body_id in rows
        )
        held_bytes += sum(size for at, size in content.states if at == number)
        held = (*(len(rows) for rows in counts), held_bytes)
        if held != record:
            raise Violation(f"fragment {number} says {record} and holds {held}")


def _of(
    rows: Iterable[tuple[int, int, int | None]], number: int
) -> list[tuple[int, int, int | None]]:
    return [row for row in rows if _fragment_of(row[0]) == number]


def _fragment_of(row_id: int) -> int:
    # Row ids are signed, and begin with the lowest.
    return (row_id >> _SEQUENCE_BITS) + (1 << 15)


def _check_numbers(content: Content) -> None:
    numbers = {_fragment_of(row[0]) for rows in content.rows for row in rows}
    numbers |= {_fragment_of(body_id) for body_id in content.bodies}
    numbers |= {number for number, _ in content.states} | content.others
    if not numbers <= set(content.records):
        strangers = sorted(numbers - set(content.records))
        raise Violation(f"there are rows of fragments {strangers}, which are not")
