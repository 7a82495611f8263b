"""SB-W-9xx: a generic AMQP 1.0 client (Qpid Proton), unmodified, with SASL PLAIN."""

import uuid

import pytest

# Published as source only: where it could not be built these tests are left out.
proton = pytest.importorskip("proton")
proton_reactor = pytest.importorskip("proton.reactor")
proton_utils = pytest.importorskip("proton.utils")

WAIT_SECONDS = 15


@pytest.fixture
def dial(bus):
    """Opens Proton connections with a key name and a key."""
    opened = []

    def make(user=None, password=None):
        connection = proton_utils.BlockingConnection(
            f"amqp://127.0.0.1:{bus.port}",
            timeout=WAIT_SECONDS,
            reconnect=False,
            user=bus.key_name if user is None else user,
            password=bus.key if password is None else password,
            allowed_mechs="PLAIN",
            allow_insecure_mechs=True,
        )
        opened.append(connection)
        return connection

    yield make
    for connection in opened:
        connection.close()


def test_proton_sends_and_receives(dial, queue):
    """SB-W-901 send, receive and accept with nothing but the standard."""
    connection = dial()
    sender = connection.create_sender(queue)
    for number in range(10):
        sender.send(proton.Message(body=f"m{number}", id=uuid.uuid4()))
    receiver = connection.create_receiver(queue, credit=10)
    bodies = []
    for _ in range(10):
        bodies.append(receiver.receive(timeout=WAIT_SECONDS).body)
        receiver.accept()
    assert bodies == [f"m{number}" for number in range(10)]


def test_proton_is_refused_with_a_wrong_key(dial):
    """SB-W-902 a wrong key is an authentication failure."""
    with pytest.raises(proton.ConnectionException):
        dial(password="wrong")


def test_proton_releases_and_receives_again(dial, queue):
    """SB-W-903 a released message is delivered again with count 0."""
    connection = dial()
    connection.create_sender(queue).send(proton.Message(body="x"))
    receiver = connection.create_receiver(queue, credit=1)
    receiver.receive(timeout=WAIT_SECONDS)
    receiver.release(delivered=False)
    receiver.flow(1)
    again = receiver.receive(timeout=WAIT_SECONDS)
    assert (again.body, again.delivery_count) == ("x", 0)
    receiver.accept()


def test_proton_rejects_into_the_dead_letters(dial, queue):
    """SB-W-904 rejected by a generic client: found in the dead-letter sub-queue."""
    connection = dial()
    connection.create_sender(queue).send(proton.Message(body="x"))
    receiver = connection.create_receiver(queue, credit=1)
    receiver.receive(timeout=WAIT_SECONDS)
    receiver.reject()
    dead_letters = connection.create_receiver(f"{queue}/$DeadLetterQueue", credit=1)
    assert dead_letters.receive(timeout=WAIT_SECONDS).body == "x"
    dead_letters.accept()


def test_proton_receives_at_most_once(dial, queue):
    """SB-W-905 a pre-settled receiver is receive-and-delete."""
    connection = dial()
    sender = connection.create_sender(queue)
    sender.send(proton.Message(body="x"))
    receiver = connection.create_receiver(
        queue, credit=1, options=proton_reactor.AtMostOnce()
    )
    assert receiver.receive(timeout=WAIT_SECONDS).body == "x"
    receiver.close()
    sender.send(proton.Message(body="y"))
    again = connection.create_receiver(
        queue, credit=5, options=proton_reactor.AtMostOnce()
    )
    assert again.receive(timeout=WAIT_SECONDS).body == "y"


def test_proton_sees_the_error_of_an_unknown_queue(dial):
    """SB-W-906 attaching to nothing is a detached link with `amqp:not-found`."""
    with pytest.raises(proton_utils.LinkDetached) as detached:
        dial().create_sender("no-such-queue")
    assert "amqp:not-found" in str(detached.value)


def test_proton_reads_annotations_and_properties(dial, queue):
    """SB-W-907 what the bus adds is readable by another implementation."""
    connection = dial()
    sent = proton.Message(
        body={"k": [1, 2]}, properties={"n": 1.5}, subject="s", ttl=60
    )
    connection.create_sender(queue).send(sent)
    receiver = connection.create_receiver(queue, credit=1)
    received = receiver.receive(timeout=WAIT_SECONDS)
    assert (received.body, received.subject) == ({"k": [1, 2]}, "s")
    assert received.properties == {"n": 1.5}
    assert received.annotations[proton.symbol("x-opt-sequence-number")] == 1
    assert received.ttl == 60
    receiver.accept()
