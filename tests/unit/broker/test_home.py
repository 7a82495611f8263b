"""The home of a fragment: its change set takes no other store's fragments, and it is
woken when there is something to do."""

from collections.abc import Callable

import pytest

from twinbus.broker import expiry, reader_lease, schedule, settlement
from twinbus.broker.admission import Duplicates
from twinbus.broker.changes import ChangeSet, ReaderLease
from twinbus.broker.home import Home, commit_soon
from twinbus.broker.message import Message
from twinbus.errors import ForeignFragment

from .world import ACTOR, NOW, Place


def scheduled(place: Place) -> Message:
    message = Message(b"later", 0, 0, NOW + 1_000)
    schedule.schedule(place.queue, message, ACTOR, NOW, place.changes)
    place.commit()
    return message


def leased(place: Place) -> ReaderLease:
    lease = reader_lease.take(place.queue, "reader", 1_000, NOW, place.changes)
    place.commit()
    return lease


def write_a_lease(place: Place, foreign: ChangeSet) -> None:
    reader_lease.take(place.queue, "reader", 1_000, NOW, foreign)


def plan(place: Place, foreign: ChangeSet) -> None:
    lease = leased(place)
    reader_lease.note_plan(place.queue, lease, 1, 1, foreign)


def remember_an_id(place: Place, foreign: ChangeSet) -> None:
    Duplicates().is_new(place.queue, b"id", 1_000, NOW, foreign)


def let_a_lock_end(place: Place, foreign: ChangeSet) -> None:
    [lock] = place.lock()
    expiry.let_time_pass(place.queue, lock.locked_until, foreign)


COMMANDS: dict[str, Callable[[Place, ChangeSet], object]] = {
    "enqueue": lambda p, c: p.queue.enqueue(Message(b"x", 0, 0, 0), ACTOR, NOW, c),
    "adopt": lambda p, c: p.queue.adopt(Message(b"x", 0, 0, 0), NOW, c),
    "schedule": lambda p, c: schedule.schedule(
        p.queue, Message(b"x", 0, 0, NOW + 1), ACTOR, NOW, c
    ),
    "activate": lambda p, c: schedule.activate(p.queue, scheduled(p), NOW, c),
    "cancel": lambda p, c: schedule.cancel(p.queue, scheduled(p), ACTOR, NOW, c),
    "complete": lambda p, c: settlement.complete(p.queue, p.lock()[0], ACTOR, NOW, c),
    "abandon": lambda p, c: settlement.abandon(
        p.queue, p.lock()[0], None, ACTOR, NOW, c
    ),
    "defer": lambda p, c: settlement.defer(p.queue, p.lock()[0], None, ACTOR, NOW, c),
    "expire": lambda p, c: p.queue.expire(p.queue.take(1, NOW, c)[0], NOW, c),
    "forget": lambda p, c: p.queue.forget_unloaded(1, 2, 0, c),
    "lease": write_a_lease,
    "plan": plan,
    "remember": remember_an_id,
    "end of a lock": let_a_lock_end,
    "create": lambda p, c: p.table.create(b"h" * 16, 0, c),
}


@pytest.fixture
def place() -> Place:
    place = Place()
    place.table.admit(b"h" * 16, place.settings)
    place.send(b"one", b"two")
    return place


def columns(changes: ChangeSet) -> dict[str, object]:
    """All that a store would write."""
    names = [name for name in dir(changes) if not name.startswith("_")]
    values = {name: getattr(changes, name) for name in names}
    return {n: v for n, v in values.items() if isinstance(v, list) and v}


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_written_into_the_change_set_of_another_store(
    place: Place, name: str
) -> None:
    foreign = ChangeSet(Home())
    with pytest.raises(ForeignFragment, match="orders"):
        COMMANDS[name](place, foreign)
    assert columns(foreign) == {} and foreign.is_empty()


def test_a_change_set_without_a_home_belongs_to_that_of_the_first_fragment(
    place: Place,
) -> None:
    changes, other = ChangeSet(), Place()
    place.queue.touch(changes)
    with pytest.raises(ForeignFragment):
        other.queue.touch(changes)
    assert changes.touched == [place.queue]


def test_a_home_without_an_owner_serves_nobody(place: Place) -> None:
    with pytest.raises(AssertionError, match="nobody serves"):
        place.queue.home.wake()
    with pytest.raises(AssertionError, match="nobody serves"):
        place.queue.home.message_ids.next()


class WakefulHome(Home):
    """Counts how often it is woken."""

    def __init__(self) -> None:
        super().__init__()
        self.wake_count = 0

    def wake(self) -> None:
        self.wake_count += 1
        self.must_turn = True


def test_a_home_is_woken_once_before_its_loop_turns() -> None:
    home = WakefulHome()
    commit_soon(home)
    commit_soon(home)
    assert home.wake_count == 1
    home.must_turn = False
    commit_soon(home)
    assert home.wake_count == 2


@pytest.mark.parametrize("written_bytes", [0, 60])
def test_a_home_that_must_turn_is_told_of_too_many_pending_bytes(
    written_bytes: int,
) -> None:
    home = WakefulHome()
    home.must_turn = True
    home.pending_limit_bytes = 100
    home.changes.pending_bytes = written_bytes
    home.admitted_bytes = 100 - written_bytes
    commit_soon(home)
    assert home.wake_count == 0
    home.admitted_bytes += 1
    commit_soon(home)
    assert home.wake_count == 1
