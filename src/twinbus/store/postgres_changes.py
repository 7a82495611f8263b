"""A change set as steps of one transaction.

Most of a commit is messages added and messages removed: the first are columns, the
second ranges of row ids, in one statement each. The rest is small, and most commits
have none of it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from twinbus.broker.changes import ChangeSet, SessionState, SharedBody
from twinbus.store.postgres_segments import TableSegment
from twinbus.store.postgres_session import Parameters, Step
from twinbus.store.rows.postgres_rows import (
    any_columns,
    bigints,
    byteas,
    changed_columns,
    deferred_columns,
    moved_active_columns,
    moved_deferred_columns,
    plain_columns,
    range_columns,
    scheduled_columns,
    split_plain,
)
from twinbus.store.rows.sqlite_rows import row_ranges
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("postgres_store.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentSegments:
    """Where new rows go; None where there are none to add."""

    message: TableSegment | None
    shared_body: TableSegment | None
    body_use: TableSegment | None


@final
class CommitSteps:
    """The steps of a commit after its fence, and what they do to segments."""

    def __init__(self, current: CurrentSegments) -> None:
        self._current = current
        self.steps: list[Step] = []
        # Steps that answer how many rows of which segment are gone, by position.
        self.counting: list[int] = []
        # TableSegment, rows, bytes.
        self.added: list[tuple[TableSegment, int, int]] = []

    def write(self, changes: ChangeSet) -> None:
        """Everything but the journal and the fragments' records."""
        self._messages(changes)
        self.bodies(changes.bodies_added, changes.bodies_taken, changes.bodies_released)
        self._entities(changes)
        self._sessions(changes)
        self._rules(changes)
        self._reader_leases(changes)
        self._ledgers(changes)

    def _add(self, name: str, parameters: Parameters) -> None:
        self.steps.append((_SQL[name], parameters))

    def _add_to(
        self,
        segment: TableSegment | None,
        name: str,
        parameters: Parameters,
        count: int,
        size_bytes: int,
    ) -> None:
        assert segment is not None, "the store has made room for what is added"
        self.steps.append((_SQL[name].replace("{segment}", segment.name), parameters))
        self.added.append((segment, count, size_bytes))

    # --- messages -------------------------------------------------------------

    def _messages(self, changes: ChangeSet) -> None:
        # First: the rows that these are copied from are removed by the same commit.
        if changes.active_moved:
            columns, count = (
                moved_active_columns(changes.active_moved),
                len(changes.active_moved),
            )
            size_bytes = sum(m.size_bytes() for m in changes.active_moved)
            self._add_to(
                self._current.message, "move_to_active", columns, count, size_bytes
            )
        if changes.deferred_moved:
            self._add(
                "move_to_deferred", moved_deferred_columns(changes.deferred_moved)
            )
        if changes.active_removed:
            self.counting.append(len(self.steps))
            self._add(
                "delete_active", range_columns(row_ranges(changes.active_removed))
            )
        if changes.active_added:
            self._active(changes)
        if changes.active_changed:
            self._add("change_active", changed_columns(changes.active_changed))
        self._put_by(changes)

    def _active(self, changes: ChangeSet) -> None:
        plain, unusual = split_plain(changes.active_added)
        for name, messages, columns in (
            ("insert_plain", plain, plain_columns),
            ("insert_any", unusual, any_columns),
        ):
            if messages:
                size_bytes = sum([len(message.raw) for message in messages])
                self._add_to(
                    self._current.message,
                    name,
                    columns(messages),
                    len(messages),
                    size_bytes,
                )

    def _put_by(self, changes: ChangeSet) -> None:
        """Deferred and scheduled messages."""
        if changes.deferred_removed:
            ranges = row_ranges(changes.deferred_removed)
            self._add("delete_deferred", range_columns(ranges))
        if changes.deferred_added:
            self._add("insert_deferred", deferred_columns(changes.deferred_added))
        if changes.deferred_changed:
            self._add("change_deferred", changed_columns(changes.deferred_changed))
        if changes.scheduled_removed:
            ranges = row_ranges(changes.scheduled_removed)
            self._add("delete_scheduled", range_columns(ranges))
        if changes.scheduled_added:
            self._add("insert_scheduled", scheduled_columns(changes.scheduled_added))

    # --- bodies that several rows share ---------------------------------------

    def bodies(
        self,
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
            uses = [differences.pop(body.body_id, 0) for body in added]
            unused += [
                body.body_id
                for body, count in zip(added, uses, strict=True)
                if count <= 0
            ]
            self._add_bodies(added, uses)
        self._count_uses(differences)
        if unused:
            self.counting.append(len(self.steps))
            self._add("delete_unused_bodies", range_columns(row_ranges(unused)))

    def _add_bodies(self, added: Sequence[SharedBody], uses: list[int]) -> None:
        ids, count = bigints([body.body_id for body in added]), len(added)
        raws = [body.raw for body in added]
        self._add_to(
            self._current.shared_body,
            "insert_bodies",
            [ids, byteas(raws)],
            count,
            sum(map(len, raws)),
        )
        self._add_to(
            self._current.body_use, "insert_body_uses", [ids, bigints(uses)], count, 0
        )

    def _count_uses(self, differences: dict[int, int]) -> None:
        by_difference: dict[int, list[int]] = {}
        for body_id, difference in differences.items():
            if difference != 0:
                by_difference.setdefault(difference, []).append(body_id)
        ranges = [
            (difference, first, last)
            for difference, body_ids in by_difference.items()
            for first, last in row_ranges(body_ids)
        ]
        if ranges:
            columns = [bigints(column) for column in zip(*ranges, strict=True)]
            self._add("count_body_uses", columns)

    # --- the rest -------------------------------------------------------------

    def _entities(self, changes: ChangeSet) -> None:
        if changes.dropped:
            dropped = [bigints(changes.dropped)]
            self._add("delete_fragments", dropped)
            self._add("drop_fragments", dropped)
            self._add("delete_reader_leases", dropped)
        for entity in changes.entities_put:
            self._add("put_entity", (entity.generation, entity.definition))
        if changes.entities_removed:
            self._add("delete_entities", [byteas(changes.entities_removed)])

    def _sessions(self, changes: ChangeSet) -> None:
        # A state may be set several times in one commit; the last one counts.
        last: dict[tuple[int, str], SessionState] = {}
        for state in changes.session_states:
            last[state.fragment_number, state.session_id] = state
        for one in last.values():
            key = (one.fragment_number, one.session_id.encode())
            if one.state is None:
                self._add("delete_session_state", key)
            else:
                self._add("put_session_state", (*key, one.updated_at, one.state))

    def _rules(self, changes: ChangeSet) -> None:
        for number, name in changes.rules_removed:
            self._add("delete_rule", (number, name.encode()))
        for rule in changes.rules_put:
            key = (rule.fragment_number, rule.name.encode())
            # Not replaced in place: the new one is the last to have come.
            self._add("delete_rule", key)
            self._add("insert_rule", (*key, rule.definition.encode(), rule.created_at))

    def _reader_leases(self, changes: ChangeSet) -> None:
        dropped = set(changes.dropped)
        for lease in changes.reader_leases:
            if lease.fragment_number not in dropped:
                self._add(
                    "put_reader_lease",
                    (
                        *(lease.fragment_number, lease.reader.encode(), lease.epoch),
                        *(lease.duration_ms, lease.expires_at),
                        *(lease.planned_from, lease.planned_through),
                    ),
                )

    def _ledgers(self, changes: ChangeSet) -> None:
        if changes.outbox_removed:
            self._add("delete_outbox", [bigints(changes.outbox_removed)])
        for entry in changes.outbox_added:
            values = (entry.entry_id, entry.target.encode(), entry.raw, entry.origin)
            self._add("insert_outbox", values)
        for added in changes.ledger_ranges:
            names = {
                "source": added.source.encode(),
                "generation": added.generation,
                "first": added.first,
                "last": added.last,
            }
            self._add("add_range", names)
        if changes.ledger_ids:
            self._ledger_ids(changes)

    def _ledger_ids(self, changes: ChangeSet) -> None:
        # Each id once: a statement cannot write a row twice.
        latest: dict[tuple[int, bytes], int] = {}
        for one in changes.ledger_ids:
            key = (one.fragment_number, one.unique_id)
            latest[key] = max(one.forget_at, latest.get(key, one.forget_at))
        self._add(
            "put_ledger_ids",
            [
                bigints([number for number, _ in latest]),
                byteas([unique_id for _, unique_id in latest]),
                bigints(list(latest.values())),
            ],
        )
