"""SB-W-17xx: extensions of Service Bus; a strict bus offers none."""

import pytest

from twinbus.testing import Bus

from .codec import Symbol
from .frames import ACCEPTED, REJECTED
from .management import Management
from .message import data_message
from .own_annotations import identified, ping, restored
from .peer import Peer

NAMES = [
    *("ping", "send-id", "restore-ledger", "transfer-headroom", "cancel-sent"),
    "resubmit",
]
LIMIT_BYTES = 2048
TRANSFER_QUEUE = "away/x-servicebus-transfer/0"


@pytest.fixture(scope="module")
def strict():
    settings = {"strict": True, "max_message_bytes": LIMIT_BYTES}
    with Bus(settings=settings) as running:
        running.create_queue(TRANSFER_QUEUE)
        yield running


@pytest.fixture
def strict_peer(strict):
    with Peer(strict.port) as made:
        assert made.sasl_plain(strict.key_name, strict.key) == 0
        made.opened = made.start()
        yield made


@pytest.fixture
def strict_queue(strict, request):
    name = f"q-{abs(hash(request.node.name))}"
    strict.create_queue(name)
    return name


def test_open_says_what_is_offered(bus, dial):
    """SB-W-1701 product, and an array of symbols."""
    peer = dial()
    peer.sasl_plain(bus.key_name, bus.key)
    properties = peer.start().properties
    assert properties[Symbol("product")] == "twinbus"
    offered = properties[Symbol("twinbus:extensions")]
    assert (list(offered), offered.constructor) == (NAMES, 0xA3)
    assert all(isinstance(name, Symbol) for name in offered)


def test_open_of_a_strict_bus_says_nothing(strict_peer):
    """SB-W-1702 as that of Service Bus."""
    assert strict_peer.opened.properties is None


def test_ping_is_a_message_to_a_strict_bus(strict_peer, strict_queue):
    """SB-W-1703 with a number, and received."""
    strict_peer.sender(strict_queue).send(ping())
    [delivery] = strict_peer.receiver(strict_queue).take()
    assert delivery.message.sequence_number == 1


def test_annotations_mean_nothing_to_a_strict_bus(strict_peer, strict_queue):
    """SB-W-1704 nor does what they should not be."""
    sender = strict_peer.sender(strict_queue)
    sent = [identified("id", b"1")] * 2 + [restored("from", "1@g@s")] * 2
    for message in [*sent, identified("long", b"x" * 100), restored("bad", "bad")]:
        sender.send(message)
    texts = Management(strict_peer, strict_queue).peek_texts()
    assert texts == ["id", "id", "from", "from", "long", "bad"]


def test_strict_bus_has_no_head_room(strict_peer):
    """SB-W-1705 not on a transfer queue, and not for an id."""
    sender = strict_peer.sender(TRANSFER_QUEUE)
    assert sender.attached.max_message_size == LIMIT_BYTES
    fitting = data_message(b"x" * LIMIT_BYTES)
    room = LIMIT_BYTES - (len(fitting) - LIMIT_BYTES)
    code, _ = sender.outcome_of(sender.post(data_message(b"x" * room)))
    assert code == ACCEPTED
    for message in (data_message(b"x" * (room + 1)), identified("x" * room, b"1")):
        code, error = sender.outcome_of(sender.post(message))
        assert (code, error.condition) == (
            REJECTED,
            "amqp:link:message-size-exceeded",
        )


def test_strict_bus_has_no_operations_of_its_own(strict_peer, strict_queue):
    """SB-W-1706 on its entities."""
    management = Management(strict_peer, strict_queue)
    body = {"send-ids": [b"1"]}
    answer = management.request({"operation": "twinbus:cancel-sent"}, body)
    assert (answer.status, answer.condition) == (501, "amqp:not-implemented")
