"""Operations as rows, straight from the log of a store. The bus may run."""

import struct
from collections.abc import Iterator
from typing import Any

from twinbus.broker.operation_record import decode_operations
from twinbus.log_export.blob_source import Blob, BlobSource
from twinbus.log_export.row_maker import RowMaker, block_start
from twinbus.log_files.columns import COLUMNS, empty_columns

Row = dict[str, Any]
"""By the names of columns; `occurred_at` is in microseconds of Unix time."""


def stored_rows(
    source: BlobSource, namespace: str = "", commit_count: int | None = None
) -> Iterator[Row]:
    """Of the last commits, or of all. Raises SourceUnavailable."""
    uuid = source.open()
    try:
        maker = RowMaker(f"store-{uuid.hex()}", uuid, namespace)
        through = source.last_batch()
        first = 0 if commit_count is None else max(0, through - commit_count)
        after = block_start(first) - 1
        while after < through:
            found = source.blobs(after)
            if not found:
                return
            yield from _rows(maker, found)
            after = found[-1][0]
    finally:
        source.close()


def _rows(maker: RowMaker, blobs: list[Blob]) -> Iterator[Row]:
    columns = empty_columns()
    for batch, blob in blobs:
        try:
            maker.append(batch, decode_operations(blob), None, columns)
        except (ValueError, struct.error):
            # `twinbus log export` records it as a gap.
            continue
    names = [name for name, _, _ in COLUMNS]
    for values in zip(*(columns[name] for name in names), strict=True):
        yield dict(zip(names, values, strict=True))
