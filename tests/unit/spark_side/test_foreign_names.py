"""Options of Kafka and Event Hubs: the error names ours."""

import pytest

from twinbus.spark.connection import CONNECTION_OPTIONS
from twinbus.spark.foreign_names import counterpart
from twinbus.spark.option_reader import OptionError
from twinbus.spark.read_options import READ_OPTIONS, read_options
from twinbus.spark.write_options import WRITE_OPTIONS


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("subscribe", "entities"),
        ("subscribePattern", "entityPattern"),
        ("startingOffsets", "startingPosition"),
        ("startingTimestamp", "startTime"),
        ("endingOffsets", "toSequence"),
        ("maxOffsetsPerTrigger", "maxMessagesPerBatch"),
        ("maxBytesPerTrigger", "maxBytesPerBatch"),
        ("minPartitions", "maxPartitions"),
        ("kafka.bootstrap.servers", "credential"),
        ("kafka.sasl.jaas.config", "credential"),
        ("kafka.group.id", "subscription"),
        ("topic", "entity"),
        ("eventhubs.connectionString", "credential"),
        ("eventhubs.consumerGroup", "subscription"),
        ("eventhubs.startingPosition", "startTime"),
        ("eventhubs.anything", "credential"),
        ("maxEventsPerTrigger", "maxMessagesPerBatch"),
        ("consumerGroup", "subscription"),
        ("queueName", "entities"),
    ],
)
def test_the_error_names_what_to_use(name: str, ours: str) -> None:
    given = {"credential": "env:BUS", "entities": "orders", name: "x"}
    with pytest.raises(OptionError) as refused:
        read_options(given, is_stream=True)
    text = str(refused.value)
    first, _, rest = text.partition(" is not an option of the format servicebus.")
    assert first == f"'{name.lower()}'"
    assert ours in rest.partition(" There are: ")[0]


def test_no_option_of_ours_is_a_foreign_one() -> None:
    for name in ("subject", "body", "maxMesagesPerBatch"):
        assert counterpart(name) is None
    # Known options are never looked up; these two have the same name elsewhere.
    same = {name for name in (*READ_OPTIONS, *WRITE_OPTIONS) if counterpart(name)}
    assert same | {"connectionString"} == {"startingPosition", "connectionString"}
    assert "connectionString" in CONNECTION_OPTIONS
