"""Prometheus metrics of the pairs of a process, made from their events.

    metrics = PairMetrics()                       # in the default registry
    options = SendAvailabilityPairedNamespaceOptions(
        ..., on_event=metrics.of("site-a"))

All metrics are counted from events, so a scrape costs nothing and asks no namespace for
anything. The size of the backlog is known at the secondary. An application that wants
it here surveys the backlog now and then (`backlog_survey.py`) and calls `note_backlog`.

Paths come from messages that anybody may have sent to a backlog queue, so the number of
paths with lines of their own is limited.
"""

from typing import Final, assert_never

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge

from twinbus.clock import Clock, SystemClock
from twinbus.pairing.backlog_status import BacklogSurvey
from twinbus.pairing.entity_health import State
from twinbus.pairing.events import EventKind, PairEvent

OTHERS: Final = "(others)"
"""The label of entities that have no lines of their own."""

_MOST_ENTITIES: Final = 1_000
_PREFIX: Final = "twinbus_pair"


class PairMetrics:
    """The metrics of all pairs of a process; one per registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(
                f"{_PREFIX}_{name}", text, ("primary", *labels), registry=registry
            )

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(
                f"{_PREFIX}_{name}", text, ("primary", *labels), registry=registry
            )

        # Senders.
        self.state = gauge("state", "1: in this state.", "entity", "state")
        self.failovers = counter("failovers", "Times it failed over.", "entity")
        self.diverted = counter(
            "diverted_messages", "Messages sent to the backlog.", "entity"
        )
        self.pings = counter("pings", "Pings to the primary.", "entity", "outcome")
        self.usable = gauge(
            "backlog_queue_usable", "0: it failed, and is not used now.", "queue"
        )
        self.faults = counter("faults", "Times that one side ended the other.")
        # The syphon.
        self.receives = counter(
            "syphon_receives", "Receives, those that found nothing included.", "queue"
        )
        self.received = counter(
            "syphon_received_messages", "Messages taken from the backlog.", "queue"
        )
        self.restored = counter(
            "restored_messages", "Messages sent to the primary.", "entity"
        )
        self.parked = gauge("parked", "1: it does not take messages now.", "entity")
        self.reachable = gauge(
            "primary_reachable", "0: the syphon does not reach the primary."
        )
        self.syphon_running = gauge(
            "syphon_running", "0: the syphon cannot run; status and log say why."
        )
        self.queue_syphoned = gauge(
            "syphon_queue_usable", "0: the syphon cannot take from it.", "queue"
        )
        self.poison = counter(
            "poison_messages", "Messages that became dead letters.", "queue"
        )
        # What waits on the secondary.
        self.waiting = gauge("backlog_messages", "Messages that wait.", "queue")
        self.dead_letters = gauge("backlog_dead_letters", "Dead letters.", "queue")
        self.oldest = gauge(
            "backlog_oldest_age_seconds", "Age of the oldest message.", "queue"
        )

    def of(self, primary: str) -> "PairObserver":
        """The listener for the pair of this primary: give it as `on_event`."""
        return PairObserver(self, primary)


class PairObserver:
    """Counts the events of one pair; may be called from any thread."""

    def __init__(
        self, metrics: PairMetrics, primary: str, clock: Clock | None = None
    ) -> None:
        self._metrics = metrics
        self._primary = primary
        self._clock = clock or SystemClock()
        self._entities: set[str] = set()

    def __call__(self, event: PairEvent) -> None:
        metrics, primary, kind = self._metrics, self._primary, event.kind
        queue = (primary, event.queue)
        match kind:
            case EventKind.STATE_CHANGED:
                self._state_changed(event)
            case EventKind.DIVERTED:
                entity = self._entity(event)
                metrics.diverted.labels(primary, entity).inc(event.count)
            case EventKind.PINGED:
                labels = (primary, self._entity(event), event.text)
                metrics.pings.labels(*labels).inc(event.count)
            case EventKind.BACKLOG_QUEUE_OUT | EventKind.BACKLOG_QUEUE_BACK:
                is_back = kind is EventKind.BACKLOG_QUEUE_BACK
                metrics.usable.labels(*queue).set(is_back)
            case EventKind.FAULTED:
                metrics.faults.labels(primary).inc()
            case EventKind.RECEIVED:
                metrics.receives.labels(*queue).inc()
                metrics.received.labels(*queue).inc(event.count)
            case EventKind.RESTORED:
                entity = self._entity(event)
                metrics.restored.labels(primary, entity).inc(event.count)
            case EventKind.SYPHON_WAITS | EventKind.SYPHON_RUNS:
                self._set_syphon(event, is_running=kind is EventKind.SYPHON_RUNS)
            case EventKind.PARKED | EventKind.UNPARKED:
                self._set_parked(event, is_parked=kind is EventKind.PARKED)
            case EventKind.POISON:
                metrics.poison.labels(*queue).inc(event.count)
            case _:
                assert_never(kind)

    def note_backlog(self, survey: BacklogSurvey) -> None:
        """Show the result of a survey of the backlog."""
        metrics, now = self._metrics, self._clock.now()
        for queue in survey.queues:
            labels = (self._primary, queue.path)
            metrics.waiting.labels(*labels).set(queue.waiting)
            metrics.dead_letters.labels(*labels).set(queue.dead_letters)
            age_ms = 0 if queue.oldest_at is None else max(now - queue.oldest_at, 0)
            metrics.oldest.labels(*labels).set(age_ms / 1000)

    def _entity(self, event: PairEvent) -> str:
        """The label of an entity; paths that differ in letter case share one."""
        path = event.path.lower()
        if path not in self._entities:
            if len(self._entities) >= _MOST_ENTITIES:
                return OTHERS
            self._entities.add(path)
        return path

    def _state_changed(self, event: PairEvent) -> None:
        entity = self._entity(event)
        if entity != OTHERS:
            for state in State:
                labels = (self._primary, entity, state.value)
                is_now = state.value == event.text
                self._metrics.state.labels(*labels).set(is_now)
        if event.text == State.FAILED_OVER.value:
            self._metrics.failovers.labels(self._primary, entity).inc()

    def _set_syphon(self, event: PairEvent, *, is_running: bool) -> None:
        if event.queue:
            labels = (self._primary, event.queue)
            self._metrics.queue_syphoned.labels(*labels).set(is_running)
        else:
            self._metrics.syphon_running.labels(self._primary).set(is_running)

    def _set_parked(self, event: PairEvent, *, is_parked: bool) -> None:
        if not event.path:
            # All of them: it is the primary that does not answer.
            self._metrics.reachable.labels(self._primary).set(not is_parked)
            return
        entity = self._entity(event)
        if entity != OTHERS:
            self._metrics.parked.labels(self._primary, entity).set(is_parked)
