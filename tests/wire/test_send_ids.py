"""SB-W-15xx: send ids: of the copies of one send only the first is kept."""

import pytest

from twinbus.testing import Bus

from .codec import Array, Long, Timestamp
from .frames import REJECTED
from .management import Management
from .message import BATCH_FORMAT, batch, data_message
from .own_annotations import RESTORED_FROM, SEND_ID, identified
from .test_send_via import sender_via
from .transactions import Controller, send_in

DAY_SECONDS = 86_400


def scheduled(text, send_id, due):
    annotations = {"x-opt-scheduled-enqueue-time": Timestamp(due)}
    return identified(text, send_id, annotations=annotations)


@pytest.mark.parametrize(
    "settings",
    [{}, {"requires_duplicate_detection": True}, {"requires_session": True}],
    ids=["plain", "duplicates", "sessions"],
)
def test_second_copy_is_accepted_and_dropped(peer, make_queue, texts, settings):
    """SB-W-1501 whatever else the queue does with ids."""
    queue = make_queue(**settings)
    sender = peer.sender(queue)
    for number, (text, send_id) in enumerate(
        [("first", b"1"), ("copy", b"1"), ("other", b"2")]
    ):
        properties = {"message_id": str(number), "group_id": "s"}
        sender.send(identified(text, send_id, properties=properties))
    assert texts(queue) == ["first", "other"]


def test_text_is_the_same_id_as_its_bytes(peer, queue, texts):
    """SB-W-1502 for clients that have no binary annotations."""
    sender = peer.sender(queue)
    sender.send(identified("first", "caf\u00e9"))
    sender.send(identified("copy", "caf\u00e9".encode()))
    assert texts(queue) == ["first"]


@pytest.mark.parametrize("send_id", [b"", b"x" * 65, "\u00e9" * 33, Long(5), True])
def test_what_is_no_id_is_refused(peer, queue, send_id):
    """SB-W-1503 with the argument's name and its limit."""
    sender = peer.sender(queue)
    code, error = sender.outcome_of(sender.post(identified("x", send_id)))
    assert (code, error.condition) == (REJECTED, "com.microsoft:argument-error")
    assert "x-opt-twinbus-send-id" in error.description and "64" in error.description


def test_longest_id_is_taken(peer, queue, texts):
    """SB-W-1504 and compared whole."""
    sender = peer.sender(queue)
    sender.send(identified("a", b"x" * 64))
    sender.send(identified("b", b"x" * 63 + b"y"))
    assert texts(queue) == ["a", "b"]


def test_copies_within_one_turn_and_one_batch_are_found(peer, queue, texts):
    """SB-W-1505 before anything of them is durable."""
    sender = peer.sender(queue)
    posted = [sender.post(identified(text, b"1")) for text in ("first", "copy")]
    envelope = batch(*(identified(text, b"2") for text in ("second", "copy")))
    posted.append(sender.post(envelope, form=BATCH_FORMAT))
    assert [sender.outcome_of(at)[1] for at in posted] == [None] * 3
    assert texts(queue) == ["first", "second"]


def test_order_of_a_link_is_kept(peer, queue, texts):
    """SB-W-1506 among messages with an id and messages without."""
    sender = peer.sender(queue)
    wanted = [str(number) for number in range(40)]
    posted = [
        sender.post(
            data_message(text) if int(text) % 3 else identified(text, text.encode())
        )
        for text in wanted
    ]
    assert [sender.outcome_of(at)[1] for at in posted] == [None] * 40
    assert texts(queue) == wanted


def test_scheduled_copies_are_found(bus, peer, queue):
    """SB-W-1507 by annotation and by request, which answers 0 for a copy."""
    due = bus.clock.now() + 60_000
    peer.sender(queue).send(scheduled("first", b"1", due))
    management = Management(peer, queue)
    entries = [{"message": scheduled("copy", b"1", due)}]
    entries.append({"message": scheduled("second", b"2", due)})
    for expected in ([0, 2], [0, 0]):
        answer = management.call("schedule-message", {"messages": entries})
        assert answer.status == 200
        assert list(answer.body["sequence-numbers"]) == expected
    assert management.peek_texts() == ["first", "second"]


def test_copies_in_transactions_are_found(peer, queue, texts):
    """SB-W-1508 when it is committed; what is rolled back is not remembered."""
    sender, controller = peer.sender(queue), Controller(peer)
    for is_committed in (False, True, True):
        txn_id = controller.declare()
        assert send_in(txn_id, sender, identified("x", b"1")) is None
        if is_committed:
            assert controller.commit(txn_id) is None
        else:
            assert controller.roll_back(txn_id) is None
    assert texts(queue) == ["x"]


def test_copies_sent_by_a_way_are_found_at_the_destination(peer, make_queue, texts):
    """SB-W-1509 which remembers them."""
    way, destination = make_queue(), make_queue()
    for sender in (sender_via(peer, way, destination), peer.sender(destination)):
        sender.send(identified("x", b"1"))
    assert texts(destination) == ["x"]


def test_topic_finds_copies_for_its_subscriptions(bus, peer, texts):
    """SB-W-1510 none of them gets one."""
    bus.create_topic("once")
    bus.create_subscription("once", "s")
    sender = peer.sender("once")
    for _ in range(2):
        sender.send(identified("x", b"1"))
    assert texts("once/Subscriptions/s") == ["x"]


def test_ids_are_those_of_an_entity(peer, make_queue, texts):
    """SB-W-1511 the same id at another one is another send."""
    for queue in (make_queue(), make_queue()):
        peer.sender(queue).send(identified("x", b"1"))
        assert texts(queue) == ["x"]


def test_send_id_and_message_id_are_apart(peer, make_queue, texts):
    """SB-W-1512 either of them makes a copy, and they are not compared."""
    queue = make_queue(requires_duplicate_detection=True)
    sender = peer.sender(queue)
    for text, send_id, message_id in (
        ("first", b"1", "a"),
        ("same send", b"1", "b"),
        ("same message", b"2", "a"),
        ("crossed", b"a", "1"),
    ):
        properties = {"message_id": message_id}
        sender.send(identified(text, send_id, properties=properties))
    assert texts(queue) == ["first", "crossed"]


def test_copy_of_a_completed_message_is_dropped_after_a_restart():
    """SB-W-1513 the id outlives its message, until its time is over."""
    from azure.servicebus import ServiceBusClient, ServiceBusMessage

    def send(bus):
        text = bus.connection_string
        with (
            ServiceBusClient.from_connection_string(text) as client,
            client.get_queue_sender("q") as sender,
            client.get_queue_receiver("q") as receiver,
        ):
            message = ServiceBusMessage("x")
            message.raw_amqp_message.annotations = {"x-opt-twinbus-send-id": b"1"}
            sender.send_messages(message)
            found = receiver.peek_messages(5)
            for one in receiver.receive_messages(max_wait_time=5) if found else []:
                receiver.complete_message(one)
            return len(found)

    with Bus(settings={"send_id_window": "10m"}) as bus:
        bus.create_queue("q")
        assert send(bus) == 1
        bus.restart()
        assert send(bus) == 0
        bus.advance(599)
        assert send(bus) == 0
        bus.advance(2)
        assert send(bus) == 1


def test_receivers_do_not_get_the_annotation(peer, queue):
    """SB-W-1514 what was received can be sent again, and is another message."""
    own = {"x-opt-mine": "mine", RESTORED_FROM: "1@2@elsewhere"}
    peer.sender(queue).send(identified("x", b"1", annotations=own))
    [delivery] = peer.receiver(queue).take()
    assert delivery.message.annotations["x-opt-mine"] == "mine"
    assert SEND_ID not in delivery.message.annotations
    assert RESTORED_FROM not in delivery.message.annotations


def test_receivers_of_a_transfer_queue_get_the_annotation(bus, peer):
    """SB-W-1516 the syphon hands it on to the primary."""
    backlog = "away/x-servicebus-transfer/7"
    bus.create_queue(backlog)
    peer.sender(backlog).send(identified("x", b"1"))
    [delivery] = peer.receiver(backlog).take()
    assert delivery.message.annotations[SEND_ID] == b"1"


def test_array_is_no_id(peer, queue):
    """SB-W-1515 nor is anything else that holds bytes."""
    sender = peer.sender(queue)
    given = Array(0xA0, [b"1"])
    code, error = sender.outcome_of(sender.post(identified("x", given)))
    assert (code, error.condition) == (REJECTED, "com.microsoft:argument-error")
