"""What the format `servicebus` writes with.

Delivery is at least once: what a task had sent before it failed is sent again by the
next attempt. With `idColumn`, at a twinbus namespace, it is exactly once in effect, for
as long as the bus remembers ids (`send_id_window`).
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

from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.foreign import speaks_amqp_alone
from twinbus.spark.option_reader import OptionError
from twinbus.spark.plain_error import plainly
from twinbus.spark.row_sender import RowSender
from twinbus.spark.write_options import WriteOptions, write_options

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)


@dataclass
class Written(WriterCommitMessage):
    """What one task did."""

    sent_count: int
    # Rows that an earlier attempt had sent.
    known_count: int


@plainly
def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> "ServiceBusWriter":
    """Raises OptionError, BulkError."""
    return ServiceBusWriter(_planned(options, schema, overwrite))


@plainly
def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> "ServiceBusStreamWriter":
    """Raises OptionError, BulkError."""
    return ServiceBusStreamWriter(_planned(options, schema, overwrite))


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What is decided once for all tasks."""

    options: WriteOptions
    is_twinbus: bool

    def write(self, batches: "Iterator[pa.RecordBatch]") -> Written:
        """Send the rows of one task."""
        from twinbus.spark.row_messages import encode_rows

        sender: RowSender | None = None
        try:
            for batch in batches:
                rows = encode_rows(batch, self.options)
                # Nobody connects for a task without rows.
                sender = sender or self._sender()
                sender.send(rows)
            if sender is None:
                return Written(sent_count=0, known_count=0)
            sent = sender.finish()
        finally:
            if sender is not None:
                sender.close()
        return Written(sent_count=sent.sent_count, known_count=sent.known_count)

    def _sender(self) -> RowSender:
        if self.is_twinbus:
            from twinbus.spark.bulk.appending import BulkSender

            return BulkSender(self.options)
        from twinbus.spark.portable.sending import SdkSender

        return SdkSender(self.options)


def _planned(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> WritePlan:
    checked = write_options(options, schema, overwrite=overwrite)
    is_twinbus = _is_twinbus(checked)
    if checked.columns.send_id is not None and not is_twinbus:
        raise OptionError(
            "'idColumn' needs a twinbus namespace that is not strict and has pyarrow. "
            "Leave it out and set the column 'message_id' instead: a queue or topic "
            "with duplicate detection drops what it was sent before."
        )
    return WritePlan(options=checked, is_twinbus=is_twinbus)


def _is_twinbus(options: WriteOptions) -> bool:
    if speaks_amqp_alone(options.connection):
        return False
    client = BulkClient(options.connection, options.patience_ms)
    try:
        return "append" in client.offered()
    finally:
        client.close()


class ServiceBusWriter(DataSourceArrowWriter):
    """Planned in the driver; `write` runs in executors, in any number of attempts."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    @plainly
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return self._plan.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log.info("%s", _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log.warning("%s", _leftover(messages))


class ServiceBusStreamWriter(DataSourceStreamArrowWriter):
    """As the other; a batch that is committed twice was sent twice, or had ids."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    @plainly
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return self._plan.write(iterator)

    def commit(
        self, messages: Sequence[WriterCommitMessage | None], batchId: int
    ) -> None:
        _log.info("Batch %d: %s", batchId, _summary(messages))

    def abort(
        self, messages: Sequence[WriterCommitMessage | None], batchId: int
    ) -> None:
        _log.warning("Batch %d: %s", batchId, _leftover(messages))


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
