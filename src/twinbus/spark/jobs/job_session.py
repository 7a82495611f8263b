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
    """Hours and texts of times are UTC, wherever the driver is; and shuffles have as
    many partitions as the rows are worth."""
    partitions = min(max(rows // _SHUFFLED_ROWS, 2), _MOST_PARTITIONS)
    wanted = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(partitions),
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
