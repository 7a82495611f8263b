"""SB-Q-1xx: sending to a queue, one by one and in batches, up to the size limits."""

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from .sdk import receive, receive_one, text_of, texts_of
from .setups import in_order, mixed_batch, own_numbers

# Encoding of one data section over 255 bytes: descriptor 00 53 75, constructor b0 and a
# four-byte length. The SDK adds nothing else to a bare AMQP message.
DATA_SECTION_OVERHEAD_BYTES = 8


def test_sent_message_is_received(sdk, queue):
    """SB-Q-101 send one message and receive it."""
    sdk.sender(queue).send_messages(ServiceBusMessage("hello"))
    assert text_of(receive_one(sdk.receiver(queue))) == "hello"


@in_order
def test_messages_of_one_sender_arrive_in_order(sdk, queue):
    """SB-Q-102 send several messages one after the other: order is kept."""
    sender = sdk.sender(queue)
    for number in range(5):
        sender.send_messages(ServiceBusMessage(f"m{number}"))
    messages = receive(sdk.receiver(queue), 5)
    assert texts_of(messages) == ["m0", "m1", "m2", "m3", "m4"]


def test_list_of_messages_is_sent_as_one_batch(sdk, queue):
    """SB-Q-103 send a list: all arrive, in order, each with its own properties."""
    batch = [ServiceBusMessage(f"m{n}", message_id=f"id{n}") for n in range(20)]
    sdk.sender(queue).send_messages(batch)
    messages = receive(sdk.receiver(queue), 20)
    assert texts_of(messages) == [f"m{n}" for n in range(20)]
    assert [m.message_id for m in messages] == [f"id{n}" for n in range(20)]


def test_batch_object_is_sent(sdk, queue):
    """SB-Q-104 send a `ServiceBusMessageBatch`."""
    sender = sdk.sender(queue)
    batch = sender.create_message_batch()
    for number in range(3):
        batch.add_message(ServiceBusMessage(f"b{number}", subject="in a batch"))
    sender.send_messages(batch)
    messages = receive(sdk.receiver(queue), 3)
    assert texts_of(messages) == ["b0", "b1", "b2"]
    assert {m.subject for m in messages} == {"in a batch"}


@mixed_batch
def test_batch_envelope_leaves_no_trace_on_other_messages(sdk, queue):
    """SB-Q-105 the envelope repeats the first message's id and key; only its own."""
    first = ServiceBusMessage("first", message_id="only-first", partition_key="pk")
    bare = AmqpAnnotatedMessage(data_body=b"second")
    sdk.sender(queue).send_messages([first, bare])
    one, two = receive(sdk.receiver(queue), 2)
    assert (one.message_id, one.partition_key) == ("only-first", "pk")
    assert two.message_id not in (None, "only-first")
    assert two.partition_key is None


def test_empty_list_sends_nothing(sdk, queue):
    """SB-Q-106 an empty list and an empty batch are accepted and send nothing."""
    sender = sdk.sender(queue)
    sender.send_messages([])
    sender.send_messages(sender.create_message_batch())
    assert sdk.receiver(queue).peek_messages() == []


def test_message_that_does_not_fit_the_batch_is_refused(sdk, queue):
    """SB-Q-107 adding beyond the batch's size raises; the rest can still be sent."""
    sender = sdk.sender(queue)
    batch = sender.create_message_batch(max_size_in_bytes=1000)
    batch.add_message(ServiceBusMessage("fits"))
    with pytest.raises(MessageSizeExceededError):
        batch.add_message(ServiceBusMessage("x" * 1000))
    sender.send_messages(batch)
    assert texts_of(sdk.receiver(queue).peek_messages(5)) == ["fits"]


def test_batch_limit_is_announced_by_the_bus(sdk, queue):
    """SB-Q-108 the batch limit is that of the link, and asking for more raises."""
    sender = sdk.sender(queue)
    limit = sender.create_message_batch().max_size_in_bytes
    assert limit >= 256 * 1024
    with pytest.raises(ValueError, match="too large"):
        sender.create_message_batch(max_size_in_bytes=limit + 1)


def test_list_over_the_batch_limit_is_refused(sdk, queue):
    """SB-Q-109 a list that does not fit one batch raises and sends nothing."""
    sender = sdk.sender(queue)
    limit = sender.create_message_batch().max_size_in_bytes
    half = ServiceBusMessage(b"x" * (limit // 2))
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages([half, half, half])
    assert sdk.receiver(queue).peek_messages() == []


def test_full_batch_is_accepted(sdk, queue):
    """SB-Q-110 a batch filled up to its limit is accepted as a whole."""
    sender = sdk.sender(queue)
    batch = sender.create_message_batch()
    added = 0
    try:
        while True:
            batch.add_message(ServiceBusMessage(b"x" * 4000))
            added += 1
    except MessageSizeExceededError:
        pass
    sender.send_messages(batch)
    assert len(receive(sdk.receiver(queue), added)) == added


def test_full_batch_of_messages_with_ids_is_accepted(sdk, queue):
    """SB-Q-110 the SDK copies ids into the envelope, and does not count them."""
    sender = sdk.sender(queue)
    batch = sender.create_message_batch()
    with pytest.raises(MessageSizeExceededError):
        while True:
            name = f"{len(batch):0128}"
            batch.add_message(ServiceBusMessage("x" * 1_000, message_id=name))
    while True:
        try:
            batch.add_message(ServiceBusMessage("x", message_id=f"{len(batch):0128}"))
        except MessageSizeExceededError:
            break
    sender.send_messages(batch)
    assert len(receive(sdk.receiver(queue), len(batch))) == len(batch)


def test_message_at_the_size_limit_is_accepted(sdk, queue):
    """SB-Q-111 a message of exactly the link's max-message-size is stored."""
    sender = sdk.sender(queue)
    size = _limit_of(sender) - DATA_SECTION_OVERHEAD_BYTES
    sender.send_messages(AmqpAnnotatedMessage(data_body=b"x" * size))
    message = receive_one(sdk.receiver(queue))
    assert b"".join(message.body) == b"x" * size


def test_message_over_the_size_limit_is_refused(sdk, queue):
    """SB-Q-112 one byte more raises `MessageSizeExceededError`; the link lives on."""
    sender = sdk.sender(queue)
    size = _limit_of(sender) - DATA_SECTION_OVERHEAD_BYTES + 1
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages(AmqpAnnotatedMessage(data_body=b"x" * size))
    sender.send_messages(ServiceBusMessage("after"))
    assert texts_of(sdk.receiver(queue).peek_messages(5)) == ["after"]


@own_numbers
def test_sequence_numbers_start_at_one_without_gaps(sdk, queue):
    """SB-Q-113 sequence numbers of a new queue are 1, 2, 3, over sends and batches."""
    sender = sdk.sender(queue)
    sender.send_messages(ServiceBusMessage("a"))
    sender.send_messages([ServiceBusMessage("b"), ServiceBusMessage("c")])
    sender.send_messages(ServiceBusMessage("d"))
    numbers = [m.sequence_number for m in receive(sdk.receiver(queue), 4)]
    assert numbers == [1, 2, 3, 4]


@own_numbers
def test_sequence_numbers_are_not_used_again(sdk, queue):
    """SB-Q-114 a number of a completed message is never given out again."""
    sender, receiver = sdk.sender(queue), sdk.receiver(queue)
    sender.send_messages(ServiceBusMessage("a"))
    receiver.complete_message(receive_one(receiver))
    sender.send_messages(ServiceBusMessage("b"))
    assert receive_one(receiver).sequence_number == 2


@in_order
def test_two_senders_share_a_queue(sdk, queue):
    """SB-Q-115 messages of two senders all arrive, each sender's in its order."""
    left, right = sdk.sender(queue), sdk.sender(queue)
    for number in range(3):
        left.send_messages(ServiceBusMessage(f"left{number}"))
        right.send_messages(ServiceBusMessage(f"right{number}"))
    texts = texts_of(receive(sdk.receiver(queue), 6))
    assert [t for t in texts if t.startswith("left")] == ["left0", "left1", "left2"]
    assert len(set(texts)) == 6


def test_many_small_messages_keep_the_link_in_credit(sdk, queue):
    """SB-Q-116 one sender sends more messages than one grant of credit covers."""
    sender = sdk.sender(queue)
    for _ in range(30):
        sender.send_messages([ServiceBusMessage("x") for _ in range(50)])
    receiver = sdk.receiver(queue, prefetch_count=500)
    assert len(receive(receiver, 1500)) == 1500


def _limit_of(sender) -> int:
    """The max-message-size of the attach; the SDK keeps it in a private place."""
    return sender._max_message_size_on_link
