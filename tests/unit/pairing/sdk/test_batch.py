"""A full batch of a paired sender still fits when it is sent."""

import pytest
from azure.servicebus import ServiceBusMessageBatch
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from twinbus.pairing.sdk.batch import PairedMessageBatch
from twinbus.pairing.sdk.messages import outgoing_copy, send_id_of, stamp
from twinbus.sdk_internals.messages import messages_of


def full_batch(assign_message_ids: bool) -> PairedMessageBatch:
    batch = PairedMessageBatch(4_000, assign_message_ids=assign_message_ids)
    with pytest.raises(MessageSizeExceededError):
        while True:
            batch.add_message(AmqpAnnotatedMessage(data_body=b"x" * 20))
    return batch


@pytest.mark.parametrize("assign_message_ids", [True, False])
def test_messages_that_are_stamped_again_fit(assign_message_ids: bool) -> None:
    batch = full_batch(assign_message_ids)
    sent = ServiceBusMessageBatch(batch.max_size_in_bytes)
    for message in messages_of(batch):
        copy = outgoing_copy(message)
        stamp(copy, b"\xff" * 16, "f" * 32 if assign_message_ids else None)
        sent.add_message(copy)
    assert (len(sent), sent.size_in_bytes) == (len(batch), batch.size_in_bytes)


def test_every_message_has_ids_of_its_own() -> None:
    messages = messages_of(full_batch(True))
    assert len({send_id_of(message) for message in messages}) == len(messages)
    assert len({message.message_id for message in messages}) == len(messages)


def test_the_application_keeps_its_own_message() -> None:
    raw = AmqpAnnotatedMessage(data_body=b"x")
    batch = PairedMessageBatch(1_000, assign_message_ids=True)
    batch.add_message(raw)
    assert (raw.properties, raw.annotations) == (None, None)
