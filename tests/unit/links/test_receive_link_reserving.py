"""Messages that another broker hands out: locked, and their time begins with that."""

from twinbus.amqp.composite import encode_composite
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.outcomes import ACCEPTED, RELEASED, Accepted, Received
from twinbus.broker.message_lock import RESERVED
from twinbus.links.receive_link import ReceiveLink

from .world import NOW, World

_TAKEN = encode_composite(Received(section_number=0, section_offset=0))


def _reserved(world: World, count: int) -> tuple[Link, ReceiveLink, list[int]]:
    """A link of another broker, and the ids of so many reserved messages."""
    link = world.session.attach_receiver("rx", Source(address="orders"), Target())
    bus_link = world._attached()
    made = ReceiveLink(bus_link, world.fragment, 2, True, world.output, reserves=True)
    bus_link.context = made
    bus_link.accept()
    world.pump()
    world.home.enqueue(count)
    link.issue_credit(count)
    return link, made, [one.delivery_id for one in world.deliveries()]


def _ends(world: World) -> list[int]:
    return sorted(lock.locked_until for lock in world.fragment.locks.values())


def test_reserved_lock_has_no_end(world: World) -> None:
    _reserved(world, 3)
    assert _ends(world) == [RESERVED] * 3
    assert world.fragment.ended_locks(NOW + 10**9) == []


def test_lock_begins_when_it_is_taken(world: World) -> None:
    _, _, ids = _reserved(world, 3)
    world.home.now = NOW + 7
    world.session.send_disposition(True, ids[0], ids[1], False, _TAKEN)
    world.pump()
    end = NOW + 7 + world.fragment.settings.lock_duration_ms
    assert _ends(world) == [end, end, RESERVED]
    # A second time does not renew it.
    world.home.now = NOW + 9
    world.session.send_disposition(True, ids[0], ids[0], False, _TAKEN)
    world.pump()
    assert _ends(world) == [end, end, RESERVED]
    assert [lock.locked_until for lock in world.fragment.ended_locks(end)] == [end] * 2


def test_taken_message_is_completed_as_usual(world: World) -> None:
    _, _, ids = _reserved(world, 2)
    world.session.send_disposition(True, ids[0], ids[1], False, _TAKEN)
    world.session.send_disposition(True, ids[0], ids[1], False, ACCEPTED)
    world.pump()
    world.home.commit()
    assert world.verdicts() == [(ids[0], ids[1], Accepted())]
    assert world.fragment.active_count == 0


def test_what_was_not_handed_out_goes_back_uncounted(world: World) -> None:
    _, made, ids = _reserved(world, 3)
    world.session.send_disposition(True, ids[0], ids[0], False, _TAKEN)
    world.session.send_disposition(True, ids[1], ids[1], True, RELEASED)
    world.pump()
    made.forget_deliveries()
    made.close()
    world.home.commit()
    assert len(world.fragment.locks) == 1
    link, _ = world.receiver(name="next")
    link.issue_credit(5)
    found = world.deliveries()
    assert len(found) == 2
    for lock in world.fragment.locks.values():
        assert lock.message.delivery_count == 0


def test_client_that_says_received_changes_nothing(world: World) -> None:
    link, _ = world.receiver()
    world.home.enqueue(1)
    link.issue_credit(1)
    (message,) = world.deliveries()
    before = _ends(world)
    world.home.now = NOW + 7
    at = message.delivery_id
    world.session.send_disposition(True, at, at, False, _TAKEN)
    world.pump()
    assert _ends(world) == before
