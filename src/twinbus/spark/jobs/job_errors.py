"""Errors that end a job, and what errors of a namespace mean for it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.plain_error import PlainError
from twinbus.spark.secret import SecretError


class JobError(PlainError):
    """The job cannot go on; the text says why, and what to do."""


class JobRefused(JobError):
    """What was asked for makes no sense, or is not allowed; nothing was done."""


class NamespaceAway(JobError):
    """The namespace does not answer."""


class NamespaceRefuses(JobError):
    """The namespace answers, and refuses the key."""


@contextmanager
def namespace_told() -> Iterator[None]:
    """Turns errors of the namespace into errors of the job."""
    try:
        yield
    except SecretError as error:
        raise JobRefused(str(error)) from None
    except BulkError as error:
        raise job_error_of(error) from None


def job_error_of(error: BulkError) -> JobError:
    if error.status in (401, 403):
        return NamespaceRefuses(str(error))
    if error.status == 0 or error.status >= 500:
        return NamespaceAway(f"The namespace cannot be reached: {error}")
    return JobError(str(error))


_OURS: Final = re.compile(
    r"^\s*(?:pyspark\S*: )?twinbus\.(?:\w+\.)*(\w+): (.+)", re.MULTILINE
)
_ANY: Final = re.compile(r"^\s*(?:\w+\.)*\w*(?:Error|Exception|Loss): .+", re.MULTILINE)


def failure_in_spark(error: Exception) -> JobError:
    """An error of ours that Spark tells as a text in a text, or its own."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return JobError(ours[-1][1].strip())
    named = _ANY.findall(text)
    line = named[-1].strip() if named else (text.strip() or type(error).__name__)
    return JobError(f"Spark: {line.splitlines()[0]}")
