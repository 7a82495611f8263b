"""The metrics of a pair's events."""

import pytest
from prometheus_client import CollectorRegistry

from twinbus.pairing import metrics as module
from twinbus.pairing.backlog_status import BacklogQueueStatus, BacklogSurvey
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.metrics import OTHERS, PairMetrics, PairObserver
from twinbus.testing.clock import ManualClock

QUEUE = "site-a/x-servicebus-transfer/0"


class World:
    """A pair that tells something, and its registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = PairMetrics(self.registry)
        self.observe = self.metrics.of("site-a")

    def tell(self, kind: EventKind, path: str = "", **fields: object) -> None:
        self.observe(PairEvent(kind=kind, path=path, **fields))  # type: ignore[arg-type]

    def value(self, name: str, primary: str = "site-a", **labels: str) -> float | None:
        labels["primary"] = primary
        return self.registry.get_sample_value(f"twinbus_pair_{name}", labels)


@pytest.fixture
def world() -> World:
    return World()


def test_an_entity_is_in_one_state(world: World) -> None:
    for text in ("suspect", "failed over"):
        world.tell(EventKind.STATE_CHANGED, "Orders", text=text)
    states = {
        state: world.value("state", entity="orders", state=state)
        for state in ("healthy", "suspect", "failed over", "recovering")
    }
    assert states == {"healthy": 0, "suspect": 0, "failed over": 1, "recovering": 0}
    assert world.value("failovers_total", entity="orders") == 1
    world.tell(EventKind.STATE_CHANGED, "orders", text="recovering")
    assert world.value("failovers_total", entity="orders") == 1


def test_messages_are_counted_by_entity(world: World) -> None:
    world.tell(EventKind.DIVERTED, "orders", queue=QUEUE, count=3)
    world.tell(EventKind.DIVERTED, "ORDERS", queue=QUEUE, count=1)
    world.tell(EventKind.RESTORED, "orders", queue=QUEUE, count=4)
    assert world.value("diverted_messages_total", entity="orders") == 4
    assert world.value("restored_messages_total", entity="orders") == 4


def test_pings_are_counted_by_outcome(world: World) -> None:
    for outcome in ("failed", "failed", "accepted"):
        world.tell(EventKind.PINGED, "orders", text=outcome, count=1)
    assert world.value("pings_total", entity="orders", outcome="failed") == 2
    assert world.value("pings_total", entity="orders", outcome="accepted") == 1


def test_a_receive_that_finds_nothing_is_a_receive(world: World) -> None:
    """P13"""
    for count in (0, 5, 0):
        world.tell(EventKind.RECEIVED, queue=QUEUE, count=count)
    assert world.value("syphon_receives_total", queue=QUEUE) == 3
    assert world.value("syphon_received_messages_total", queue=QUEUE) == 5


def test_what_is_out_comes_back(world: World) -> None:
    world.tell(EventKind.BACKLOG_QUEUE_OUT, queue=QUEUE, text="full")
    assert world.value("backlog_queue_usable", queue=QUEUE) == 0
    world.tell(EventKind.BACKLOG_QUEUE_BACK, queue=QUEUE)
    assert world.value("backlog_queue_usable", queue=QUEUE) == 1
    world.tell(EventKind.PARKED, "orders", text="quota exceeded")
    assert world.value("parked", entity="orders") == 1
    world.tell(EventKind.UNPARKED, "orders")
    assert world.value("parked", entity="orders") == 0


def test_a_primary_that_is_away_is_parked_as_a_whole(world: World) -> None:
    world.tell(EventKind.PARKED, text="away")
    assert world.value("primary_reachable") == 0
    world.tell(EventKind.UNPARKED)
    assert world.value("primary_reachable") == 1


def test_poison_and_faults_are_counted(world: World) -> None:
    world.tell(EventKind.POISON, "orders", queue=QUEUE, text="NotAllowed", count=2)
    world.tell(EventKind.FAULTED, text="closed")
    assert world.value("poison_messages_total", queue=QUEUE) == 2
    assert world.value("faults_total") == 1


def test_paths_of_strangers_are_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_ENTITIES", 2)
    for path in ("a", "b", "c", "d"):
        world.tell(EventKind.RESTORED, path, count=1)
        world.tell(EventKind.PARKED, path)
        world.tell(EventKind.STATE_CHANGED, path, text="failed over")
    assert world.value("restored_messages_total", entity="a") == 1
    assert world.value("restored_messages_total", entity="c") is None
    assert world.value("restored_messages_total", entity=OTHERS) == 2
    assert world.value("failovers_total", entity=OTHERS) == 2
    # Of many it could not be said which.
    assert world.value("parked", entity=OTHERS) is None
    assert world.value("state", entity=OTHERS, state="failed over") is None


def test_two_pairs_share_a_registry(world: World) -> None:
    other = world.metrics.of("site-c")
    other(PairEvent(kind=EventKind.DIVERTED, path="orders", count=7))
    assert world.value("diverted_messages_total", "site-c", entity="orders") == 7
    assert world.value("diverted_messages_total", entity="orders") is None


def test_the_backlog_is_as_it_was_seen(world: World) -> None:
    clock = ManualClock()
    seen = (
        BacklogQueueStatus(
            path=QUEUE,
            waiting=5,
            dead_letters=1,
            size_bytes=9,
            oldest_at=clock.now() - 1_500,
        ),
        BacklogQueueStatus(path="empty", waiting=0, dead_letters=0, size_bytes=0),
    )
    survey = BacklogSurvey(primary_name="site-a", queues=seen, lease=None, primaries=())
    PairObserver(world.metrics, "site-a", clock).note_backlog(survey)
    assert world.value("backlog_messages", queue=QUEUE) == 5
    assert world.value("backlog_dead_letters", queue=QUEUE) == 1
    assert world.value("backlog_oldest_age_seconds", queue=QUEUE) == 1.5
    assert world.value("backlog_oldest_age_seconds", queue="empty") == 0


@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_of_event_is_understood(world: World, kind: EventKind) -> None:
    world.tell(kind, "orders", queue=QUEUE, text="healthy", count=1)
