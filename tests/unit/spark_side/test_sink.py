"""The end of a write: it is reported, and does nothing else."""

import logging
import pickle

import pytest
from pyspark.sql.datasource import WriterCommitMessage

from twinbus.spark.sink import ServiceBusStreamWriter, ServiceBusWriter, Written
from twinbus.spark.write_options import write_options
from twinbus.spark.write_plan import WritePlan

from .ddl import schema_of

MESSAGES: list[WriterCommitMessage | None] = [
    Written(sent_count=3, known_count=1),
    None,
    Written(sent_count=0, known_count=5),
]


@pytest.fixture
def plan() -> WritePlan:
    secret = "Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey=the-key"
    options = {"connectionString": secret, "entity": "orders"}
    checked = write_options(options, schema_of("body string"), overwrite=False)
    return WritePlan(options=checked, is_twinbus=True)


def test_a_commit_tells_what_was_sent_however_often_it_comes(
    plan: WritePlan, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(2):
        ServiceBusWriter(plan).commit(MESSAGES)
        ServiceBusStreamWriter(plan).commit(MESSAGES, 7)
    told = "3 rows were sent, 6 had been sent before."
    assert caplog.messages == [told, f"Batch 7: {told}"] * 2


def test_an_abort_says_that_nothing_is_taken_back(
    plan: WritePlan, caplog: pytest.LogCaptureFixture
) -> None:
    ServiceBusWriter(plan).abort([None])
    ServiceBusStreamWriter(plan).abort(MESSAGES, 7)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert all("what was sent stays sent" in text for text in caplog.messages)


def test_a_task_without_rows_connects_to_nobody(plan: WritePlan) -> None:
    assert ServiceBusWriter(plan).write(iter([])) == Written(
        sent_count=0, known_count=0
    )


def test_what_travels_shows_no_secret(plan: WritePlan) -> None:
    writer = pickle.loads(pickle.dumps(ServiceBusWriter(plan)))
    assert "the-key" not in repr(vars(writer))
