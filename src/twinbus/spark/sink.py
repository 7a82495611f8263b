"""Writes DataFrames in the format `servicebus`.

Delivery is at least once: if a task fails, the next attempt sends its messages again.
With `idColumn` and a twinbus namespace, each message arrives exactly once, as long as
the bus remembers ids (`send_id_window`).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from twinbus.spark.plain_error import plainly
from twinbus.spark.write_plan import WritePlan, plan_write

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)


@plainly
def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> "ServiceBusWriter":
    """Raises OptionError, BulkError."""
    return ServiceBusWriter(plan_write(options, schema, overwrite=overwrite))


@plainly
def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> "ServiceBusStreamWriter":
    """Raises OptionError, BulkError."""
    return ServiceBusStreamWriter(plan_write(options, schema, overwrite=overwrite))


@dataclass
class Written(WriterCommitMessage):
    """What one task did."""

    sent_count: int
    # Rows that an earlier attempt had sent.
    known_count: int


class ServiceBusWriter(DataSourceArrowWriter):
    """Planned in the driver; `write` runs in executors, in any number of attempts. The
    end of a write only logs, so it may come twice."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    @plainly
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return _written(self._plan, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log.info("%s", _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log.warning("%s", _leftover(messages))


class ServiceBusStreamWriter(DataSourceStreamArrowWriter):
    """The same for the batches of a stream."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    @plainly
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return _written(self._plan, iterator)

    def commit(
        self, messages: Sequence[WriterCommitMessage | None], batchId: int
    ) -> None:
        _log.info("Batch %d: %s", batchId, _summary(messages))

    def abort(
        self, messages: Sequence[WriterCommitMessage | None], batchId: int
    ) -> None:
        _log.warning("Batch %d: %s", batchId, _leftover(messages))


def _written(plan: WritePlan, batches: "Iterator[pa.RecordBatch]") -> Written:
    sent = plan.send(batches)
    return Written(sent_count=sent.sent_count, known_count=sent.known_count)


def _summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    done = [message for message in messages if isinstance(message, Written)]
    sent = sum(message.sent_count for message in done)
    known = sum(message.known_count for message in done)
    return f"{sent} rows were sent, {known} had been sent before."


def _leftover(messages: Sequence[WriterCommitMessage | None]) -> str:
    """A message that was sent cannot be taken back."""
    return (
        "The write failed, and what was sent stays sent. Of tasks that ended: "
        f"{_summary(messages)}"
    )
