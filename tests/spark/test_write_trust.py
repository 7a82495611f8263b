"""S1: writing to a bus whose certificate an authority of one's own has signed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from twinbus.spark.option_reader import OptionError
from twinbus.spark.sink import batch_writer
from twinbus.testing import Bus

from .harness import Namespace
from .writing import refusal, rows, write


@pytest.fixture(params=[False, True], ids=["twinbus", "strict"])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Namespace]:
    """Reached by bulk requests, and by the SDK."""
    with (
        Bus(tls=True, settings={"strict": request.param}) as bus,
        Namespace(bus, tmp_path) as made,
    ):
        bus.create_queue("orders")
        # Without the sign of those who speak in the clear.
        text = bus.connection_string.replace(";UseDevelopmentEmulator=true", "")
        made.secret_file.write_text(text)
        yield made


def test_rows_go_to_a_bus_that_is_trusted(
    spark: SparkSession, secured: Namespace
) -> None:
    frame = rows(spark, [("a",), ("b",)], "body string")
    write(secured, frame, entity="orders", caFile=secured.bus.ca_file)
    found = secured.read(spark, "orders", caFile=secured.bus.ca_file).collect()
    assert sorted(row.body for row in found) == [b"a", b"b"]


def test_rows_do_not_go_to_a_bus_that_is_not(
    spark: SparkSession, secured: Namespace
) -> None:
    frame = rows(spark, [("a",)], "body string")
    text = refusal(secured, frame, entity="orders", timeout="5s")
    assert "is not trusted" in text and "'caFile'" in text


def test_an_executor_without_the_authorities_says_so(
    secured: Namespace, tmp_path: Path
) -> None:
    ca_file = tmp_path / "authorities.pem"
    shutil.copy(secured.bus.ca_file, ca_file)
    options = {"credential": secured.credential, "caFile": str(ca_file)}
    bodies = StructType([StructField("body", StringType())])
    writer = batch_writer({**options, "entity": "orders"}, bodies, False)
    ca_file.unlink()
    with pytest.raises(OptionError, match=r"'caFile' is .*on this host.*executor"):
        writer.write(iter([pa.record_batch([["a"]], names=["body"])]))
