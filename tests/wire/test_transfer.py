"""SB-W-4xx: transfers to the bus: settled or not, of many frames, batches, credit."""

import pytest

from .codec import Timestamp, Uint
from .frames import ACCEPTED, DISPOSITION, RECEIVER, REJECTED, TRANSFER
from .management import Management
from .message import (
    BATCH_FORMAT,
    DATA,
    batch,
    data_message,
    expiring_message,
    scheduled_message,
    section,
)


@pytest.fixture
def management(peer, queue):
    """The `$management` node of the queue."""
    return Management(peer, queue)


def test_unsettled_transfer_is_accepted_and_settled(peer, queue):
    """SB-W-401 disposition of role receiver, settled, state accepted."""
    sender = peer.sender(queue)
    assert sender.outcome_of(sender.post(data_message("x"))) == (ACCEPTED, None)


def test_pre_settled_transfer_gets_no_disposition(peer, queue, management):
    """SB-W-402 a settled transfer is stored, and nothing is said about it."""
    sender = peer.sender(queue)
    sender.post(data_message("quiet"), settled=True)
    # The answer to a later transfer shows that the first one was processed.
    loud = sender.post(data_message("loud"))
    sender.outcome_of(loud)
    answered = [
        frame
        for frame in peer.frames
        if frame.code == DISPOSITION and frame.role is RECEIVER
    ]
    assert all(int(frame.first) >= loud for frame in answered)
    assert management.peek_texts() == ["quiet", "loud"]


def test_many_transfers_at_once_are_all_accepted(peer, queue):
    """SB-W-403 transfers sent without waiting; dispositions may cover ranges."""
    sender = peer.sender(queue)
    deliveries = [sender.post(data_message(str(n))) for n in range(50)]
    assert {sender.outcome_of(one) for one in deliveries} == {(ACCEPTED, None)}
    got = [delivery.message.text for delivery in peer.receiver(queue).take(50)]
    assert got == [str(n) for n in range(50)]


def test_credit_is_topped_up_over_thousands_of_sends(peer, queue):
    """SB-W-404 a sender that uses up all of its credit always gets more."""
    sender = peer.sender(queue)
    deliveries = [sender.post(data_message("x" * 64)) for _ in range(5200)]
    assert sender.outcome_of(deliveries[-1]) == (ACCEPTED, None)
    settled = set()
    for frame in peer.frames:
        if frame.code == DISPOSITION and frame.role is RECEIVER:
            assert frame.state.descriptor == ACCEPTED
            last = frame.first if frame.last is None else frame.last
            settled.update(range(int(frame.first), int(last) + 1))
    assert settled >= set(deliveries)


def test_message_of_many_frames_is_put_together(peer, queue):
    """SB-W-405 200 KB in frames of the bus's size, only the first with an id."""
    body = bytes(range(256)) * 800
    peer.sender(queue).send(data_message(body))
    (delivery,) = peer.receiver(queue).take()
    assert delivery.message.body == [(DATA, body)]


def test_message_in_tiny_frames_is_put_together(peer, queue):
    """SB-W-406 a message cut at every few bytes, sections in the middle included."""
    sender = peer.sender(queue)
    payload = data_message("x" * 300, properties={"message_id": "cut"})
    peer.max_frame_size = 64 + 7
    sender.send(payload)
    (delivery,) = peer.receiver(queue).take()
    assert delivery.message.properties["message_id"] == "cut"
    assert delivery.message.text == "x" * 300


def test_delivery_id_may_be_repeated_on_every_frame(peer, queue):
    """SB-W-407 Python repeats id, tag and format on each frame of a message."""
    sender = peer.sender(queue)
    payload = data_message("y" * 1000)
    head = [Uint(sender.handle), Uint(0), b"tag", Uint(0), False]
    peer.send(TRANSFER, [*head, True], payload[:500])
    peer.send(TRANSFER, [*head, False], payload[500:])
    assert sender.outcome_of(0) == (ACCEPTED, None)
    (delivery,) = peer.receiver(queue).take()
    assert delivery.message.text == "y" * 1000


def test_aborted_delivery_is_forgotten(peer, queue, management):
    """SB-W-408 a delivery aborted between its frames leaves nothing behind."""
    sender = peer.sender(queue)
    start = peer.next_delivery_id
    head = [Uint(sender.handle), Uint(start), b"tag", Uint(0), False]
    peer.send(TRANSFER, [*head, True], data_message("gone")[:5])
    aborted = [Uint(sender.handle), None, None, None, None, False]
    peer.send(TRANSFER, [*aborted, None, None, None, True])
    peer.next_delivery_id += 1
    peer.next_outgoing_id += 2
    sender.send(data_message("stays"))
    assert management.peek_texts() == ["stays"]


def test_message_at_the_limit_is_accepted_and_over_it_rejected(peer, queue):
    """SB-W-409 the limit is the max-message-size of the attach, to the byte."""
    sender = peer.sender(queue)
    limit = int(sender.attached.max_message_size)
    overhead = len(data_message(b"x" * 1000)) - 1000
    sender.send(data_message(b"x" * (limit - overhead)))
    over = sender.post(data_message(b"x" * (limit - overhead + 1)))
    code, error = sender.outcome_of(over)
    assert (code, error.condition) == (REJECTED, "amqp:link:message-size-exceeded")
    sender.send(data_message("the link lives on"))


@pytest.mark.parametrize(
    "garbage",
    [b"\xff\xff\xff", b"\x00", b"\x00\x53\x73\xc0\xff\x0d", b"\x00\x53\x72\xc1\xff"],
    ids=["noise", "cut", "properties", "annotations"],
)
def test_malformed_message_is_rejected(peer, queue, management, garbage):
    """SB-W-410 bytes that are no message, or end within a section, are rejected."""
    sender = peer.sender(queue)
    code, error = sender.outcome_of(sender.post(garbage))
    assert code == REJECTED
    assert error.condition.startswith(("amqp:", "com.microsoft:"))
    assert management.peek_texts() == []


def test_batch_becomes_its_messages(peer, queue):
    """SB-W-411 the envelope is opened: N messages in order, numbered 1 to N."""
    inner = [data_message(f"m{n}", properties={"message_id": f"{n}"}) for n in range(5)]
    peer.sender(queue).send(batch(*inner), form=BATCH_FORMAT)
    messages = [delivery.message for delivery in peer.receiver(queue).take(5)]
    assert [m.text for m in messages] == [f"m{n}" for n in range(5)]
    assert [m.properties["message_id"] for m in messages] == list("01234")
    assert [m.sequence_number for m in messages] == [1, 2, 3, 4, 5]


def test_batch_gets_one_disposition(peer, queue):
    """SB-W-412 the batch is one delivery: one credit, one disposition."""
    sender = peer.sender(queue)
    credit = sender.credit
    delivery_id = sender.post(batch(*[data_message("x")] * 3), form=BATCH_FORMAT)
    assert sender.outcome_of(delivery_id) == (ACCEPTED, None)
    assert sender.credit >= credit - 1


def test_batch_with_a_broken_member_is_refused_as_a_whole(peer, queue, management):
    """SB-W-413 all or nothing: a bad second message keeps the first one out too."""
    sender = peer.sender(queue)
    envelope = batch(data_message("good"), b"\xff\xff\xff", data_message("good too"))
    code, _ = sender.outcome_of(sender.post(envelope, form=BATCH_FORMAT))
    assert code == REJECTED
    assert management.peek_texts() == []


def test_envelope_properties_are_not_message_data(peer, queue):
    """SB-W-414 what the envelope repeats of the first message stays with it alone."""
    inner = batch(data_message("a"), data_message("b"))
    head = data_message("", properties={"message_id": "env"})
    envelope = head[: -len(section(DATA, b""))] + inner
    peer.sender(queue).send(envelope, form=BATCH_FORMAT)
    messages = [delivery.message for delivery in peer.receiver(queue).take(2)]
    assert [m.text for m in messages] == ["a", "b"]
    assert "env" not in [m.properties["message_id"] for m in messages]


def test_members_with_an_empty_header_are_accepted(peer, queue):
    """SB-W-415 `00 53 70 45` as header of a member, and members without one."""
    empty_header = b"\x00\x53\x70\x45"
    envelope = batch(empty_header + data_message("a"), data_message("b"))
    peer.sender(queue).send(envelope, form=BATCH_FORMAT)
    got = [delivery.message.text for delivery in peer.receiver(queue).take(2)]
    assert got == ["a", "b"]


def test_several_data_sections_without_the_batch_format_are_one_message(peer, queue):
    """SB-W-416 format 0 with several data sections is a normal message."""
    peer.sender(queue).send(section(DATA, b"one") + section(DATA, b"two"))
    (delivery,) = peer.receiver(queue).take()
    assert delivery.message.body == [(DATA, b"one"), (DATA, b"two")]


def test_header_ttl_wins_over_absolute_expiry(bus, peer, queue):
    """SB-W-417 an absolute expiry in the past does not matter where a ttl is set."""
    past = Timestamp(int(bus.now().timestamp() * 1000) - 3_600_000)
    peer.sender(queue).send(
        data_message(
            "alive",
            header={"ttl": Uint(60_000)},
            properties={"absolute_expiry_time": past},
        )
    )
    (delivery,) = peer.receiver(queue).take()
    assert delivery.message.text == "alive"


def test_expired_and_scheduled_messages_of_a_batch(bus, peer, queue, management):
    """SB-W-418 each member has its own ttl and schedule."""
    due_at = int(bus.now().timestamp() * 1000) + 60_000
    envelope = batch(
        expiring_message("short", 5_000),
        scheduled_message("later", due_at),
        data_message("now"),
    )
    peer.sender(queue).send(envelope, form=BATCH_FORMAT)
    bus.advance(10)
    receiver = peer.receiver(queue)
    (delivery,) = receiver.take()
    assert delivery.message.text == "now"
    receiver.nothing_comes()
    assert "later" in management.peek_texts()
