"""Spark for the benches: all cores of this machine, in one JVM with a small heap."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from bench.load_client import Target
from bench.processes import tree
from twinbus.client.connection_string import ConnectionString
from twinbus.spark.session_settings import SESSION_SETTINGS

HEAP = "1g"


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session with folders of its own, from its start to its end."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        builder = SparkSession.builder.master("local[*]")
        for name, value in SESSION_SETTINGS.items():
            builder = builder.config(name, value)
        session = (
            builder.appName("bench")
            .config("spark.driver.memory", HEAP)
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.local.dir", folder)
            .config("spark.sql.warehouse.dir", str(Path(folder) / "warehouse"))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def credential(text: str) -> Iterator[str]:
    """A file with a connection string, as the format is told of it. The JVM has been
    started before, so that a variable would not reach its workers."""
    with tempfile.NamedTemporaryFile("w", prefix="bench-credential-") as file:
        file.write(text)
        file.flush()
        yield f"file:{file.name}"


def connection_string(target: Target) -> str:
    return ConnectionString(
        host="localhost",
        port=target.port,
        is_tls=False,
        key_name=target.user,
        key=target.password,
    ).reveal()


def spark_processes() -> tuple[int, list[int]]:
    """The JVM that this process has started, and the Pythons below it."""
    for pid in tree(os.getpid()):
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except FileNotFoundError:
            continue
        if name == "java":
            return pid, tree(pid)[1:]
    raise RuntimeError("there is no JVM")
