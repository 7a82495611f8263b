"""S1: writing to a bus whose certificate was signed by a private authority.

Without Spark: the test makes Spark's calls.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from azure.servicebus._pyamqp import _connection
from pyspark.sql.types import StringType, StructField, StructType

from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.option_reader import OptionError
from twinbus.spark.sink import ServiceBusWriter, Written, batch_writer
from twinbus.spark.source import batch_reader, schema_of
from twinbus.testing import Bus

from .harness import Namespace

BODIES = StructType([StructField("body", StringType())])


@pytest.fixture(params=[False, True], ids=["twinbus", "strict"])
def secured(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Namespace]:
    """Reached by bulk requests, and by the SDK."""
    with (
        Bus(tls=True, settings={"strict": request.param}) as bus,
        Namespace(bus, tmp_path) as made,
    ):
        bus.create_queue("orders")
        # Without the sign of those who speak in the clear.
        text = bus.connection_string.replace(";UseDevelopmentEmulator=true", "")
        made.secret_file.write_text(text)
        # The SDK knows one port for TLS, whatever a connection string says.
        monkeypatch.setattr(_connection, "SECURE_PORT", bus.port)
        yield made


def writer(namespace: Namespace, **options: str) -> ServiceBusWriter:
    given = {"credential": namespace.credential, "entity": "orders", "timeout": "30s"}
    return batch_writer({**given, **options}, BODIES, False)


def written(made: ServiceBusWriter, *bodies: str) -> Written:
    return made.write(iter([pa.record_batch([list(bodies)], names=["body"])]))


def test_rows_go_to_a_bus_that_is_trusted(secured: Namespace) -> None:
    ca_file = str(secured.bus.ca_file)
    sent = written(writer(secured, caFile=ca_file), "a", "b")
    assert sent == Written(sent_count=2, known_count=0)
    options = secured.options("orders", caFile=ca_file, timeout="30s")
    reader = batch_reader(options, schema_of(options))
    found = [
        row["body"]
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]
    assert found == [b"a", b"b"]


def test_rows_do_not_go_to_a_bus_that_is_not(secured: Namespace) -> None:
    with pytest.raises(BulkError, match=r"is not trusted: .*'caFile'"):
        writer(secured)


def test_an_executor_without_the_authorities_says_so(
    secured: Namespace, tmp_path: Path
) -> None:
    ca_file = tmp_path / "authorities.pem"
    shutil.copy(secured.bus.ca_file, ca_file)
    planned = writer(secured, caFile=str(ca_file))
    ca_file.unlink()
    with pytest.raises(OptionError, match=r"'caFile' is .*on this host.*executor"):
        written(planned, "a")
