"""Operations as rows, straight from the log of a store. The bus may run.

Rows are made of columns, which are cheap; most of a long log is not looked for, and
costs no more than these.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from twinbus.broker.operation_record import decode_operations
from twinbus.log_export.blob_source import Blob, BlobSource
from twinbus.log_export.row_maker import RowMaker, block_start
from twinbus.log_files.columns import COLUMNS, Columns, empty_columns

Row = dict[str, Any]
"""By the names of columns; `occurred_at` is in microseconds of Unix time."""

Wanted = Callable[[Columns], list[int]]
"""The numbers of the rows that are wanted, of some columns."""

Seen = Callable[[int], None]
"""Is told of so many more commits that were read."""


def stored_rows(
    source: BlobSource,
    namespace: str = "",
    commit_count: int | None = None,
    wanted: Wanted | None = None,
    seen: Seen | None = None,
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
            yield from _rows(maker, found, wanted)
            after = found[-1][0]
            if seen is not None:
                seen(len(found))
    finally:
        source.close()


def _rows(maker: RowMaker, blobs: list[Blob], wanted: Wanted | None) -> Iterator[Row]:
    columns = empty_columns()
    for batch, blob in blobs:
        try:
            maker.append(batch, decode_operations(blob), None, columns)
        except (ValueError, struct.error):
            # `twinbus log export` records it as a gap.
            continue
    names = [name for name, _, _ in COLUMNS]
    values = [columns[name] for name in names]
    count = len(values[0])
    for at in range(count) if wanted is None else wanted(columns):
        yield {name: one[at] for name, one in zip(names, values, strict=True)}
