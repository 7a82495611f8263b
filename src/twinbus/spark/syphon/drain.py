"""What is done with a batch, and between two of them.

Theory of operation. Entities that have parked messages are asked by a ping whether they
take any; where they do, all that waits for them goes with what is new. That is parted
by entity and session, ordered by time, and sent; what an entity does not take, and what
belongs to one that still has parked messages, is deferred behind them. Poison becomes a
dead letter. All that is settled by number, before the batch counts as done; the rest of
it is settled by the stream.

While the primary as a whole does not answer, nothing is settled: the batch fails, and
is read again.
"""

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from twinbus.clock import Clock, SystemClock
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.syphon.gates import Gates
from twinbus.pairing.syphon.ports import RestoreRefusal
from twinbus.pairing.syphon.treatments import TREATMENTS, Treatment, fault_of
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.syphon.backlog import (
    Backlog,
    BacklogSettlement,
    Look,
    other_bounds,
    passed_bounds,
)
from twinbus.spark.syphon.errors import Stopped
from twinbus.spark.syphon.options import SyphonOptions
from twinbus.spark.syphon.outlet import BulkOutlet
from twinbus.spark.syphon.parked import Parked
from twinbus.spark.syphon.restoring import Restoring
from twinbus.spark.syphon.summary import RunTally
from twinbus.spark.syphon.verdicts import Fate, QueueVerdict, of_fate

_log = logging.getLogger(__name__)


class Drain:
    """The driver's part. Batches come on a thread of Spark's, other calls on ours; one
    at a time works."""

    def __init__(
        self,
        spark: SparkSession,
        options: SyphonOptions,
        backlog: Backlog,
        clock: Clock | None = None,
    ) -> None:
        self._backlog = backlog
        self._restoring = Restoring(spark, options, backlog.name)
        self._clock = clock or SystemClock()
        self._gates = Gates(options.settings())
        self._outlet = BulkOutlet(options.connection("primary"), options.timeout_ms)
        self._parked = Parked()
        # Under which leases the book was written, by queue.
        self._epochs: dict[str, str] = {}
        self._mutex = threading.Lock()
        self._is_stopping = False
        self.tally = RunTally()
        # What a batch failed by, since Spark tells it as a text only.
        self.failure: Exception | None = None

    # --- who calls ------------------------------------------------------------

    def batch(self, rows: DataFrame, batch_id: int) -> None:
        """For `foreachBatch`."""
        with self._mutex:
            try:
                if self._is_stopping:
                    raise Stopped("The job was told to stop.")
                self._batch(rows)
            except Exception as error:
                self.failure = error
                raise

    def return_parked(self) -> None:
        """Bring back what can be, while the stream has the leases and nothing to do."""
        with self._mutex:
            self._restore(self._backlog.look())

    def return_last(self) -> Look:
        """The same when no stream has the leases any more. Returns what is left."""
        with self._mutex:
            look = self._backlog.look()
            waiting = [path for path, q in look.items() if q.deferred_count]
            if waiting:
                with self._backlog.held(waiting) as is_held:
                    if is_held:
                        self._restore(self._backlog.look())
                look = self._backlog.look()
            self._learn(look)
            return look

    def look(self) -> Look:
        with self._mutex:
            return self._backlog.look()

    def parked(self) -> dict[str, int]:
        """Messages by entity."""
        return self._parked.counts()

    def stop(self) -> None:
        """Wait for the batch in hand; any other fails at once."""
        self._is_stopping = True
        with self._mutex:
            return

    def close(self) -> None:
        """Let others have the queues at once: what is not settled is anybody's, and
        what was restored of it is known to the primary."""
        self.stop()
        try:
            self._backlog.release(self._backlog.look())
        except BulkError as error:
            _log.info("the leases end by themselves: %s", error)
        self._outlet.close()

    # --- a batch --------------------------------------------------------------

    def _batch(self, rows: DataFrame) -> None:
        look = self._backlog.look()
        self._restore(look, self._restoring.new(rows, look))
        self.tally.batches += 1

    def _restore(self, look: Look, *new: DataFrame) -> None:
        """What is new, and all that waits for entities that take messages again: in
        one pass, for a batch that failed half-way may have deferred what is newer than
        the rest of it."""
        entities = self._returning(look)
        bounds = self._parked.bounds(entities)
        messages = [*new]
        if bounds:
            messages.append(self._restoring.returning(bounds, entities, look))
        if not messages:
            return
        found = self._restoring.restore(messages, self._closed() - entities)
        self._parked.forget_entities(entities)
        self._settle(look, found)

    def _closed(self) -> frozenset[str]:
        """Entities whose messages have to wait. One that is given up is none of them:
        it may have been made just now."""
        now = self._clock.monotonic()
        gates = ((path, self._gates.of(path)) for path in self._gates.closed())
        resting = (
            path
            for path, gate in gates
            if not gate.may_probe(now) and not gate.is_given_up(now)
        )
        return frozenset((*self._parked.entities(), *resting))

    # --- what became of it ----------------------------------------------------

    def _settle(self, look: Look, found: Sequence[QueueVerdict]) -> None:
        """What was new and is restored is left to the stream; what was deferred and
        has to wait is left as it is."""
        settlements: defaultdict[str, BacklogSettlement] = defaultdict(
            BacklogSettlement
        )
        waiting = self._judged(found, settlements)
        for verdict in waiting:
            if not verdict.is_deferred:
                settlements[verdict.queue].defer += verdict.numbers
        for verdict in of_fate(found, Fate.RESTORED, Fate.KNOWN):
            if verdict.is_deferred:
                settlements[verdict.queue].complete += verdict.numbers
        self._backlog.settle(look, settlements)
        for verdict in waiting:
            self._parked.note(verdict.queue, verdict.path, verdict.numbers)
        self._count(found, settlements)

    def _judged(
        self,
        found: Sequence[QueueVerdict],
        settlements: defaultdict[str, BacklogSettlement],
    ) -> list[QueueVerdict]:
        """Open and close the gates of entities that took messages and refused some, and
        add the dead letters. Returns what has to wait."""
        closed = frozenset(self._gates.closed())
        for verdict in of_fate(found, Fate.RESTORED):
            if verdict.path.lower() in closed:
                self._gates.of(verdict.path).open()
        for verdict in of_fate(found, Fate.REFUSED):
            refusal = RestoreRefusal(FailureKind[verdict.reason], verdict.description)
            self._close(verdict.path, refusal)
        for verdict in of_fate(found, Fate.DEAD):
            settlements[verdict.queue].dead_letter += [
                (number, verdict.reason, verdict.description)
                for number in verdict.numbers
            ]
        waiting = []
        for verdict in of_fate(found, Fate.REFUSED, Fate.BEHIND):
            gate = self._gates.of(verdict.path)
            if gate.refusal is None or not gate.is_given_up(self._clock.monotonic()):
                waiting.append(verdict)
                continue
            fault = fault_of(gate.refusal)
            settlements[verdict.queue].dead_letter += [
                (number, fault.reason, fault.description) for number in verdict.numbers
            ]
        return waiting

    def _close(self, path: str, refusal: RestoreRefusal) -> None:
        """The entity does not take messages now."""
        if not self._gates.of(path).close(refusal, self._clock.monotonic()):
            return
        level = logging.WARNING
        if TREATMENTS[refusal.kind] is Treatment.COMPLAIN:
            level = logging.ERROR
        _log.log(level, "%s on the primary is parked: %s", path, refusal.text)

    def _count(
        self,
        found: Sequence[QueueVerdict],
        settlements: defaultdict[str, BacklogSettlement],
    ) -> None:
        for verdict in of_fate(found, Fate.RESTORED):
            self.tally.restored += len(verdict.numbers)
        for verdict in of_fate(found, Fate.KNOWN):
            self.tally.known += len(verdict.numbers)
        for queue, settlement in settlements.items():
            self.tally.deferred += len(settlement.defer)
            texts = {reason: text for _, reason, text in settlement.dead_letter}
            counts = Counter(reason for _, reason, _ in settlement.dead_letter)
            self.tally.dead_lettered += counts
            for reason, count in counts.items():
                _log.warning(
                    "%d messages of %s are dead-lettered as %s: %s",
                    *(count, queue, reason, texts[reason]),
                )

    # --- what was deferred ----------------------------------------------------

    def _learn(self, look: Look) -> None:
        """Find what somebody else has deferred, or taken back."""
        parked = self._parked
        for path in parked.queues() - set(look):
            parked.forget_queue(path)
        for path, queue in look.items():
            # Before a lease was granted anybody may have been here.
            if queue.epoch is not None and queue.epoch != self._epochs.get(path):
                self._epochs[path] = queue.epoch
                parked.forget_queue(path)
        passed = passed_bounds(look, parked)
        for path in passed:
            parked.forget_queue(path)
        parked.learn(self._restoring.spans(passed))
        parked.learn(self._restoring.spans(other_bounds(look, parked)))

    def _returning(self, look: Look) -> frozenset[str]:
        """Entities whose deferred messages can go now: back, or to the dead letters.
        None while the queues are not ours to settle: a stream that has ended may still
        hand us a last batch without anything in it. Raises SideAway."""
        self._learn(look)
        waiting = [queue for queue in look.values() if queue.deferred_count]
        if any(queue.epoch is None for queue in waiting):
            return frozenset()
        spelled = self._parked.entities()
        now = self._clock.monotonic()
        asked = [
            entity
            for entity in spelled
            if entity
            and (
                self._gates.of(entity).is_open or self._gates.of(entity).may_probe(now)
            )
        ]
        refused = self._outlet.ping(asked) if asked else {}
        for entity in asked:
            refusal = refused.get(entity)
            if refusal is None:
                self._gates.of(entity).open()
            else:
                self._close(entity, refusal)
        return frozenset(entity for entity in spelled if self._may_return(entity))

    def _may_return(self, entity: str) -> bool:
        gate = self._gates.of(entity)
        return (
            # Nobody knows whose it is.
            not entity
            or gate.refusal is None
            or gate.is_given_up(self._clock.monotonic())
            # It is the messages that decide.
            or TREATMENTS[gate.refusal.kind] is Treatment.POISON
        )
