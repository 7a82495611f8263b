"""A partition: ranges of messages, and how an executor reads them.

Reading has no state: a task may be repeated, run twice at the same time, or read the
same batch as another task. The number of messages is compared with the plan.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from twinbus.clock import SystemClock
from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.bulk.snapshot_age import SnapshotAge
from twinbus.spark.connection import SparkConnection
from twinbus.spark.data_loss import report_loss
from twinbus.spark.packing import Range
from twinbus.spark.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """Ranges that one task reads, one after the other."""

    def __init__(
        self,
        connection: SparkConnection,
        ranges: Sequence[Range],
        columns: tuple[str, ...],
        states: tuple[str, ...],
        fails_on_loss: bool,
        patience_ms: int,
        sessions: tuple[str, ...] | None = None,
        planned: SnapshotAge | None = None,
    ) -> None:
        super().__init__(None)
        self._connection = connection
        self._ranges = ranges
        self._columns = columns
        self._states = states
        self._fails_on_loss = fails_on_loss
        self._patience_ms = patience_ms
        # Only messages of these; None: of all.
        self._sessions = sessions
        # For one partition of a batch query, which looks whether its plan is old.
        self._planned = planned

    def __repr__(self) -> str:
        parts = (f"{r.path} {r.first}..{r.end - 1}" for r in self._ranges)
        return f"RangePartition({', '.join(parts)})"

    def read(self) -> "Iterator[pa.RecordBatch]":
        """Raises BulkError, DataLoss."""
        client = BulkClient(self._connection, self._patience_ms)
        try:
            if self._planned is not None:
                self._planned.tell_if_old(client, SystemClock().now())
            for found in self._ranges:
                yield from self._read(client, found)
        finally:
            client.close()

    def _read(self, client: BulkClient, found: Range) -> "Iterator[pa.RecordBatch]":
        schema = arrow_schema(self._columns)
        count = 0
        try:
            for batch in client.browse(
                found, self._columns, self._states, self._sessions or ()
            ):
                count += batch.num_rows
                # The bus sends the columns in the same order.
                yield batch.select(schema.names).cast(schema)
        except BulkError as error:
            # The whole entity is gone, with all planned messages.
            if not error.is_missing:
                raise
        # With a filter it is not known how many there should be.
        is_counted = self._states == ("active",) and self._sessions is None
        if is_counted and count < found.message_count:
            self._miss(found, found.message_count - count)

    def _miss(self, found: Range, missing: int) -> None:
        text = (
            f"{missing} of {found.message_count} messages of '{found.path}' with "
            f"sequence numbers from {found.first} to {found.end - 1} are gone since "
            "the batch was planned: received, expired or deleted by somebody else."
        )
        report_loss(text, fails=self._fails_on_loss)
