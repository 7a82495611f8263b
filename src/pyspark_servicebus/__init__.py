"""The Spark format `servicebus`.

Spark imports every module whose name begins with `pyspark_` when it looks for a format,
in every worker. If one of them fails, no other format is found either. So this module
has only the name of the format; everything else is imported when it is used.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Queues, subscriptions and dead-letter queues as DataFrames, and back."""

    @classmethod
    def name(cls) -> str:
        return "servicebus"

    def schema(self) -> StructType:
        from twinbus.spark.source import schema_of

        return schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from twinbus.spark.source import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from twinbus.spark.source import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from twinbus.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from twinbus.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
