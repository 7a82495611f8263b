"""SB-W-18xx: headroom for messages between paired namespaces."""

import time

import pytest

from twinbus.limits import PROPERTIES_BYTES, TRANSFER_HEADROOM_BYTES
from twinbus.testing import Bus

from .codec import Symbol
from .frames import ACCEPTED
from .management import Cbs, Management, sas_token
from .message import BATCH_FORMAT, batch, data_message
from .own_annotations import RESTORED_FROM, SEND_ID

LIMIT_BYTES = 100_000
HEADROOM_BYTES = TRANSFER_HEADROOM_BYTES
BACKLOG = "away/x-servicebus-transfer/0"
TOO_LARGE = "amqp:link:message-size-exceeded"
MAX_BATCH_SIZE = Symbol("com.microsoft:max-message-batch-size")


@pytest.fixture(scope="module")
def bus():
    with Bus(settings={"max_message_bytes": LIMIT_BYTES}) as running:
        running.create_queue(BACKLOG)
        running.create_queue("primary")
        running.create_topic("topic/x-servicebus-transfer/0")
        yield running


def sized(size_bytes, **sections):
    """A message of exactly that size."""
    empty = len(data_message(b"x" * 1000, **sections)) - 1000
    made = data_message(b"x" * (size_bytes - empty), **sections)
    assert len(made) == size_bytes
    return made


def with_properties(size_bytes, **annotations):
    """A message whose sections before the body have exactly that size."""

    def made(length):
        return data_message(
            b"",
            annotations=annotations or None,
            application_properties={"p": "x" * length},
        )

    around = len(made(1000)) - 1000 - len(data_message(b""))
    return made(size_bytes - around)


def outcome(peer, path, message, form=0):
    sender = peer.sender(path)
    code, error = sender.outcome_of(sender.post(message, form=form))
    return None if code == ACCEPTED else error.condition


def test_backlog_queue_announces_its_head_room(peer):
    """SB-W-1801 clients that look at the limit may use it; others keep to theirs."""
    for path, limit in (
        (BACKLOG, LIMIT_BYTES + HEADROOM_BYTES),
        ("primary", LIMIT_BYTES),
        ("topic/x-servicebus-transfer/0", LIMIT_BYTES),
    ):
        attached = peer.sender(path).attached
        assert attached.max_message_size == limit
        assert attached.properties[MAX_BATCH_SIZE] == limit


@pytest.mark.parametrize("form", [0, BATCH_FORMAT], ids=["message", "batch"])
def test_backlog_queue_takes_messages_above_the_limit(peer, form):
    """SB-W-1802 up to its head-room and no byte more."""
    for excess, expected in ((0, None), (HEADROOM_BYTES, None)):
        size = LIMIT_BYTES + excess
        assert outcome(peer, BACKLOG, in_form(size, form), form) == expected
    too_large = in_form(LIMIT_BYTES + HEADROOM_BYTES + 1, form)
    assert outcome(peer, BACKLOG, too_large, form) == TOO_LARGE


def in_form(size_bytes, form):
    if form == 0:
        return sized(size_bytes)
    around = len(batch(sized(1000))) - 1000
    return batch(sized(size_bytes - around))


def test_other_entities_have_none(peer):
    """SB-W-1803 not even a topic of such a name."""
    for path in ("primary", "topic/x-servicebus-transfer/0"):
        assert outcome(peer, path, sized(LIMIT_BYTES)) is None
        assert outcome(peer, path, sized(LIMIT_BYTES + 1)) == TOO_LARGE


@pytest.mark.parametrize("name", [SEND_ID, RESTORED_FROM])
def test_message_with_an_id_of_ours_has_it_everywhere(peer, name):
    """SB-W-1804 it was within the limit before it got the id."""
    value = "1@size@s" if name == RESTORED_FROM else b"size"
    for excess, expected in ((1, None), (HEADROOM_BYTES, None)):
        message = sized(LIMIT_BYTES + excess, annotations={name: value})
        assert outcome(peer, "primary", message) == expected
    message = sized(LIMIT_BYTES + HEADROOM_BYTES + 1, annotations={name: value})
    assert outcome(peer, "primary", message) == TOO_LARGE


def test_id_gains_nothing_on_a_backlog_queue(peer):
    """SB-W-1805 the head-room is there once."""
    annotations = {SEND_ID: b"once"}
    limit = LIMIT_BYTES + HEADROOM_BYTES
    assert outcome(peer, BACKLOG, sized(limit, annotations=annotations)) is None
    message = sized(limit + 1, annotations=annotations)
    assert outcome(peer, BACKLOG, message) == TOO_LARGE


def test_properties_have_the_same_head_room(peer):
    """SB-W-1806 they are what the detour adds to."""
    larger = PROPERTIES_BYTES + HEADROOM_BYTES
    for path, annotations, limit in (
        (BACKLOG, {}, larger),
        (BACKLOG, {SEND_ID: b"p"}, larger),
        ("primary", {}, PROPERTIES_BYTES),
        ("primary", {SEND_ID: b"p"}, larger),
    ):
        assert outcome(peer, path, with_properties(limit, **annotations)) is None
        message = with_properties(limit + 1, **annotations)
        assert outcome(peer, path, message) == TOO_LARGE


def test_schedule_requests_have_it_too(connect):
    """SB-W-1807 with the same limits."""
    limit = LIMIT_BYTES + HEADROOM_BYTES
    identified_message = sized(limit, annotations={SEND_ID: b"schedule"})
    for path, message, status in (
        (BACKLOG, sized(limit), 200),
        (BACKLOG, sized(limit + 1), 403),
        ("primary", identified_message, 200),
        ("primary", sized(LIMIT_BYTES + 1), 403),
    ):
        entries = [{"message": message}]
        management = Management(connect(), path)
        answer = management.call("schedule-message", {"messages": entries})
        assert answer.status == status, path


def test_right_to_one_entity_gains_no_size_by_a_restore(bus, anonymous):
    """SB-W-1808 what it says is ignored, and so is its size."""
    stranger = anonymous()
    audience = "sb://localhost/primary"
    token = sas_token(audience, bus.key_name, bus.key, time.time() + 600)
    assert Cbs(stranger).put_token(audience, token).status == 202
    for name, value, expected in (
        (RESTORED_FROM, "1@stranger@s", TOO_LARGE),
        (SEND_ID, b"stranger", None),
    ):
        message = sized(LIMIT_BYTES + 1, annotations={name: value})
        assert outcome(stranger, "primary", message) == expected
