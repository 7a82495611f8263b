"""Whether a store is whole: SQLite's own check, and what must be true of our rows.

- The last confirmed commit is there (`sqlite_confirmed.py`).
- SQLite finds every page and every index entry.
- Counters are what is there, in messages and bytes; no message has a number that is
  not given yet; nothing belongs to a fragment that is not; every shared body is
  there and used as often as it says.
- The catalog and the store know the same entities.

Everything is read, so it takes as long as reading the files does, and the store must
not have an owner meanwhile.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, final

from twinbus.broker.row_id import fragment_number_of, sequence_of
from twinbus.store import sqlite_lease_row
from twinbus.store.audit_findings import Finding, HeldRows, differences
from twinbus.store.sqlite_confirmed import (
    Confirmation,
    accept_loss,
    commits_lost,
    found_in,
    is_lost,
    read_confirmation,
)
from twinbus.store.sqlite_errors import reading, transaction, unreadable
from twinbus.store.sqlite_file import connect_to_read, connect_to_write
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("sqlite_audit.sql")
_TABLES: Final = ("active", "deferred", "scheduled")
_SHOWN: Final = 20
"""Troubles of SQLite's own check that are told: the first ones say it all."""


@final
class SqliteAudit:
    """One look at a store and its catalog, while nobody serves them."""

    def __init__(
        self, store: Path, catalog: Path | None, progress: Callable[[str], None]
    ) -> None:
        self.store = store
        self._catalog = catalog
        self._progress = progress
        self.findings: list[Finding] = []
        # The last commit in the store, and the last one that was confirmed.
        self.found: Confirmation | None = None
        self.confirmed: Confirmation | None = None
        self.message_count = 0
        # By fragment number: counters that are wrong, as they should be.
        self._recounted: dict[int, tuple[int, ...]] = {}
        self._has_lost_tail = False
        self._has_damaged_pages = False

    def is_whole(self) -> bool:
        return not any(finding.is_damage for finding in self.findings)

    # --- looking --------------------------------------------------------------

    def run(self) -> None:
        """Look at everything. Raises StoreError if a file can't be read at all, or
        if the store has an owner."""
        self.confirmed = read_confirmation(self.store)
        if not self.store.exists() and self.confirmed is not None:
            self._find(
                self.store,
                f"the file is missing, in which commit {self.confirmed.batch} was "
                "confirmed",
            )
            self._has_lost_tail = True
            return
        with _opened(self.store) as db:
            sqlite_lease_row.refuse_if_owned(db, self.store)
            self.found = found_in(db)
            self._check_tail()
            self._check_pages(db, self.store)
            if self._has_damaged_pages:
                return  # what is counted in a damaged file proves nothing
            self._check_fragments(db)
            self._check_bodies(db)
            if self._catalog is not None and self._catalog.exists():
                self._check_catalog(self._catalog, db)

    def _find(self, file: Path, text: str, *, is_damage: bool = True) -> None:
        self.findings.append(Finding(file=str(file), text=text, is_damage=is_damage))

    def _check_tail(self) -> None:
        confirmed, found = self.confirmed, self.found
        if found is None:
            raise unreadable(self.store, "its lease is missing")
        if confirmed is None:
            if found.batch > 0:
                self._find(
                    self.store,
                    "has no readable note of its last confirmed commit beside it, so "
                    "whether its end is there can't be told",
                    is_damage=False,
                )
        elif is_lost(confirmed, found):
            self._has_lost_tail = True
            self._find(self.store, str(commits_lost(self.store, confirmed, found)))

    def _check_pages(self, db: sqlite3.Connection, file: Path) -> None:
        self._progress(f"{file}: every page and index")
        rows = db.execute(f"PRAGMA integrity_check({_SHOWN})").fetchall()
        for (text,) in rows:
            if text != "ok":
                self._has_damaged_pages = True
                self._find(file, f"SQLite says: {' '.join(text.split())}")

    def _check_fragments(self, db: sqlite3.Connection) -> None:
        self._progress(f"{self.store}: counters against messages")
        held = self._held(db)
        dropped = {number for (number,) in db.execute(_SQL["dropped"])}
        known = set(dropped)
        for number, *counters, next_sequence in db.execute(_SQL["counters"]):
            known.add(number)
            self._check_fragment(
                number, tuple(counters), next_sequence, held.get(number, HeldRows())
            )
        others = {number for (number,) in db.execute(_SQL["of_fragments"])}
        for number in sorted((set(held) | others) - known):
            self._find(
                self.store, f"has rows of fragment {number}, which does not exist"
            )

    def _held(self, db: sqlite3.Connection) -> dict[int, HeldRows]:
        held: dict[int, HeldRows] = {}
        for i, state in enumerate(_TABLES):
            for _, count, size_bytes, last in db.execute(_SQL[f"held_{state}"]):
                of = held.setdefault(fragment_number_of(last), HeldRows())
                of.counts[i] = count
                of.size_bytes += int(size_bytes)
                of.last_sequence = max(of.last_sequence, sequence_of(last))
                self.message_count += count
        for number, size_bytes in db.execute(_SQL["held_states"]):
            held.setdefault(number, HeldRows()).size_bytes += int(size_bytes)
        return held

    def _check_fragment(
        self, number: int, counters: tuple[int, ...], next_sequence: int, held: HeldRows
    ) -> None:
        if held.counters() != counters:
            self._recounted[number] = held.counters()
        for text in differences(number, counters, next_sequence, held):
            self._find(self.store, text)

    def _check_bodies(self, db: sqlite3.Connection) -> None:
        self._progress(f"{self.store}: shared bodies")
        (missing,) = db.execute(_SQL["bodies_missing"]).fetchone()
        if missing:
            self._find(self.store, f"lacks the shared body of {missing} messages")
        (miscounted,) = db.execute(_SQL["bodies_miscounted"]).fetchone()
        if miscounted:
            self._find(
                self.store, f"counts the uses of {miscounted} shared bodies wrongly"
            )

    def _check_catalog(self, file: Path, store: sqlite3.Connection) -> None:
        with _opened(file) as db:
            self._check_pages(db, file)
            if self._has_damaged_pages:
                return
            self._progress(f"{file}: entities against fragments")
            entities = db.execute(_SQL["entities"]).fetchall()
        assert self.found is not None
        own = self.found.store_uuid.hex()
        fragments = {row[0] for row in store.execute(_SQL["generations"])}
        for path, generation, placement in entities:
            if own in json.loads(placement) and generation not in fragments:
                self._find(file, f"knows '{path}', of which the store has nothing")
        strangers = fragments - {generation for _, generation, _ in entities}
        if strangers:
            self._find(
                file,
                f"does not know {len(strangers)} entities of which the store has "
                "fragments: it is older than the store, or they were being deleted",
                is_damage=False,
            )

    # --- going on knowingly ---------------------------------------------------

    def can_accept(self) -> bool:
        """What is wrong is that something is gone; what is left can be served."""
        return not self._has_damaged_pages and bool(
            self._has_lost_tail or self._recounted
        )

    def accept(self) -> list[str]:
        """Take the store as it is: count what is there, and note its last commit as
        the last confirmed one. Returns what was done. Raises StoreError."""
        done = []
        if self._recounted:
            self._recount()
            done.append(
                f"{self.store}: the counters of {len(self._recounted)} fragments are "
                "now what was found"
            )
        if self._has_lost_tail:
            accept_loss(self.store, self.found)
            done.append(f"{self.store}: what is there is taken as all there is")
        return done

    def _recount(self) -> None:
        with closing(connect_to_write(self.store)) as db:
            with transaction(db, self.store):
                sqlite_lease_row.refuse_if_owned(db, self.store)
                db.executemany(
                    _SQL["recount"],
                    [(*counts, number) for number, counts in self._recounted.items()],
                )


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    """The file as it is at one moment."""
    with reading(file), closing(connect_to_read(file)) as db:
        db.execute("PRAGMA cell_size_check = ON")
        db.execute("BEGIN")
        yield db
