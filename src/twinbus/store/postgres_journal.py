"""Records of fragments in the journal: what a commit says of the fragments it touched.

Every commit changes counters. As rows of a table that would be a new version each, and
old ones pile up while somebody holds a snapshot. So a commit appends them to the
journal, and the table is written once in a while. Who opens the store reads the
table, and then what the journal has after it.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, final

from twinbus.broker.changes import FragmentRecord
from twinbus.store.rows.postgres_rows import bigints, byteas

# Eight numbers, the index, and how long the generation is.
_RECORD: Final = struct.Struct("<IIBqqqqqqH")


def encode_records(records: Sequence[FragmentRecord]) -> bytes | None:
    """What the journal keeps; None if there is nothing."""
    if not records:
        return None
    parts = []
    for record in records:
        parts.append(
            _RECORD.pack(
                record.number,
                record.index,
                record.sub_queue,
                record.next_sequence,
                record.last_enqueued_at,
                record.active_count,
                record.deferred_count,
                record.scheduled_count,
                record.size_bytes,
                len(record.generation),
            )
        )
        parts.append(record.generation)
    return b"".join(parts)


def decode_records(blob: bytes) -> list[FragmentRecord]:
    """Raises struct.error if it was cut short."""
    records = []
    at = 0
    while at < len(blob):
        number, index, sub_queue, *counters, length = _RECORD.unpack_from(blob, at)
        at += _RECORD.size
        generation = blob[at : at + length]
        at += length
        records.append(
            fragment_record((number, generation, index, sub_queue, *counters))
        )
    return records


def fragment_record(row: Iterable[Any]) -> FragmentRecord:
    """A row of `fragments`."""
    number, generation, index, sub_queue, next_sequence, last, *counters = row
    active_count, deferred_count, scheduled_count, size_bytes = counters
    return FragmentRecord(
        number=number,
        generation=generation,
        index=index,
        sub_queue=sub_queue,
        next_sequence=next_sequence,
        last_enqueued_at=last,
        active_count=active_count,
        deferred_count=deferred_count,
        scheduled_count=scheduled_count,
        size_bytes=size_bytes,
    )


def record_columns(records: Sequence[FragmentRecord]) -> list[object]:
    """Parameters of `put_fragments`."""
    return [
        bigints([record.number for record in records]),
        byteas([record.generation for record in records]),
        bigints([record.index for record in records]),
        bigints([record.sub_queue for record in records]),
        bigints([record.next_sequence for record in records]),
        bigints([record.last_enqueued_at for record in records]),
        bigints([record.active_count for record in records]),
        bigints([record.deferred_count for record in records]),
        bigints([record.scheduled_count for record in records]),
        bigints([record.size_bytes for record in records]),
    ]


@final
class UnwrittenRecords:
    """What the journal says and the table does not."""

    def __init__(self) -> None:
        # By number.
        self._records: dict[int, FragmentRecord] = {}

    def learn(self, blobs: Iterable[bytes]) -> None:
        """From the journal, oldest first."""
        self._records.clear()
        for blob in blobs:
            self.add(decode_records(blob))

    def add(self, records: Iterable[FragmentRecord]) -> None:
        """A commit has appended them."""
        for record in records:
            self._records[record.number] = record

    def over(self, table: Iterable[FragmentRecord]) -> list[FragmentRecord]:
        """What is true, given what the table says; in order of numbers."""
        found = {record.number: record for record in table} | self._records
        return [found[number] for number in sorted(found)]

    def with_those_of(self, records: Iterable[FragmentRecord]) -> list[FragmentRecord]:
        """What the table lacks after a commit of these."""
        found = self._records | {record.number: record for record in records}
        return list(found.values())

    def clear(self) -> None:
        """The table was written."""
        self._records.clear()
