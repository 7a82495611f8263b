"""The log of a store that a bus may be using, as a trace reads it."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.operation_log.stored_rows import Seen, Wanted, stored_rows
from twinbus.cli.tracing.message_trace import COLUMNS, Row
from twinbus.log_export.blob_source import BlobSource, SourceUnavailable
from twinbus.log_files.columns import Columns


@final
class StoredLog:
    """Of one store: what it still has of it."""

    def __init__(self, source: BlobSource, namespace: str, seen: Seen) -> None:
        self._source = source
        self._namespace = namespace
        self._seen = seen

    def uids(self, message_id: str) -> set[str]:
        """Raises Failure."""
        return {
            row["message_uid"]
            for row in self._found(_named(message_id, ()))
            if row["message_uid"] is not None
        }

    def rows(self, message_id: str, uids: Collection[str]) -> list[Row]:
        """Raises Failure."""
        return [_shown(row) for row in self._found(_named(message_id, uids))]

    def gaps(self) -> list[Row]:
        return []

    def _found(self, wanted: Wanted) -> list[Row]:
        try:
            return list(
                stored_rows(
                    self._source, self._namespace, wanted=wanted, seen=self._seen
                )
            )
        except SourceUnavailable as error:
            raise Failure(str(error), exit_codes.UNREADABLE) from None


def _named(message_id: str, uids: Collection[str]) -> Wanted:
    """Rows of messages with this id or uid, and of those with one of these uids."""
    known = {message_id.lower(), *uids}

    def wanted(columns: Columns) -> list[int]:
        both = zip(columns["message_id"], columns["message_uid"], strict=True)
        return [
            at
            for at, (name, uid) in enumerate(both)
            if name == message_id or uid in known
        ]

    return wanted


def _shown(row: Row) -> Row:
    at = datetime.fromtimestamp(row["occurred_at"] / 1e6, UTC)
    return {**{name: row[name] for name in COLUMNS}, "occurred_at": at}
