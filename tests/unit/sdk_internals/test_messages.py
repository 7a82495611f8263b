"""Encoded messages in a batch of the SDK."""

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch

from twinbus.sdk_internals.messages import add_encoded, set_envelope


@pytest.mark.parametrize("body_bytes", [10, 250, 255, 300, 5_000])
def test_an_encoded_message_has_the_size_that_the_sdk_counts(body_bytes: int) -> None:
    counted, added = ServiceBusMessageBatch(), ServiceBusMessageBatch()
    empty_bytes = counted.size_in_bytes
    counted.add_message(ServiceBusMessage(b"x" * body_bytes))
    overhead = 5 if counted.size_in_bytes - empty_bytes - 5 < 256 else 8
    encoded = b"x" * (counted.size_in_bytes - empty_bytes - overhead)
    assert add_encoded(added, encoded, 1_000_000)
    assert (len(added), added.size_in_bytes) == (1, counted.size_in_bytes)


def test_a_message_without_room_leaves_the_batch_as_it_was() -> None:
    batch = ServiceBusMessageBatch()
    before_bytes = batch.size_in_bytes
    assert not add_encoded(batch, b"x" * 100, before_bytes + 100)
    assert (len(batch), batch.size_in_bytes) == (0, before_bytes)


@pytest.mark.parametrize(
    ("message_id", "session_id", "partition_key"),
    [("id", "session", None), ("id", None, "key"), ("id", None, None)],
)
def test_the_envelope_is_that_of_a_batch_which_the_sdk_filled(
    message_id: str, session_id: str | None, partition_key: str | None
) -> None:
    filled, made = ServiceBusMessageBatch(), ServiceBusMessageBatch()
    filled.add_message(
        ServiceBusMessage(
            b"",
            message_id=message_id,
            session_id=session_id,
            partition_key=partition_key,
        )
    )
    add_encoded(made, b"encoded", 1_000)
    set_envelope(made, message_id, session_id, partition_key)
    # Header, annotations and properties; the body comes behind them.
    assert made._message[:5] == filled._message[:5]
