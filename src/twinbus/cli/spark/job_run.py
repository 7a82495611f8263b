"""Runs a job in Spark: a session, a line of progress, errors as failures."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.spark.session import progress_line, said, started_session
from twinbus.spark.jobs.job_errors import (
    JobError,
    JobRefused,
    NamespaceAway,
    NamespaceRefuses,
)
from twinbus.spark.jobs.lake.errors import LakeDamaged
from twinbus.spark.jobs.meter.price_book import PriceBookError
from twinbus.spark.jobs.segment_files import OperationLogError
from twinbus.spark.plain_error import PlainError

_Summary = TypeVar("_Summary")
_Made = TypeVar("_Made", covariant=True)

Show = Callable[[str, int, int | None], None]
"""Shows a text, how many are done, and of how many."""

_CODES: Mapping[type[Exception], int] = {
    JobRefused: exit_codes.USAGE,
    NamespaceAway: exit_codes.UNREACHABLE,
    NamespaceRefuses: exit_codes.UNAUTHORIZED,
    JobError: exit_codes.FAILED,
    LakeDamaged: exit_codes.DAMAGED,
    PriceBookError: exit_codes.USAGE,
}


class StoppableRun(Protocol[_Made]):
    """A job that may be told to stop."""

    def main(self) -> _Made: ...

    def stop(self) -> None: ...


def run_job(
    name: str,
    master: str,
    conf: Sequence[str],
    job: Callable[[SparkSession, Show], _Summary],
    *,
    is_json: bool,
) -> _Summary:
    """Start Spark, and run a job that is told how to show its steps. Raises Failure."""
    with (
        started_session(f"twinbus {name}", master, conf) as spark,
        progress_line(is_json=is_json) as show,
        _failures(),
    ):
        return job(spark, show)


def run_until_told(run: StoppableRun[_Summary]) -> _Summary:
    """Run it to its end, or until somebody wants it to stop."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: run.stop())
    return run.main()


@contextmanager
def _failures() -> Iterator[None]:
    """Turns errors that end a job into a Failure."""
    try:
        yield
    except OperationLogError as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
    except (PlainError, PriceBookError) as error:
        code = _CODES.get(type(error), exit_codes.FAILED)
        raise Failure(str(error), code) from None
    except (PySparkException, Py4JError) as error:
        raise Failure(f"Spark: {said(error)}", exit_codes.FAILED) from None
