"""The log of a store that a bus may be using, as a trace reads it."""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.operation_log.stored_rows import stored_rows
from twinbus.cli.tracing.message_trace import COLUMNS, Row
from twinbus.log_export.blob_source import BlobSource, SourceUnavailable


@final
class StoredLog:
    """Of one store: what it still has of it."""

    def __init__(self, source: BlobSource, namespace: str) -> None:
        self._source = source
        self._namespace = namespace

    def uids(self, message_id: str) -> set[str]:
        """Raises Failure."""
        return {
            row["message_uid"]
            for row in self._all()
            if _is_named(row, message_id) and row["message_uid"] is not None
        }

    def rows(self, message_id: str, uids: Collection[str]) -> list[Row]:
        """Raises Failure."""
        return [
            _shown(row)
            for row in self._all()
            if row["message_uid"] in uids or _is_named(row, message_id)
        ]

    def gaps(self) -> list[Row]:
        return []

    def _all(self) -> Iterator[Row]:
        try:
            yield from stored_rows(self._source, self._namespace)
        except SourceUnavailable as error:
            raise Failure(str(error), exit_codes.UNREADABLE) from None


def _is_named(row: Row, message_id: str) -> bool:
    return bool(
        row["message_id"] == message_id or row["message_uid"] == message_id.lower()
    )


def _shown(row: Row) -> Row:
    at = datetime.fromtimestamp(row["occurred_at"] / 1e6, UTC)
    return {**{name: row[name] for name in COLUMNS}, "occurred_at": at}
