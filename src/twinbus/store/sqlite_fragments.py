"""Records of fragments as rows of the SQLite store, and back.

The order is that of the columns, in the table and in the statement that reads them.
"""

from collections.abc import Iterable
from typing import Any

from twinbus.broker.changes import FragmentRecord


def fragment_row(record: FragmentRecord) -> tuple[Any, ...]:
    """Parameters of `put_fragment`."""
    return (
        record.number,
        record.generation,
        record.index,
        record.sub_queue,
        record.next_sequence,
        record.last_enqueued_at,
        record.active_count,
        record.deferred_count,
        record.scheduled_count,
        record.size_bytes,
    )


def fragment_record(row: Iterable[Any]) -> FragmentRecord:
    """A row of `fragments`."""
    (
        number,
        generation,
        index,
        sub_queue,
        next_sequence,
        last_enqueued_at,
        active_count,
        deferred_count,
        scheduled_count,
        size_bytes,
    ) = row
    return FragmentRecord(
        number=number,
        generation=generation,
        index=index,
        sub_queue=sub_queue,
        next_sequence=next_sequence,
        last_enqueued_at=last_enqueued_at,
        active_count=active_count,
        deferred_count=deferred_count,
        scheduled_count=scheduled_count,
        size_bytes=size_bytes,
    )
