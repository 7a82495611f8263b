"""The plan of a write: which engine sends, and what a task does with its rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from twinbus.spark.foreign import offered_by
from twinbus.spark.option_reader import OptionError
from twinbus.spark.row_messages import encode_rows
from twinbus.spark.row_sender import RowSender, SentRows
from twinbus.spark.vendor_sdk import require_sdk
from twinbus.spark.write_options import WriteOptions, write_options

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What is decided once for all tasks."""

    options: WriteOptions
    is_twinbus: bool

    def send(self, batches: "Iterator[pa.RecordBatch]") -> SentRows:
        """The rows of one task. Raises RowError, RowsRefused, BulkError."""
        sender: RowSender | None = None
        try:
            for batch in batches:
                rows = encode_rows(batch, self.options)
                # A task without rows does not connect.
                sender = sender or self._sender()
                sender.send(rows)
            return SentRows(sent_count=0) if sender is None else sender.finish()
        finally:
            if sender is not None:
                sender.close()

    def _sender(self) -> RowSender:
        if self.is_twinbus:
            from twinbus.spark.bulk.bulk_sender import BulkSender

            return BulkSender(self.options)
        require_sdk()
        from twinbus.spark.portable.sending import SdkSender

        return SdkSender(self.options)


def plan_write(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> WritePlan:
    """Raises OptionError, SdkMissing, BulkError."""
    checked = write_options(options, schema, overwrite=overwrite)
    is_twinbus = "append" in offered_by(checked.connection, checked.patience_ms)
    if checked.columns.send_id is not None and not is_twinbus:
        raise OptionError(
            "'idColumn' needs a twinbus namespace that is not strict and has pyarrow. "
            "Leave it out and set the column 'message_id' instead: a queue or topic "
            "with duplicate detection drops what it was sent before."
        )
    if not is_twinbus:
        require_sdk()
    return WritePlan(options=checked, is_twinbus=is_twinbus)
