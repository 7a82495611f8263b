"""Judges a world in which readers of ranges take leases of queues.

A lease that was granted lasts, over restarts and failed commits, until the clock has
shown its end or it is requested again. While it lasts,

- receivers get no messages and no sessions, and no other reader is granted it;
- the planned messages are there, all of them and no others, in every read;
- only its current epoch is accepted.

Messages that a reader settles are gone; those that it has not read stay. A range never
grows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from simulator.audited_message import (
    ACTIVE,
    DEAD,
    DEFERRED,
    GONE,
    MAIN_PLACES,
    AuditedMessage,
    AuditedQueue,
)
from simulator.auditor import Auditor
from simulator.history import History
from simulator.judgement import PLACES, Judgement
from simulator.session_audit import SessionAudit
from simulator.sighting import Sighting, Violation

_SINGLE: Final = "single"
"""Names of requests that settle one message begin with this."""


@dataclass(slots=True, kw_only=True, eq=False)
class AuditedLease:
    """A lease that a reader was granted."""

    reader: str
    epoch: int
    # Since this event no other reader can have had the queue.
    kept_since: int
    # It lasts until the clock has shown `ends_at` after event `granted_event`.
    granted_event: int
    ends_at: int
    duration_ms: int
    # Its reader requested it again, and the outcome is unknown.
    is_epoch_unsure: bool = False
    # First and last number of what is promised; None: not known.
    planned: tuple[int, int] | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class AuditedBatch:
    """Messages that were planned together."""

    queue: AuditedQueue
    reader: str
    first: int
    end: int
    count: int
    # Event at which the plan was answered.
    planned_event: int
    # All messages of it that were ever read, by number.
    read: dict[int, str] = field(default_factory=dict)
    # Messages settled individually: requested, and confirmed.
    asked: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)


class SessionsBesideReaders(SessionAudit):
    """No session is granted while a reader has the whole queue."""

    def __init__(
        self,
        history: History,
        judgement: Judgement,
        queues: Mapping[str, AuditedQueue],
        locked: dict[bytes, AuditedMessage],
        held: Callable[[AuditedQueue | None], AuditedLease | None],
    ) -> None:
        super().__init__(history, judgement, queues, locked)
        self._lease_of = held

    def granted(
        self,
        path: str,
        session_id: str,
        holder: int,
        locked_until: int,
        *,
        was_named: bool,
        takes: bool,
    ) -> None:
        lease = self._lease_of(self._queues.get(path))
        if lease is not None:
            raise Violation(
                f"session {session_id} of {path} was given to receiver {holder} while "
                f"{lease.reader} reads"
            )
        super().granted(
            *(path, session_id, holder, locked_until), was_named=was_named, takes=takes
        )


class RangeAuditor(Auditor):
    """Knows what was promised to readers."""

    def __init__(self) -> None:
        super().__init__()
        # The last lease of each queue that was certainly granted, and not given back.
        self._leases: dict[AuditedQueue, AuditedLease] = {}
        # The highest epoch that was answered, and all readers that ever asked.
        self._epochs: dict[AuditedQueue, int] = {}
        self._askers: dict[AuditedQueue, set[str]] = {}
        self._settle_count = 0
        self.sessions = SessionsBesideReaders(
            *(self._history, self._judgement, self._queues, self._locked), self._held
        )

    def tell_time(self, now: int) -> None:
        """A clock that is set back does not extend a lease."""
        if now < self._history.now:
            for lease in self._leases.values():
                lease.ends_at = min(lease.ends_at, now + lease.duration_ms)
        super().tell_time(now)

    # --- leases ---------------------------------------------------------------

    def _held(self, queue: AuditedQueue | None) -> AuditedLease | None:
        """The lease that certainly is held now, or None."""
        lease = None if queue is None else self._leases.get(queue)
        if lease is None or queue is None or queue.is_ending:
            return None
        if self._history.highest_since(lease.granted_event) >= lease.ends_at:
            return None
        return lease

    def lease_requested(
        self, queue: AuditedQueue, reader: str, duration_ms: int
    ) -> set[bytes]:
        """Locks and sessions may be revoked from now on; returns the locks."""
        for session in queue.held.values():
            session.is_over = True
        self._askers.setdefault(queue, set()).add(reader)
        lease = self._leases.get(queue)
        if lease is not None and lease.reader == reader:
            lease.is_epoch_unsure = True
            self._shorten(lease, duration_ms)
        tokens = set()
        for message in self._judgement.of(queue):
            lock = message.lock
            if lock is not None and lock.place in MAIN_PLACES:
                lock.may_be_revoked = True
                tokens.add(lock.token)
        return tokens

    def lease_granted(
        self,
        queue: AuditedQueue,
        reader: str,
        epoch: int,
        duration_ms: int,
        *,
        tokens: set[bytes],
        asked_at: int,
        since: int,
    ) -> None:
        """The lease was requested at event `since`, when these locks existed."""
        if queue.is_ending or self._queues.get(queue.path) is not queue:
            return
        held, last = self._held(queue), self._leases.get(queue)
        if held is not None and held.reader != reader:
            raise Violation(
                f"{reader} was granted {queue.path}, which {held.reader} has until "
                f"{held.ends_at}"
            )
        if epoch <= self._epochs.get(queue, 0):
            raise Violation(f"{queue.path} gave out epoch {epoch} again")
        self._epochs[queue] = epoch
        self._revoke(queue, tokens)
        self._leases[queue] = AuditedLease(
            reader=reader,
            epoch=epoch,
            kept_since=self.event if held is None else held.kept_since,
            granted_event=since,
            ends_at=min(asked_at, self._history.now) + duration_ms,
            duration_ms=duration_ms,
            planned=last.planned
            if last is not None and last.reader == reader
            else None,
        )

    def _revoke(self, queue: AuditedQueue, tokens: set[bytes]) -> None:
        """These locks are revoked, without counting a delivery. Locks taken since they
        were listed may be revoked, too."""
        for message in self._judgement.of(queue):
            lock = message.lock
            if lock is None or lock.place not in MAIN_PLACES:
                continue
            if lock.token in tokens:
                self._forget_lock(message, lock.token)
            else:
                lock.may_be_revoked = True

    def lease_refused(self, queue: AuditedQueue, reader: str) -> None:
        """Refused because another reader has it."""
        if self._askers[queue] == {reader}:
            raise Violation(f"{reader} was refused {queue.path}, which nobody else has")

    def lease_unknown(self, queue: AuditedQueue, reader: str) -> None:
        """Another reader may have it now, unless one certainly has it."""
        if self._held(queue) is None:
            self._leases.pop(queue, None)

    def renewal_requested(
        self, queue: AuditedQueue, reader: str, epoch: int, duration_ms: int
    ) -> None:
        lease = self._leases.get(queue)
        if lease is not None and (lease.reader, lease.epoch) == (reader, epoch):
            self._shorten(lease, duration_ms)

    def _shorten(self, lease: AuditedLease, duration_ms: int) -> None:
        """Its reader may have shortened it."""
        lease.duration_ms = min(lease.duration_ms, duration_ms)
        lease.ends_at = min(lease.ends_at, self._history.now + duration_ms)

    def renewed_lease(
        self,
        queue: AuditedQueue,
        reader: str,
        epoch: int,
        duration_ms: int,
        *,
        asked_at: int,
        since: int,
    ) -> None:
        self._check_epoch(queue, reader, epoch, "renewed its lease")
        lease = self._leases.get(queue)
        if lease is not None and lease.epoch == epoch:
            lease.is_epoch_unsure = False
            lease.granted_event, lease.duration_ms = since, duration_ms
            lease.ends_at = min(asked_at, self._history.now) + duration_ms

    def release_requested(self, queue: AuditedQueue, reader: str, epoch: int) -> None:
        """From now on nothing is promised, unless the request has an older epoch."""
        lease = self._leases.get(queue)
        if lease is None or lease.reader != reader:
            return
        if lease.epoch == epoch or lease.is_epoch_unsure:
            del self._leases[queue]

    def _check_epoch(
        self, queue: AuditedQueue, reader: str, epoch: int, what: str
    ) -> None:
        """Raises Violation if the epoch is older than one that was granted."""
        highest = self._epochs.get(queue, 0)
        if epoch < highest:
            raise Violation(
                f"{reader} {what} of {queue.path} with epoch {epoch}; {highest} was "
                "granted"
            )

    def lease_lost(self, queue: AuditedQueue, reader: str, epoch: int) -> None:
        """The reply says that the reader has no lease, or an older epoch."""
        lease = self._held(queue)
        if lease is None or lease.is_epoch_unsure:
            return
        if lease.reader == reader and lease.epoch == epoch:
            raise Violation(
                f"{reader} has {queue.path} until {lease.ends_at} and was refused at "
                f"{self._history.now}"
            )

    def life_of(self, path: str) -> AuditedQueue | None:
        """The current queue with that path."""
        return self._queues.get(path)

    # --- plans ----------------------------------------------------------------

    def planned(
        self,
        queue: AuditedQueue,
        reader: str,
        epoch: int,
        first: int,
        end: int,
        count: int,
        *,
        is_all: bool,
        since: int,
    ) -> AuditedBatch:
        """The plan was requested at event `since`; `is_all`: no limit was reached."""
        self._check_epoch(queue, reader, epoch, "planned")
        lease = self._leases.get(queue)
        if lease is not None and lease.epoch == epoch:
            old = lease.planned
            begins = first
            if old is not None and old[0] <= first <= old[1] + 1:
                begins = old[0]
            lease.planned = (begins, end - 1)
        if is_all:
            self._check_nothing_left_out(queue, end, since)
        return AuditedBatch(
            queue=queue,
            reader=reader,
            first=first,
            end=end,
            count=count,
            planned_event=self.event,
        )

    def plan_failed(self, queue: AuditedQueue, reader: str) -> None:
        """It is unknown what is promised."""
        lease = self._leases.get(queue)
        if lease is not None and lease.reader == reader:
            lease.planned = None

    def _check_nothing_left_out(
        self, queue: AuditedQueue, end: int, since: int
    ) -> None:
        for message in self._judgement.of(queue):
            number = message.sequence_numbers.get("main", 0)
            if (
                number >= end
                and message.touched_event < since
                and self._judgement.may_be_at(message) == {ACTIVE}
            ):
                raise Violation(f"{message.uid} is active and was not planned")

    def _is_promised(self, batch: AuditedBatch) -> bool:
        """The whole batch has been kept since it was planned."""
        lease = self._held(batch.queue)
        return (
            lease is not None
            and lease.reader == batch.reader
            and lease.planned is not None
            and lease.kept_since <= batch.planned_event
            and lease.planned[0] <= batch.first
            and batch.end - 1 <= lease.planned[1]
        )

    def browsed(self, batch: AuditedBatch, seen: list[Sighting], *, since: int) -> None:
        """The batch was read; this was requested at event `since`."""
        found = {one.sequence_number: one.uid for one in seen}
        if list(found) != sorted(found) or len(found) < len(seen):
            raise Violation(f"{batch.reader} read numbers in disorder: {list(found)}")
        for one in seen:
            if not batch.first <= one.sequence_number < batch.end:
                raise Violation(f"{one.uid} is not of the range that was read")
            message = self._judgement.known(one)
            if message.touched_event < since:
                self._judgement.check(message, one)
        self._check_growth(batch, found)
        if self._is_promised(batch):
            self._check_promise(batch, found)
        batch.read.update(found)

    def _check_growth(self, batch: AuditedBatch, found: dict[int, str]) -> None:
        together = {**batch.read, **found}
        if len(together) > batch.count or batch.read != {
            number: together[number] for number in batch.read
        }:
            raise Violation(
                f"{batch.count} messages of {batch.queue.path} were planned from "
                f"{batch.first} to {batch.end}, and {together} were read"
            )

    def _check_promise(self, batch: AuditedBatch, found: dict[int, str]) -> None:
        least = batch.count - len(batch.asked)
        most = batch.count - len(batch.settled)
        if not least <= len(found) <= most:
            raise Violation(
                f"{batch.reader} was promised {batch.count} messages of "
                f"{batch.queue.path} from {batch.first} to {batch.end}, "
                f"{len(batch.settled)} are settled, and {found} are there"
            )

    # --- settling -------------------------------------------------------------

    def range_requested(self, processed: dict[int, str], end: int) -> str:
        """Settle all processed messages before a number; returns the request's name."""
        self._settle_count += 1
        name = f"range {self._settle_count}"
        for message in self._before(processed, end).values():
            if ACTIVE in self._judgement.may_be_at(message):
                message.begin(name, frozenset((GONE,)))
        return name

    def _before(self, processed: dict[int, str], end: int) -> dict[int, AuditedMessage]:
        """The messages that a settlement concerns, by number."""
        return {
            number: self._touched(uid)
            for number, uid in processed.items()
            if number < end
        }

    def range_settled(
        self,
        name: str,
        queue: AuditedQueue,
        reader: str,
        epoch: int,
        processed: dict[int, str],
        end: int,
    ) -> None:
        self._check_epoch(queue, reader, epoch, "settled a range")
        lease = self._leases.get(queue)
        planned = None
        if lease is not None and lease.epoch == epoch:
            planned = lease.planned
        for number, message in self._before(processed, end).items():
            message.did_not_happen(name)
            # Or it had left the queue before, depending on time.
            may_be_at = self._judgement.may_be_at(message)
            if ACTIVE not in may_be_at:
                continue
            if planned is not None and planned[0] <= number <= planned[1]:
                may_be_at.discard(ACTIVE)
            message.places = may_be_at | {GONE}
            message.is_excused = False
        if planned is not None and lease is not None:
            lease.planned = (max(planned[0], end), planned[1])

    def range_refused(self, name: str, processed: dict[int, str], end: int) -> None:
        for message in self._before(processed, end).values():
            message.did_not_happen(name)

    def range_unknown(
        self, name: str, queue: AuditedQueue, processed: dict[int, str], end: int
    ) -> None:
        for message in self._before(processed, end).values():
            message.may_have_happened(name)
        lease = self._leases.get(queue)
        if lease is not None:
            lease.planned = None

    def single_requested(self, batch: AuditedBatch, uid: str, kind: str) -> str:
        """A request to defer or dead-letter one message of a batch."""
        self._settle_count += 1
        name = f"{_SINGLE} {self._settle_count}: {kind}"
        message = self._touched(uid)
        batch.asked.add(uid)
        if kind == "dead-letter":
            message.reasons.add("Poison")
        place = DEAD if kind == "dead-letter" else DEFERRED
        message.begin(name, frozenset((place,)))
        return name

    def single_settled(
        self, name: str, batch: AuditedBatch, uid: str, epoch: int, count: int
    ) -> None:
        self._check_epoch(batch.queue, batch.reader, epoch, "settled")
        message = self._touched(uid)
        if count:
            batch.settled.add(uid)
            # Unless it was received since, from where it was moved to.
            if name in message.under_way:
                message.happened(name)
            return
        message.did_not_happen(name)
        if self._is_promised(batch) and self._judgement.may_be_at(message) == {ACTIVE}:
            raise Violation(f"{uid} is active, promised, and could not be settled")

    def single_unknown(self, name: str, uid: str) -> None:
        """Unknown or refused: the first of its several commits may have happened."""
        self._touched(uid).may_have_happened(name)

    # --- receivers ------------------------------------------------------------

    def delivered(self, seen: Sighting, token: bytes, locked_until: int) -> None:
        self._received(seen)
        super().delivered(seen, token, locked_until)
        self._forget_singles(seen)

    def delivered_for_good(self, seen: Sighting) -> None:
        self._received(seen)
        super().delivered_for_good(seen)
        self._forget_singles(seen)

    def _received(self, seen: Sighting) -> None:
        self._check_nobody_reads(seen)
        message = self._judgement.known(seen)
        lock = message.lock
        if lock is not None and lock.may_be_revoked:
            self._forget_lock(message, lock.token)

    def _forget_singles(self, seen: Sighting) -> None:
        """A reader has settled the message, otherwise it could not be received here;
        the reply is still to come."""
        message = self._judgement.messages[seen.uid]
        place = PLACES[seen.dead_letter, seen.state]
        for name, places in list(message.under_way.items()):
            if name.startswith(_SINGLE) and places == {place}:
                del message.under_way[name]

    def _check_nobody_reads(self, seen: Sighting) -> None:
        if seen.dead_letter or seen.state != "active":
            return
        lease = self._held(self._queues.get(seen.path))
        if lease is not None:
            raise Violation(
                f"{seen.uid} was delivered while {lease.reader} has {seen.path} until "
                f"{lease.ends_at}"
            )

    def settle_refused(
        self, token: bytes, uid: str, kind: str, *, lock_lost: bool
    ) -> None:
        lock_lost = lock_lost and not self._may_be_revoked(token, uid)
        super().settle_refused(token, uid, kind, lock_lost=lock_lost)

    def renew_refused(self, token: bytes, uid: str) -> None:
        if not self._may_be_revoked(token, uid):
            super().renew_refused(token, uid)

    def commit_refused(self, tokens: list[tuple[bytes, str]]) -> None:
        if not any(self._may_be_revoked(token, uid) for token, uid in tokens):
            super().commit_refused(tokens)

    def _may_be_revoked(self, token: bytes, uid: str) -> bool:
        lock = self._judgement.messages[uid].lock
        return lock is not None and lock.token == token and lock.may_be_revoked
