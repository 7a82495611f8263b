"""A range reader: behaves like a Spark application that reads one queue.

Its checkpoint survives its crashes: how far it has processed, and the planned batch. It
takes the lease, settles messages before its checkpoint, plans, reads, processes, and
updates the checkpoint. After a crash it returns with the same name and reads the same
batch again. Meanwhile processes of an older epoch may still run.
"""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, final

from simulator.audited_message import AuditedQueue
from simulator.caller import TrustedCaller
from simulator.draft import sighting_in
from simulator.life import Life
from simulator.range_auditor import AuditedBatch, RangeAuditor
from simulator.replies import Reply, replied
from simulator.sighting import Sighting
from twinbus.broker.message import ACTIVE
from twinbus.errors import (
    MessagingEntityNotFound,
    ReaderLeaseHeld,
    ReaderLeaseLost,
)
from twinbus.operations.bulk.requests import (
    BrowseRequest,
    LeaseRequest,
    PlanLimits,
    PlanRequest,
    Poison,
    SettleRequest,
)

_MANY_BYTES: Final = 1 << 20


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    """What a reader keeps through a crash."""

    # Its queue. After the queue is deleted and created again, the numbers are invalid.
    queue: AuditedQueue
    generation: str
    # All messages before this number were processed.
    start: int = 0
    # By number: uids of processed messages that are not known to be settled.
    processed: dict[int, str] = field(default_factory=dict)
    batch: AuditedBatch | None = None


@final
class SimulatedReader:
    """Reads one queue at a time."""

    def __init__(self, name: str, random: Random, auditor: RangeAuditor) -> None:
        self.name = name
        self._caller = TrustedCaller(f"bulk {name}")
        self._random = random
        self._auditor = auditor
        self.path = ""
        self._checkpoint: Checkpoint | None = None
        self._epoch: int | None = None
        # Epochs of processes that may still run after a crash.
        self._old_epochs: list[int] = []
        # True if it has read the batch since its last crash.
        self._has_read = False
        # One request at a time; the next may need its answer.
        self._is_busy = False

    # --- one step -------------------------------------------------------------

    def step(self, life: Life) -> None:
        """Do the next thing, or sometimes release or renew the lease."""
        chance = self._random.random()
        queue = self._auditor.life_of(self.path)
        if self._is_busy or queue is None or not life.has_queue(self.path):
            return
        checkpoint = self._checkpoint
        if checkpoint is None or checkpoint.queue is not queue:
            self._begin(life, queue)
        elif self._epoch is None:
            self._ask(life, self._take(life, checkpoint))
        elif chance < 0.03:
            self._ask(life, self._release(life, checkpoint, self._epoch))
        elif chance < 0.15:
            self._ask(life, self._renew(life, checkpoint, self._epoch))
        else:
            self._go_on(life, checkpoint, self._epoch)

    def _begin(self, life: Life, queue: AuditedQueue) -> None:
        generation = life.namespace.queue(self.path).record.generation.hex()
        self._checkpoint = Checkpoint(queue=queue, generation=generation)
        self._epoch, self._old_epochs, self._has_read = None, [], False

    def _go_on(self, life: Life, checkpoint: Checkpoint, epoch: int) -> None:
        chance, batch = self._random.random(), checkpoint.batch
        if batch is None:
            if checkpoint.processed and chance < 0.8:
                self._ask(life, self._settle(life, checkpoint, epoch))
            else:
                self._ask(life, self._plan(life, checkpoint, epoch))
        elif not self._has_read or chance < 0.3:
            self._ask(life, self._browse(life, checkpoint, batch))
        elif chance < 0.5 and batch.read:
            self._ask(life, self._settle_one(life, batch, epoch))
        else:
            self._note(life, checkpoint, batch)

    def _ask(self, life: Life, request: Coroutine[Any, Any, None]) -> None:
        self._is_busy = True
        life.request(self._answered(request))

    async def _answered(self, request: Coroutine[Any, Any, None]) -> None:
        try:
            await request
        finally:
            self._is_busy = False

    def crash(self, life: Life) -> None:
        """Lose everything but the checkpoint. Old processes may still run."""
        if self._is_busy:
            return
        life.tell(f"reader {self.name} crashes")
        if self._epoch is not None:
            self._old_epochs.append(self._epoch)
        self._epoch, self._has_read = None, False

    def move(self, path: str) -> None:
        """Read another queue from now on."""
        if not self._is_busy and path != self.path:
            self.path, self._checkpoint, self._epoch = path, None, None
            self._old_epochs, self._has_read = [], False

    def haunt(self, life: Life) -> None:
        """A process of an older epoch continues."""
        checkpoint, chance = self._checkpoint, self._random.random()
        if self._is_busy or checkpoint is None or not self._old_epochs:
            return
        if self._auditor.life_of(self.path) is not checkpoint.queue:
            return
        epoch = self._random.choice(self._old_epochs)
        if chance < 0.5:
            self._ask(life, self._settle(life, checkpoint, epoch))
        elif chance < 0.8:
            self._ask(life, self._renew(life, checkpoint, epoch))
        else:
            self._ask(life, self._release(life, checkpoint, epoch))

    def _note(self, life: Life, checkpoint: Checkpoint, batch: AuditedBatch) -> None:
        """Record in the checkpoint that the batch is processed."""
        life.tell(f"reader {self.name} has processed {self.path} to {batch.end}")
        checkpoint.start = batch.end
        checkpoint.processed.update(batch.read)
        checkpoint.batch, self._has_read = None, False

    # --- leases ---------------------------------------------------------------

    async def _take(self, life: Life, checkpoint: Checkpoint) -> None:
        auditor, queue = self._auditor, checkpoint.queue
        duration_ms = self._random.choice((2_000, 15_000, 60_000))
        asked_at, since = life.tell(None), auditor.event
        tokens = auditor.lease_requested(queue, self.name, duration_ms)
        request = LeaseRequest(path=self.path)
        epoch = 0
        with replied(life, f"{self.name} takes {self.path}") as reply:
            (grant,) = await life.bulk.lease(
                self._caller, self.name, duration_ms, [request]
            )
            epoch = int(grant.epoch)
        if reply.is_ok:
            self._epoch = epoch
            auditor.lease_granted(
                *(queue, self.name, epoch, duration_ms),
                tokens=tokens,
                asked_at=asked_at,
                since=since,
            )
        elif reply.is_unknown:
            auditor.lease_unknown(queue, self.name)
        elif isinstance(reply.error, ReaderLeaseHeld):
            auditor.lease_refused(queue, self.name)

    async def _renew(self, life: Life, checkpoint: Checkpoint, epoch: int) -> None:
        auditor, queue = self._auditor, checkpoint.queue
        duration_ms = self._random.choice((2_000, 15_000, 60_000))
        asked_at, since = life.tell(None), auditor.event
        auditor.renewal_requested(queue, self.name, epoch, duration_ms)
        request = LeaseRequest(path=self.path, epoch=str(epoch))
        with replied(life, f"{self.name} renews {self.path} as {epoch}") as reply:
            await life.bulk.lease(self._caller, self.name, duration_ms, [request])
        if reply.is_ok:
            auditor.renewed_lease(
                *(queue, self.name, epoch, duration_ms), asked_at=asked_at, since=since
            )
        self._consider(reply, queue, epoch)

    async def _release(self, life: Life, checkpoint: Checkpoint, epoch: int) -> None:
        auditor, queue = self._auditor, checkpoint.queue
        auditor.release_requested(queue, self.name, epoch)
        request = LeaseRequest(path=self.path, epoch=str(epoch))
        with replied(life, f"{self.name} gives {self.path} back as {epoch}"):
            await life.bulk.release(self._caller, self.name, [request])
        if epoch == self._epoch:
            self._epoch = None

    def _consider(self, reply: Reply, queue: AuditedQueue, epoch: int) -> None:
        """Update the lease after an error."""
        if isinstance(reply.error, ReaderLeaseLost):
            self._auditor.lease_lost(queue, self.name, epoch)
            if epoch == self._epoch:
                self._epoch = None
        elif isinstance(reply.error, MessagingEntityNotFound):
            self._epoch = None

    # --- batches --------------------------------------------------------------

    async def _plan(self, life: Life, checkpoint: Checkpoint, epoch: int) -> None:
        auditor, queue = self._auditor, checkpoint.queue
        limit = self._random.choice((1, 5, 1_000))
        limits = PlanLimits(
            max_messages=limit,
            max_bytes=_MANY_BYTES,
            split_messages=3,
            is_aligned=self._random.random() < 0.5,
        )
        request = PlanRequest(
            path=self.path,
            generation=checkpoint.generation,
            epoch=str(epoch),
            firsts={0: checkpoint.start},
        )
        since, end, count = auditor.event, 0, 0
        with replied(
            life, f"{self.name} plans {self.path} from {checkpoint.start} as {epoch}"
        ) as reply:
            (planned,) = await life.bulk.plan(
                self._caller, self.name, [request], limits
            )
            end = planned.end
            count = sum(split.message_count for split in planned.splits)
        if reply.is_ok:
            life.tell(f"{self.name} is promised {count} before {end}")
            is_all = count < limit and not limits.is_aligned
            batch = auditor.planned(
                *(queue, self.name, epoch, checkpoint.start, end, count),
                is_all=is_all,
                since=since,
            )
            if count:
                checkpoint.batch, self._has_read = batch, False
        else:
            auditor.plan_failed(queue, self.name)
        self._consider(reply, queue, epoch)

    async def _browse(
        self, life: Life, checkpoint: Checkpoint, batch: AuditedBatch
    ) -> None:
        since = self._auditor.event
        seen: list[Sighting] = []
        with replied(
            life, f"{self.name} reads {self.path} from {batch.first} to {batch.end}"
        ) as reply:
            await self._read(life, checkpoint, batch, seen)
        if reply.is_ok:
            self._auditor.browsed(batch, seen, since=since)
            self._has_read = True
        if isinstance(reply.error, MessagingEntityNotFound):
            self._epoch = None

    async def _read(
        self,
        life: Life,
        checkpoint: Checkpoint,
        batch: AuditedBatch,
        seen: list[Sighting],
    ) -> None:
        """Read the whole range, in as many requests as needed."""
        at = batch.first
        while at < batch.end:
            request = BrowseRequest(
                path=self.path,
                generation=checkpoint.generation,
                index=0,
                first=at,
                end=batch.end,
                columns=["raw"],
                states=frozenset((ACTIVE,)),
                max_bytes=self._random.choice((300, _MANY_BYTES)),
            )
            async for portion in life.bulk.browse(self._caller, request):
                for raw in portion.columns["raw"]:
                    assert isinstance(raw, bytes)
                    seen.append(sighting_in(raw, self.path, False)[0])
                at = portion.next

    # --- settling -------------------------------------------------------------

    async def _settle(self, life: Life, checkpoint: Checkpoint, epoch: int) -> None:
        auditor, queue, end = self._auditor, checkpoint.queue, checkpoint.start
        processed = dict(checkpoint.processed)
        name = auditor.range_requested(processed, end)
        request = SettleRequest(path=self.path, epoch=str(epoch), ends={0: end})
        with replied(
            life, f"{self.name} settles {self.path} before {end} as {epoch}"
        ) as reply:
            await life.bulk.settle(self._caller, self.name, [request])
        if reply.is_ok:
            auditor.range_settled(name, queue, self.name, epoch, processed, end)
            checkpoint.processed.clear()
        elif reply.is_unknown:
            auditor.range_unknown(name, queue, processed, end)
        else:
            auditor.range_refused(name, processed, end)
        self._consider(reply, queue, epoch)

    async def _settle_one(self, life: Life, batch: AuditedBatch, epoch: int) -> None:
        """Dead-letter or defer one message of the batch."""
        auditor, random = self._auditor, self._random
        number = random.choice(sorted(batch.read))
        uid, kind = batch.read[number], random.choice(("defer", "dead-letter"))
        name = auditor.single_requested(batch, uid, kind)
        if kind == "defer":
            request = SettleRequest(path=self.path, epoch=str(epoch), defer=[number])
        else:
            poison = Poison(sequence_number=number, reason="Poison", description="")
            request = SettleRequest(
                path=self.path, epoch=str(epoch), dead_letter=[poison]
            )
        count = 0
        with replied(life, f"{self.name} settles {uid}: {kind}") as reply:
            (settled,) = await life.bulk.settle(self._caller, self.name, [request])
            count = settled.deferred + settled.dead_lettered
        if reply.is_ok:
            auditor.single_settled(name, batch, uid, epoch, count)
        else:
            auditor.single_unknown(name, uid)
        self._consider(reply, batch.queue, epoch)
