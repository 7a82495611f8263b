"""Rows that cannot be messages: which row it is, and texts that are not UTF-8."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from twinbus.spark.plain_error import PlainError

if TYPE_CHECKING:
    import pyarrow as pa


class RowError(PlainError, ValueError):
    """A row cannot be a message; the text says why, and what to do."""


class RowNames:
    """Names the rows of a record batch in errors."""

    def __init__(self, batch: "pa.RecordBatch", sent: Mapping[str, int]) -> None:
        self._batch = batch
        self._place = sent.get("message_id")

    def of(self, row: int) -> str:
        """By its place in the record batch, and by its message id if it has one."""
        text = f"row {row + 1} of {self._batch.num_rows} of its batch"
        if self._place is None:
            return text
        message_id = self._batch.column(self._place)[row].as_py()
        return text if message_id is None else f"{text} (message_id '{message_id}')"


def utf8(
    column: "pa.Array", name: str, *, is_text: bool = True
) -> "list[bytes | None]":
    """Texts in UTF-8. Spark does not check strings that were made from bytes; a bus
    does. Raises RowError."""
    import pyarrow as pa

    if is_text:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise RowError(
                f"The column '{name}' has a string that is not valid UTF-8. Make it "
                "one with decode(), or use binary values."
            ) from None
    values: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return values
