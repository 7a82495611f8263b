"""Which engine serves a query: the bulk requests of a twinbus, or the vendor's SDK.

A namespace that is not twinbus, or is a strict one, is asked over AMQP only. The SDK is
imported only then.
"""

from pyspark.sql.datasource import InputPartition

from twinbus.spark.bulk.snapshot import snapshot
from twinbus.spark.bulk.stream import BulkStream
from twinbus.spark.foreign import offered_by
from twinbus.spark.option_reader import OptionError
from twinbus.spark.positioned_stream import PositionedStream, partitions_of
from twinbus.spark.ranges_read import RangePartition
from twinbus.spark.read_options import ReadOptions, StreamSettlement
from twinbus.spark.stream_reader import StreamEngine
from twinbus.spark.vendor_sdk import require_sdk


def stream_engine(options: ReadOptions) -> StreamEngine:
    """Raises OptionError, SdkMissing, BulkError, PortableError."""
    if options.settlement is StreamSettlement.DEFER:
        require_sdk()
        from twinbus.spark.portable.deferring import DeferringStream

        return DeferringStream(options)
    if _is_twinbus(options):
        return PositionedStream(options, BulkStream(options), RangePartition)
    if options.settlement is StreamSettlement.EXCLUSIVE:
        raise OptionError(
            "'settlement' is exclusive, which needs a twinbus namespace that is not "
            "strict: no other can keep messages for one reader. Use defer, which "
            "settles what was processed in any namespace."
        )
    require_sdk()
    from twinbus.spark.portable.browsing import BrowsingStream
    from twinbus.spark.portable.peeked_ranges import PeekPartition

    return PositionedStream(options, BrowsingStream(options), PeekPartition)


def batch_partitions(options: ReadOptions) -> list[InputPartition]:
    """Everything that is there now. Raises SdkMissing, BulkError, PortableError."""
    if not options.states or options.sessions == ():
        # A query asks for what cannot be.
        return []
    if _is_twinbus(options):
        ranges, age = snapshot(options)
        return partitions_of(options, ranges, options.states, RangePartition, age)
    require_sdk()
    from twinbus.spark.portable.browsing import present_ranges
    from twinbus.spark.portable.peeked_ranges import PeekPartition

    ranges = present_ranges(options)
    return partitions_of(options, ranges, options.states, PeekPartition)


def _is_twinbus(options: ReadOptions) -> bool:
    offered = offered_by(options.connection, options.patience_ms)
    return {"lease", "plan", "browse", "settle"} <= offered
