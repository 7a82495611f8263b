"""A key is in no event log, checkpoint, plan, log or error.

In an application of its own, so that all that it writes can be searched.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from crash.server_process import environment

from twinbus.spark.source import batch_reader, schema_of
from twinbus.testing import Bus

from .harness import Namespace

APPLICATION = dedent(
    """
    import sys
    from pathlib import Path
    from pyspark.sql import SparkSession

    folder, name, value = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", (folder / "events").as_uri())
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("DEBUG")
    options = {name: value, "entities": "orders"}
    found = spark.read.format("servicebus").options(**options).load()
    found.explain("formatted")
    found.explain(True)
    print("count", found.count())
    query = (
        spark.readStream.format("servicebus")
        .options(settlement="exclusive", **options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    query.explain(True)
    print(query.lastProgress, query.recentProgress)
    for wrong in (
        {"entities": "nowhere"},
        {"maxPartitions": "x"},
        {"connectionStrin": value},
        {"namespace": "http://127.0.0.1:1", "timeout": "1s"},
    ):
        try:
            reading = spark.read.format("servicebus").options(**{**options, **wrong})
            reading.load().count()
        except Exception as error:
            print("told:", error)
    spark.stop()
    """
)


@pytest.mark.parametrize("way", ["connectionString", "env", "file"])
def test_no_key_is_left_anywhere(
    namespace: Namespace, tmp_path: Path, way: str
) -> None:
    bus = namespace.bus
    bus.create_queue("orders")
    namespace.send("orders", ["one", "two"])
    folder = tmp_path / "application"
    (folder / "events").mkdir(parents=True)
    given = {
        "connectionString": ("connectionString", bus.connection_string),
        "env": ("credential", "env:BUS_OF_THE_TEST"),
        "file": ("credential", namespace.credential),
    }[way]
    env = {**environment(), "PYSPARK_PYTHON": sys.executable}
    if way == "env":
        env["BUS_OF_THE_TEST"] = bus.connection_string
    with (folder / "log").open("w") as log:
        subprocess.run(
            [sys.executable, "-c", APPLICATION, str(folder), *given],
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=True,
            timeout=300,
            cwd=folder,
        )
    log_text = (folder / "log").read_text()
    assert "count 2" in log_text
    assert log_text.count("told:") == 4
    assert namespace.peek("orders") == []
    searched = [path for path in folder.rglob("*") if path.is_file()]
    assert any("events" in path.parts for path in searched)
    assert any("checkpoint" in path.parts for path in searched)
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
