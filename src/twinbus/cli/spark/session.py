"""A session of Spark for one command, its errors, and a line of progress."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.spark.environment import settings


@contextmanager
def started_session(
    name: str, master: str, conf: Sequence[str]
) -> Iterator[SparkSession]:
    """A session that ends with the command. Raises Failure."""
    with tempfile.TemporaryDirectory(prefix="twinbus-spark-") as folder:
        builder = SparkSession.builder.master(master).appName(name)
        found = settings(master, conf, Path(folder) / "twinbus-spark.zip")
        for key, value in found.items():
            builder = builder.config(key, value)
        try:
            spark = builder.getOrCreate()
        except (PySparkException, Py4JError, RuntimeError) as error:
            text = f"Spark did not start: {said(error)}"
            raise Failure(text, exit_codes.FAILED) from None
        try:
            yield spark
        finally:
            spark.stop()


def said(error: Exception) -> str:
    """The first line of a long Java error, after the line that names the call."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    is_call = len(lines) > 1 and lines[1].startswith(": ")
    return lines[1].removeprefix(": ") if is_call else lines[0]


@contextmanager
def progress_line(*, is_json: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """A function that shows a text, how many are done, and of how many; it shows
    nothing unless stderr is a terminal."""
    console = Console(stderr=True)
    if is_json or not console.is_terminal:
        yield lambda text, done, total: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda text, done, total: bar.update(
            task, description=text, completed=done, total=total
        )
