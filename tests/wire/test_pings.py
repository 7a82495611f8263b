"""SB-W-14xx: pings: accepted if a message would be, and never stored."""

from dataclasses import replace

import pytest

from twinbus.broker.operation_log import PING
from twinbus.broker.operation_record import decode_operations

from .codec import Symbol, Timestamp
from .frames import REJECTED, LinkRefused
from .management import Management
from .message import BATCH_FORMAT, batch, data_message, scheduled_message
from .own_annotations import SEND_ID, ping
from .test_send_via import sender_via, transfer_dead_letters
from .transactions import Controller, send_in


def entity_of(bus, path):
    return bus.server.namespace.entity(path)


def texts(connect, path):
    return Management(connect(), path).peek_texts()


def is_untouched(bus, path):
    """Nothing is there, was there or is to come."""
    record = entity_of(bus, path).fragment().record()
    counted = record.active_count, record.scheduled_count, record.deferred_count
    return counted == (0, 0, 0) and (record.size_bytes, record.next_sequence) == (0, 1)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"requires_session": True},
        {"requires_duplicate_detection": True},
        {"forward_to": "SOMEWHERE"},
    ],
    ids=["plain", "sessions", "duplicates", "forwards"],
)
def test_every_kind_of_queue_takes_it_and_has_nothing(bus, peer, make_queue, settings):
    """SB-W-1401 twice too, with the same message id."""
    if "forward_to" in settings:
        settings = {"forward_to": make_queue()}
    queue = make_queue(**settings)
    sender = peer.sender(queue)
    sender.send(ping(message_id="same"))
    sender.send(ping(message_id="same"))
    assert is_untouched(bus, queue)
    assert entity_of(bus, queue).ping_count == 2
    if settings.get("forward_to"):
        assert is_untouched(bus, settings["forward_to"])


def test_topic_takes_it_and_subscriptions_get_nothing(bus, peer):
    """SB-W-1402 also if one requires sessions, which would make a dead letter."""
    bus.create_topic("pinged")
    bus.create_subscription("pinged", "s", requires_session=True)
    peer.sender("pinged").send(ping())
    assert is_untouched(bus, "pinged")
    assert is_untouched(bus, "pinged/Subscriptions/s")
    assert entity_of(bus, "pinged/Subscriptions/s").counts().dead_letter == 0
    assert entity_of(bus, "pinged").ping_count == 1


def test_it_is_not_delivered(peer, queue):
    """SB-W-1403 what follows it is."""
    sender, receiver = peer.sender(queue), peer.receiver(queue)
    sender.send(ping())
    receiver.nothing_comes()
    sender.send(data_message("x"))
    [delivery] = receiver.take()
    assert delivery.message.text == "x"
    assert delivery.message.sequence_number == 1


def test_it_costs_a_commit_and_is_logged_as_what_it_is(bus, peer, queue):
    """SB-W-1404 a durable write is what it asks about."""
    sender, owner = peer.sender(queue), bus.owner
    before = owner.last_batch
    sender.send(ping())
    assert owner.last_batch > before
    blobs = bus._run(owner.store.operations(before, 10))
    runs = [run for _, blob in blobs for run in decode_operations(blob).runs]
    [run] = [run for run in runs if run.operation == PING]
    fragment = entity_of(bus, queue).fragment()
    assert (run.first_row_id, run.message_count) == (fragment.base, 1)


def test_full_queue_refuses_it(bus, peer, queue):
    """SB-W-1405 as it would a message; it is taken when there is room again."""
    sender = peer.sender(queue)
    sender.send(data_message("x" * 100))
    entity, table = entity_of(bus, queue), bus.owner.table
    full = replace(entity.settings(), max_size_bytes=entity.size_bytes())
    table.update(entity.record.generation, full)
    code, error = sender.outcome_of(sender.post(ping()))
    assert (code, error.condition) == (REJECTED, "amqp:resource-limit-exceeded")
    table.update(entity.record.generation, entity.settings())
    sender.send(ping())


def test_disabled_queue_refuses_it(bus, peer, queue):
    """SB-W-1406 whoever is attached is sent away, and nobody gets in."""
    bus.update_queue(queue, status="SendDisabled")
    with pytest.raises(LinkRefused) as refusal:
        peer.sender(queue)
    assert refusal.value.error.condition == "com.microsoft:entity-disabled"
    bus.update_queue(queue, status="Active")
    peer.sender(queue).send(ping())


def test_full_store_refuses_it(bus, peer, queue):
    """SB-W-1407 nothing could be made durable."""
    sender, owner = peer.sender(queue), bus.owner
    owner.refuses_until = bus.clock.now() + 60_000
    code, error = sender.outcome_of(sender.post(ping()))
    assert (code, error.condition) == (REJECTED, "com.microsoft:server-busy")
    owner.refuses_until = 0
    sender.send(ping())


def test_batch_is_taken_without_the_pings_in_it(connect, bus, peer, queue):
    """SB-W-1408 the messages are messages."""
    envelope = batch(data_message("a"), ping(), data_message("b"), ping())
    peer.sender(queue).send(envelope, form=BATCH_FORMAT)
    assert texts(connect, queue) == ["a", "b"]
    assert entity_of(bus, queue).ping_count == 2


def test_scheduled_ping_is_not_on_the_schedule(bus, peer, queue):
    """SB-W-1409 neither by its annotation nor by a request, which answers 0."""
    due = Timestamp(bus.clock.now() + 60_000)
    late = data_message(
        b"",
        annotations={"x-opt-scheduled-enqueue-time": due},
        properties={"content_type": Symbol("application/vnd.ms-servicebus-ping")},
    )
    peer.sender(queue).send(late)
    entries = [{"message": late}, {"message": scheduled_message("x", due)}]
    answer = Management(peer, queue).call("schedule-message", {"messages": entries})
    numbers = list(answer.body["sequence-numbers"])
    assert (answer.status, numbers) == (200, [0, 1])
    assert entity_of(bus, queue).counts().scheduled == 1
    assert entity_of(bus, queue).ping_count == 2


def test_ping_of_a_transaction_happens_with_its_commit(bus, peer, queue):
    """SB-W-1410 and leaves nothing."""
    sender, controller = peer.sender(queue), Controller(peer)
    txn_id = controller.declare()
    assert send_in(txn_id, sender, ping()) is None
    assert entity_of(bus, queue).ping_count == 0
    assert controller.commit(txn_id) is None
    assert entity_of(bus, queue).ping_count == 1
    txn_id = controller.declare()
    assert send_in(txn_id, sender, ping()) is None
    assert controller.roll_back(txn_id) is None
    assert entity_of(bus, queue).ping_count == 1
    assert is_untouched(bus, queue)


def test_ping_by_a_way_asks_for_the_way(bus, connect, peer, queue):
    """SB-W-1411 it is no dead letter where the destination is missing."""
    sender_via(peer, queue, "no-such-queue").send(ping())
    assert texts(connect, transfer_dead_letters(queue)) == []
    assert entity_of(bus, queue).ping_count == 1


def test_ids_of_a_ping_are_not_remembered(connect, peer, queue):
    """SB-W-1412 a message with the same send id is no copy of it."""
    sender = peer.sender(queue)
    properties = {"content_type": Symbol("application/vnd.ms-servicebus-ping")}
    sender.send(data_message(b"", annotations={SEND_ID: b"1"}, properties=properties))
    sender.send(data_message("x", annotations={SEND_ID: b"1"}))
    assert texts(connect, queue) == ["x"]


@pytest.mark.parametrize(
    "content_type",
    ["application/vnd.ms-servicebus-pin", "application/vnd.ms-servicebus-pings", "a"],
)
def test_another_content_type_is_no_ping(connect, peer, queue, content_type):
    """SB-W-1413 not even a similar one."""
    properties = {"content_type": Symbol(content_type)}
    peer.sender(queue).send(data_message("x", properties=properties))
    assert texts(connect, queue) == ["x"]


def test_application_property_of_that_name_is_no_ping(connect, peer, queue):
    """SB-W-1414 nor is a body, or another property."""
    text = "application/vnd.ms-servicebus-ping"
    message = data_message(
        text,
        properties={"message_id": text, "subject": text, "group_id": text},
        application_properties={"content_type": text},
    )
    peer.sender(queue).send(message)
    assert texts(connect, queue) == [text]
