"""Namespaces that are not twinbus are recognized without waiting, and missing
requirements are reported before anything is read or sent."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import azure.servicebus
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from twinbus.spark.connection import SparkConnection
from twinbus.spark.foreign import speaks_amqp_alone
from twinbus.spark.secret import Secret
from twinbus.spark.sink import batch_writer
from twinbus.spark.source import batch_reader, schema_of, stream_reader
from twinbus.spark.vendor_sdk import VendorSdkMissing

from .harness import Namespace


def connection_to(host: str) -> SparkConnection:
    text = f"Endpoint=sb://{host};SharedAccessKeyName=name;SharedAccessKey=key"
    return SparkConnection(secret=Secret(text=f"{text};UseDevelopmentEmulator=true"))


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A peer that says this to the first who comes, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(65_536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def test_the_vendors_hosts_are_known_by_name() -> None:
    # Nothing is there to be asked.
    assert speaks_amqp_alone(connection_to("made-up-1.servicebus.windows.net"))


def test_a_peer_that_begins_with_amqp_is_no_twinbus() -> None:
    with answering(b"AMQP\x00\x01\x00\x00") as host:
        assert speaks_amqp_alone(connection_to(host))


def test_a_peer_that_hangs_up_may_be_one() -> None:
    with answering(b"") as host:
        assert not speaks_amqp_alone(connection_to(host))


def test_a_port_where_nobody_listens_may_be_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert not speaks_amqp_alone(connection_to(f"127.0.0.1:{port}"))


def test_a_twinbus_is_asked_for_more(strict: Namespace) -> None:
    assert not speaks_amqp_alone(
        SparkConnection(secret=Secret(text=strict.bus.connection_string))
    )


def test_an_sdk_that_is_too_old_is_told(
    strict: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict.bus.create_queue("orders")
    monkeypatch.setattr(azure.servicebus, "__version__", "7.14.3")
    options = strict.options("orders")
    schema = schema_of(options)
    with pytest.raises(VendorSdkMissing, match=r"azure-servicebus 7\.14\.3"):
        batch_reader(options, schema).partitions()
    for settlement in ("browse", "defer"):
        reader = stream_reader({**options, "settlement": settlement}, schema)
        with pytest.raises(VendorSdkMissing, match=r"azure-servicebus 7\.14\.3"):
            reader.initialOffset()
    bodies = StructType([StructField("body", StringType())])
    with pytest.raises(VendorSdkMissing, match=r"azure-servicebus 7\.14\.3"):
        batch_writer(
            {"credential": strict.credential, "entity": "orders"}, bodies, False
        )
