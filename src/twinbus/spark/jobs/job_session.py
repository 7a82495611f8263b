"""Settings of Spark that a job needs while it runs; afterwards they are as before."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHUFFLED_ROWS: Final = 1_000_000
_MOST_PARTITIONS: Final = 200
"""A task for fewer rows costs more than what it does."""


@contextmanager
def job_session(spark: "SparkSession", rows: int) -> Iterator[None]:
    """Hours and texts of times are UTC, wherever the driver is; shuffles have as many
    partitions as the rows are worth; and frames that are kept are computed by code that
    was compiled before.

    For the last one, buckets of tables are off, which logs do not have. With them Spark
    computes each frame that is kept in a copy of the session, and the copy has a class
    loader of its own, for which all code is generated and compiled again.
    """
    partitions = min(max(rows // _SHUFFLED_ROWS, 2), _MOST_PARTITIONS)
    wanted = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is not None:
                spark.conf.set(name, old)
