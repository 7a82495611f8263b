"""What errors of a namespace, and of Spark, mean for a job."""

import pytest

from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.jobs.job_errors import (
    JobError,
    JobRefused,
    NamespaceAway,
    NamespaceRefuses,
    failure_in_spark,
    namespace_told,
)
from twinbus.spark.secret import SecretError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SecretError("x"), JobRefused),
        (BulkError("x", status=401), NamespaceRefuses),
        (BulkError("x", status=0), NamespaceAway),
        (BulkError("x", status=503), NamespaceAway),
        (BulkError("x", status=409), JobError),
    ],
)
def test_errors_of_a_namespace(error: Exception, kind: type[JobError]) -> None:
    with pytest.raises(kind, match="x"), namespace_told():
        raise error


def test_our_own_error_is_found_in_texts_of_spark() -> None:
    text = (
        "Job aborted.\n  File x\n"
        "twinbus.spark.row_sender.RowsRefused: A row for 'a' was not sent.\n\tat java"
    )
    assert str(failure_in_spark(Exception(text))) == "A row for 'a' was not sent."
    other = failure_in_spark(Exception("a\njava.lang.OutOfMemoryError: heap"))
    assert str(other) == "Spark: java.lang.OutOfMemoryError: heap"
    assert str(failure_in_spark(Exception("plain"))) == "Spark: plain"
