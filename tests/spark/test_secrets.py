"""A key is in no event log, checkpoint, plan, log, error or page of Spark's UI.

It uses a separate application, so that all its output can be searched.
"""

import os
import pickle
from pathlib import Path

import pytest

from twinbus.spark.source import batch_reader, schema_of
from twinbus.testing import Bus

from .application import Application
from .harness import Namespace

JOB = Path(__file__).with_name("secret_job.py")


def test_no_key_is_left_anywhere(namespace: Namespace, tmp_path: Path) -> None:
    bus = namespace.bus
    ways = [
        f"connectionString={bus.connection_string}",
        "credential=env:BUS_OF_THE_TEST",
        f"credential={namespace.credential}",
    ]
    bus.create_queue("copies")
    for number in range(len(ways)):
        bus.create_queue(f"orders-{number}")
        namespace.send(f"orders-{number}", ["one", "two"])
    folder = tmp_path / "application"
    for part in ("events", "ui"):
        (folder / part).mkdir(parents=True)
    secret = {"BUS_OF_THE_TEST": bus.connection_string}
    application = Application(folder, str(JOB), str(folder), *ways, **secret)
    printed = application.finish()
    assert printed.count("count 2") == len(ways)
    assert printed.count("told:") == 4 * len(ways)
    assert len(namespace.peek("copies")) == 2 * len(ways)
    for number in range(len(ways)):
        assert namespace.peek(f"orders-{number}") == []
    searched = [path for path in folder.rglob("*") if path.is_file()]
    for part in ("events", "checkpoint-0", "ui"):
        assert any(part in path.parts for path in searched)
    # What is searched is what there was to see.
    assert any(b"servicebus" in path.read_bytes() for path in (folder / "ui").iterdir())
    found = [path for path in searched if bus.key.encode() in path.read_bytes()]
    assert found == []


def test_what_travels_to_executors_has_no_key(bus: Bus, tmp_path: Path) -> None:
    bus.create_queue("orders")
    with Namespace(bus, tmp_path) as namespace:
        namespace.send("orders", ["one"])
        options = namespace.options("orders")
        reader = batch_reader(options, schema_of(options))
        parts = reader.partitions()
        assert len(parts) == 1
        pickled = pickle.dumps((reader, parts))
        assert bus.key.encode() not in pickled
        assert bus.key not in repr(parts)
        again, [part] = pickle.loads(pickled)
        assert sum(batch.num_rows for batch in again.read(part)) == 1


def test_a_credential_that_executors_lack_is_told(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.create_queue("orders")
    monkeypatch.setenv("BUS_OF_THE_TEST", bus.connection_string)
    with Namespace(bus, tmp_path) as namespace:
        namespace.send("orders", ["one"])
        options = {"credential": "env:BUS_OF_THE_TEST", "entities": "orders"}
        reader = batch_reader(options, schema_of(options))
        [part] = reader.partitions()
        monkeypatch.delenv("BUS_OF_THE_TEST")
        assert "BUS_OF_THE_TEST" not in os.environ
        with pytest.raises(ValueError, match=r"env:BUS_OF_THE_TEST.*every executor"):
            list(reader.read(part))
