"""The connection to a namespace: what it is, trust, time-outs. No Spark."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.free_port import free_port
from twinbus.spark.bulk.client import BulkClient, BulkSettlement, PlanPart
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.connection import SparkConnection
from twinbus.spark.secret import Secret
from twinbus.testing import Bus

ALL = {"append", "browse", "lease", "plan", "runtime", "settle"}


@contextmanager
def client(bus: Bus, *, patience_ms: int = 2_000, **where: str) -> Iterator[BulkClient]:
    secret = Secret(text=bus.connection_string)
    made = BulkClient(SparkConnection(secret=secret, **where), patience_ms)
    try:
        yield made
    finally:
        made.close()


def offered(bus: Bus, **where: str) -> frozenset[str]:
    with client(bus, **where) as made:
        return made.offered()


def test_a_bus_says_what_it_offers(bus: Bus) -> None:
    assert offered(bus) == ALL


def test_a_strict_bus_offers_nothing() -> None:
    with Bus(settings={"strict": True}) as bus:
        assert offered(bus) == frozenset()


@contextmanager
def speaking(greeting: bytes) -> Iterator[str]:
    """Somebody who greets, and hangs up: the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(65536)
                    peer.sendall(greeting)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("greeting", [b"AMQP\x03\x01\x00\x00", b""])
def test_who_speaks_amqp_alone_offers_nothing(bus: Bus, greeting: bytes) -> None:
    with speaking(greeting) as address:
        assert offered(bus, url=address) == frozenset()


def test_who_is_not_there_is_not_taken_for_another_kind(bus: Bus) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(BulkError, match=f"{address} did not answer within 2 s"):
        offered(bus, url=address)


def test_a_wrong_key_is_not_taken_for_another_kind(bus: Bus) -> None:
    text = bus.connection_string.replace(bus.key, "wrong")
    made = BulkClient(SparkConnection(secret=Secret(text=text)), 2_000)
    with pytest.raises(BulkError) as refused:
        made.offered()
    made.close()
    assert refused.value.status == 401


def test_a_certificate_is_trusted_by_its_authority() -> None:
    with Bus(tls=True) as bus:
        address = f"https://localhost:{bus.port}"
        assert offered(bus, url=address, ca_file=str(bus.ca_file)) == ALL
        with pytest.raises(BulkError, match=r"is not trusted: .*'caFile'"):
            offered(bus, url=address)


def test_more_entities_than_a_request_may_name(bus: Bus) -> None:
    """Leases, plans and settlements come in portions."""
    names = [f"q{n}" for n in range(1_050)]
    for name in names:
        bus.create_queue(name)
    with client(bus, patience_ms=60_000) as reader:
        epochs = reader.take("r", 60_000, names)
        assert list(epochs) == names
        assert reader.renew("r", 60_000, epochs) == epochs
        found, missing = reader.runtime([*names, "nowhere"])
        assert [entity.path for entity in found] == names
        assert missing == ["nowhere"]
        assert {entity.fragments[0].lease_reader for entity in found} == {"r"}
        parts = [
            PlanPart(path=entity.path, generation=entity.generation, firsts={})
            for entity in found
        ]
        assert [part.path for part in reader.plan(parts, max_messages=5)] == names
        with pytest.raises(BulkError, match="'alignment'"):
            reader.plan(parts, is_aligned=True)
        verdicts = [
            BulkSettlement(path=path, epoch=epoch, ends={0: 1})
            for path, epoch in epochs.items()
        ]
        assert reader.settle("r", verdicts) == 0
        reader.release("r", epochs)
        found, _ = reader.runtime(names)
        assert {entity.fragments[0].lease_reader for entity in found} == {None}
