"""A partition that is read by peeking."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from twinbus.spark.data_loss import report_loss
from twinbus.spark.packing import Range
from twinbus.spark.portable.delivered import Delivered
from twinbus.spark.portable.errors import EntityMissing
from twinbus.spark.portable.message_table import record_batch
from twinbus.spark.portable.namespace import PortableNamespace
from twinbus.spark.portable.number_ranges import NumberRanges
from twinbus.spark.portable.peeking import peek_numbers
from twinbus.spark.ranges_read import RangePartition

if TYPE_CHECKING:
    import pyarrow as pa

_STATES: Final = ("active", "deferred", "scheduled")


class PeekPartition(RangePartition):
    """Ranges that may have gaps: it is unknown how many messages they have."""

    def read(self) -> "Iterator[pa.RecordBatch]":
        """Raises PortableError, DataLoss."""
        by_path: dict[str, list[Range]] = {}
        for found in self._ranges:
            by_path.setdefault(found.path, []).append(found)
        with PortableNamespace(self._connection, self._patience_ms) as namespace:
            for path, ranges in by_path.items():
                yield from self._read_path(namespace, path, ranges)

    def _read_path(
        self, namespace: PortableNamespace, path: str, ranges: list[Range]
    ) -> "Iterator[pa.RecordBatch]":
        numbers = NumberRanges((found.first, found.end - 1) for found in ranges)
        count = 0
        try:
            for page in peek_numbers(namespace, path, numbers):
                wanted = [m for m in page if self._is_wanted(m)]
                count += len(wanted)
                if wanted:
                    yield record_batch(path, wanted, self._columns)
        except EntityMissing as error:
            text = f"A batch cannot be read: {error}"
            report_loss(text, fails=self._fails_on_loss)
        self._check_count(path, len(numbers), count)

    def _is_wanted(self, message: Delivered) -> bool:
        if self._sessions is not None and message.session_id not in self._sessions:
            return False
        return _STATES[message.state] in self._states

    def _check_count(self, path: str, expected: int, count: int) -> None:
        """Any number in such a range may be missing."""


class DeferredPartition(PeekPartition):
    """Messages that a stream deferred: each number exists until it is settled."""

    def _check_count(self, path: str, expected: int, count: int) -> None:
        if count < expected:
            report_loss(
                f"{expected - count} of {expected} messages of '{path}' that this "
                "query deferred are gone: settled already, as by a query that ran on "
                "from a later checkpoint, or received or deleted by somebody else.",
                fails=self._fails_on_loss,
            )
