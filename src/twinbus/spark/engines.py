"""Which engine serves a query: the bulk requests of a twinbus, or the vendor's SDK."""

from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.bulk.snapshot import snapshot
from twinbus.spark.bulk.stream import BulkStream
from twinbus.spark.option_reader import OptionError
from twinbus.spark.packing import Range
from twinbus.spark.read_options import ReadOptions, Settlement
from twinbus.spark.stream_reader import StreamEngine


def stream_engine(options: ReadOptions) -> StreamEngine:
    """Raises OptionError, BulkError."""
    if options.settlement is Settlement.DEFER:
        from twinbus.spark.portable.deferring import DeferringStream

        return DeferringStream(options)
    if _is_twinbus(options):
        return BulkStream(options)
    raise OptionError(
        f"'settlement' is {options.settlement}, which needs a twinbus namespace that "
        "is not strict. Elsewhere use defer."
    )


def batch_ranges(options: ReadOptions) -> list[Range]:
    return snapshot(options)


def _is_twinbus(options: ReadOptions) -> bool:
    client = BulkClient(options.connection, options.patience_ms)
    try:
        return {"lease", "plan", "browse", "settle"} <= client.offered()
    finally:
        client.close()
