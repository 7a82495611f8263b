"""`spark.read`: reads the messages that are there when the query is planned."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from twinbus.spark.plain_error import each_plainly, plainly
from twinbus.spark.pushed_filters import push
from twinbus.spark.ranges_read import RangePartition
from twinbus.spark.read_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa


class ServiceBusReader(DataSourceReader):
    """Planned in the driver, read in executors; settles nothing."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        from twinbus.spark.engines import batch_partitions

        return batch_partitions(self._options)

    @each_plainly
    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        # Without any partition Spark asks for one that is none.
        if isinstance(partition, RangePartition):
            yield from partition.read()


class FilteringReader(ServiceBusReader):
    """The same, with filters of the query. A class of its own: Spark refuses a reader
    that takes filters while its setting for them is off."""

    @plainly
    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        self._options, left = push(self._options, filters)
        return left
