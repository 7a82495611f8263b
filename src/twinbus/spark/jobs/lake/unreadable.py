"""Files of a lake that Spark cannot read, told as an error of the lake."""

from collections.abc import Iterator
from contextlib import contextmanager

from twinbus.spark.jobs.lake.errors import LakeDamaged
from twinbus.spark.jobs.lake.lake import Lake


@contextmanager
def unreadable_told(lake: Lake, outcome: str) -> Iterator[None]:
    """Raises LakeDamaged instead of an error of Spark. `outcome`: what was not done."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        first = str(error).strip().splitlines()[0]
        raise LakeDamaged(
            f"{lake.folder.name}: a file cannot be read: {first} Restore it from a "
            f"copy of the lake. {outcome}"
        ) from None
