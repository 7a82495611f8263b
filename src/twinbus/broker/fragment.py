"""A fragment: the aggregate that holds messages, in order, with one owner.

A conventional queue is one fragment, its dead-letter queue another; a partitioned
entity has many. Commands are applied from start to end without interruption. Each
writes what must become durable into the change set it is given and changes the
fragment's memory at once, with two exceptions that wait for the commit: new
messages become visible, and messages that came back become ready (D13). When a
commit fails the fragment is thrown away and restored from its store, so nothing
here ever has to be undone.

    enqueue -> pending -> (commit) -> window -> lock -> settle -> (commit) -> gone
                                        ^                 |
                                        +---- coming_back +

Theory of order: sequence numbers are given out in the order of enqueueing and
become visible in that order, because one change set follows the other; the
enqueued time never goes back within a fragment even if the clock does (D6).

A topic's fragment hands what becomes active to its router instead of keeping it. Where
sessions are required the window is not used: each held session has its own.

Settlement, scheduling, expiry and sessions are rooms of their own beside this one.
"""

from typing import Final, Protocol, final

from twinbus.broker import operation_log
from twinbus.broker.changes import ChangeSet, FragmentRecord, ReaderLease
from twinbus.broker.dead_letter import dead_letter_of
from twinbus.broker.expiry_heap import ExpiryHeap
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.held_session import HeldSession
from twinbus.broker.home import Home
from twinbus.broker.kept_bodies import KeptBodies
from twinbus.broker.message import ACTIVE, LEAVING, LOCKED, READY, Message
from twinbus.broker.message_lock import (
    ENTROPY_BYTES,
    WITH_ITS_SESSION,
    MessageLock,
    token_prefix,
    token_sequence,
)
from twinbus.broker.router import Router
from twinbus.broker.row_id import base_of, sequence_of
from twinbus.broker.sessions import Sessions
from twinbus.broker.size_quota import SizeQuota
from twinbus.broker.window import Window
from twinbus.errors import (
    MessageLockLost,
    MessagingEntityNotFound,
    QuotaExceeded,
    ServiceBusError,
    SessionLockLost,
)

# Which queue of an entity's fragment this is. Part of the stored format.
MAIN: Final = 0
DEAD_LETTER: Final = 1
TRANSFER_DEAD_LETTER: Final = 2


class SubQueues(Protocol):
    """Finds a fragment's sub-queue, making it at the first need."""

    def sub_queue_of(self, fragment: "Fragment", sub_queue: int) -> "Fragment": ...


@final
class Fragment:
    """Messages of one entity (or one part of it) in one store."""

    def __init__(
        self,
        record: FragmentRecord,
        settings: FragmentSettings,
        epoch: int,
        sub_queues: SubQueues,
        quota: SizeQuota,
        router: Router | None = None,
        bodies: KeptBodies | None = None,
        home: Home | None = None,
    ) -> None:
        # Whoever commits what happens here.
        self.home: Home = Home() if home is None else home
        self.number: int = record.number
        self.generation: bytes = record.generation
        self.index: int = record.index
        self.sub_queue: int = record.sub_queue
        # Row id of sequence number zero.
        self.base: int = base_of(record.number)
        # Upper bits of the sequence numbers clients see (T15).
        self.visible_base: int = record.index << 48
        self.settings: FragmentSettings = settings
        self._sub_queues: SubQueues = sub_queues
        # Shared by all that counts against the entity's size.
        self._quota: SizeQuota = quota
        # Of a topic's fragment: where its messages go.
        self.router: Router | None = router
        # Of all fragments of the store: the bytes of what is locked.
        self.bodies: KeptBodies = KeptBodies() if bodies is None else bodies
        # The entity was deleted; whoever still holds on to this finds nothing.
        self.is_dropped: bool = False
        # Pings that were taken since the start: they are counted apart from messages.
        self.ping_count: int = 0
        # The reader for whom the fragment stands still (`reader_lease.py`), until the
        # end of that is durable; and the last one there was.
        self.lease: ReaderLease | None = None
        self.last_lease: ReaderLease | None = None
        # The lease as the commit under way has it.
        self._sealed_lease: ReaderLease | None = None
        # How often memory had to be thrown away: what rests on it is void then.
        self.restore_count: int = 0
        # Plans that were begun for the reader: of those under way the last counts.
        self.plan_count: int = 0
        self.locks: dict[int, MessageLock] = {}
        self._restore(record)
        self._token_prefix: bytes = token_prefix(record.index, epoch)

    def _restore(self, record: FragmentRecord) -> None:
        # Persisted counters.
        self.next_sequence: int = record.next_sequence
        self.last_enqueued_at: int = record.last_enqueued_at
        self.active_count: int = record.active_count
        self.deferred_count: int = record.deferred_count
        self.scheduled_count: int = record.scheduled_count
        self.size_bytes: int = record.size_bytes
        # Ready messages.
        self.window: Window = Window(record.next_sequence - 1)
        # Where sessions are required.
        self.sessions: Sessions | None = (
            Sessions() if self.settings.requires_session else None
        )
        # Time to live of the messages in the window.
        self.expiries: ExpiryHeap = ExpiryHeap()
        # Live locks by row id, the one that ends first in front: the duration is
        # the same for all, and a renewal moves its lock to the end.
        for lock in self.locks.values():
            self.bodies.held_bytes -= len(lock.message.raw)
        self.locks = {}
        # The end of the last lock in that order; one that ends before it (the
        # duration was shortened, the clock set back) breaks the order for a while.
        self._latest_end: int = 0
        self._locks_are_ordered: bool = True
        # Scheduled messages that transactions are going to cancel, by row id: who.
        self.cancelling: dict[int, object] = {}
        # Enqueued, not durable yet.
        self._pending: list[Message] = []
        # Come back, not durable yet.
        self._coming_back: list[Message] = []
        # The open change set that knows this fragment.
        self._touched_by: ChangeSet | None = None

    # --- what a store keeps ---------------------------------------------------

    def restore(self, record: FragmentRecord) -> None:
        """Forget everything in memory and believe the store: every lock is lost,
        every message that was taken is ready again."""
        is_wide = self.window.is_wide()
        sessions = self.sessions
        self.restore_count += 1
        self._restore(record)
        if is_wide:
            self.window.open_wide()
        if sessions is not None and self.sessions is not None:
            self.sessions.waiters = sessions.waiters

    def renew_epoch(self, epoch: int) -> None:
        """The store was opened again: tokens of before mean nothing."""
        self._token_prefix = token_prefix(self.index, epoch)

    def leave_to_disk(self) -> None:
        """Hold no ready message any more: when they are wanted they are read anew, and
        so are those that are coming back."""
        is_wide = self.window.is_wide()
        self.window.let_go()
        self.window = Window(self.window.tail)
        if is_wide:
            self.window.open_wide()
        self.expiries = ExpiryHeap()
        self._coming_back = []

    def drop(self) -> None:
        """The entity is gone: no message, no lock and no timer is left of it, and
        nothing gets in any more. A store forgets numbers after it has purged their
        rows; a row written after that would belong to the number's next user."""
        self.is_dropped = True
        self.lease = self.last_lease = None
        self._restore(self.record())

    def check_exists(self) -> None:
        """Raises MessagingEntityNotFound if the entity was deleted."""
        if self.is_dropped:
            raise MessagingEntityNotFound(entity_path=self.settings.path)

    def record(self) -> FragmentRecord:
        return FragmentRecord(
            number=self.number,
            generation=self.generation,
            index=self.index,
            sub_queue=self.sub_queue,
            next_sequence=self.next_sequence,
            last_enqueued_at=self.last_enqueued_at,
            active_count=self.active_count,
            deferred_count=self.deferred_count,
            scheduled_count=self.scheduled_count,
            size_bytes=self.size_bytes,
        )

    def touch(self, changes: ChangeSet) -> None:
        """Have this fragment's counters written by the commit."""
        if self._touched_by is not changes:
            changes.check_home(self)
            self._touched_by = changes
            changes.touched.append(self)

    def seal(self, changes: ChangeSet) -> None:
        """The change set is closed; hand it what becomes visible with it."""
        changes.published.append(self._pending)
        changes.returned.append(self._coming_back)
        changes.freed.append([] if self.sessions is None else self.sessions.seal())
        self._sealed_lease = self.lease
        self._pending = []
        self._coming_back = []
        self._touched_by = None

    def publish(
        self,
        messages: list[Message],
        returned: list[Message],
        freed: list[HeldSession],
    ) -> None:
        """The commit happened: new and returned messages are ready, and sessions
        that were given up are free."""
        if self.is_dropped:
            return
        self._end_lease()
        if self.sessions is not None:
            self._publish_to_sessions(self.sessions, messages, returned, freed)
            return
        if self.lease is not None:
            # Receivers are kept away; when it ends all is read anew.
            if messages:
                self.window.tail = sequence_of(messages[-1].row_id)
            return
        if messages:
            self.window.publish(messages)
            for message in messages:
                if message.expires_at != 0 and message.place == READY:
                    self.expiries.watch(message)
        for message in returned:
            self._make_ready(message)

    def _end_lease(self) -> None:
        """Of a lease that is over by the commit that happened; not if it was granted
        again meanwhile."""
        lease = self.lease
        if lease is not None and lease.expires_at == 0 and lease is self._sealed_lease:
            self.lease = None

    def _publish_to_sessions(
        self,
        sessions: Sessions,
        messages: list[Message],
        returned: list[Message],
        freed: list[HeldSession],
    ) -> None:
        for message in messages:
            self.window.tail = sequence_of(message.row_id)
            session = sessions.live(message.session_id)
            if session is not None:
                session.window.publish([message])
                self._watch_ready(message)
                sessions.stir(session)
            elif message.session_id is not None:
                sessions.note_free(message.session_id)
        for message in returned:
            session = sessions.live(message.session_id)
            if session is not None:
                session.returning_count -= 1
                session.window.give_back(message)
                self._watch_ready(message)
                sessions.stir(session)
        sessions.freed(freed)

    def _watch_ready(self, message: Message) -> None:
        if message.expires_at != 0 and message.place == READY:
            self.expiries.watch(message)

    def refill(
        self, messages: list[Message], through: int, session: HeldSession | None = None
    ) -> None:
        """Messages read from the store, the next ones after the window."""
        window = self.window if session is None else session.window
        window.refill(messages, through)
        for message in messages:
            if message.expires_at != 0:
                self.expiries.watch(message)

    def unseen_count(self) -> int:
        """Active messages that memory knows nothing of: none once the window has
        reached the tail. Rather too few: what is about to leave counts as known."""
        known_count = self.window.ready_count() + len(self.locks)
        known_count += len(self._pending) + len(self._coming_back)
        return self.active_count - known_count

    def _make_ready(self, message: Message) -> None:
        self.window.give_back(message)
        if message.expires_at != 0:
            self.expiries.watch(message)

    def the_sessions(self) -> Sessions:
        """Of a fragment that requires sessions."""
        assert self.sessions is not None, self.settings.path
        return self.sessions

    def is_in_memory(self, message: Message) -> bool:
        """Memory is in charge of this active message that the disk has, too."""
        sequence = sequence_of(message.row_id)
        if self.sessions is None:
            return sequence <= self.window.loaded_through
        if message.session_id is None or message.session_id not in self.sessions.held:
            return False
        session = self.sessions.held[message.session_id]
        return session.is_released or sequence <= session.window.loaded_through

    # --- enqueueing -----------------------------------------------------------

    def sequence_number(self, message: Message) -> int:
        """The number that clients see."""
        return self.visible_base | sequence_of(message.row_id)

    def row_id(self, sequence_number: int) -> int:
        """The row id of a number that a client sent."""
        return self.base + sequence_of(sequence_number)

    def check_quota(self, size_bytes: int) -> None:
        """Raises QuotaExceeded if that much more does not fit, or
        MessagingEntityNotFound if nothing does."""
        self.check_exists()
        limit = self.settings.max_size_bytes
        if self._quota.used_bytes + size_bytes > limit:
            raise QuotaExceeded.measured(
                "size in bytes",
                limit=limit,
                actual=self._quota.used_bytes + size_bytes,
                entity_path=self.settings.path,
            )

    def resize(self, added_bytes: int) -> None:
        """So much more, or less, is held here."""
        self.size_bytes += added_bytes
        self._quota.used_bytes += added_bytes

    def enqueue(
        self, message: Message, actor: int, now: int, changes: ChangeSet
    ) -> None:
        """Accept a message: the next sequence number, visible after the commit."""
        self._place(message, now, changes)
        changes.log.record(operation_log.SEND, actor, message, now)

    def _place(self, message: Message, now: int, changes: ChangeSet) -> None:
        """Give the message its number, its times and its row."""
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        if now < self.last_enqueued_at:
            now = self.last_enqueued_at
        else:
            self.last_enqueued_at = now
        message.row_id = self.base + sequence
        message.enqueued_at = now
        message.state = ACTIVE
        settings = self.settings
        ttl_ms = message.ttl_ms
        default_ttl_ms = settings.default_ttl_ms
        if default_ttl_ms != 0 and (ttl_ms == 0 or ttl_ms > default_ttl_ms):
            ttl_ms = message.ttl_ms = default_ttl_ms
        if ttl_ms != 0 and not settings.is_dead_letter_queue:
            message.expires_at = now + ttl_ms
        self.touch(changes)
        if self.router is not None:
            self.router.route(self, message, now, changes)
            return
        if not settings.requires_session:
            message.session_id = None
        if message.is_shared:
            changes.bodies_taken.append(message.body_id)
        self.active_count += 1
        size_bytes = len(message.raw) + message.absent_bytes
        self.resize(size_bytes)
        self._pending.append(message)
        if message.copied_from != 0 and not message.is_shared:
            changes.active_moved.append(message)
        else:
            changes.active_added.append(message)
        changes.pending_bytes += len(message.raw)

    def take_ping(
        self, size_bytes: int, actor: int, now: int, changes: ChangeSet
    ) -> None:
        """Somebody wants to know whether a message would be taken: the commit of this
        says so, and nothing else comes of it (P11)."""
        self.ping_count += 1
        changes.ping_count += 1
        changes.log.add(operation_log.PING, actor, self.base, size_bytes, now, now)

    def adopt(self, message: Message, now: int, changes: ChangeSet) -> None:
        """Take over a message that another place let go: an activated schedule, a
        dead letter, a topic, what was forwarded. It gets a new sequence number."""
        self._place(message, now, changes)

    # --- delivering -----------------------------------------------------------

    def take(
        self,
        count: int,
        now: int,
        changes: ChangeSet,
        session: HeldSession | None = None,
    ) -> list[Message]:
        """Up to `count` ready messages leave the window; expired ones expire."""
        taken: list[Message] = []
        window = self.window if session is None else session.window
        while len(taken) < count:
            message = window.take()
            if message is None:
                break
            if message.expires_at != 0 and message.expires_at <= now:
                self.expire(message, now, changes)
            else:
                taken.append(message)
        return taken

    def lock(
        self,
        count: int,
        actor: int,
        now: int,
        entropy: bytes,
        changes: ChangeSet,
        session: HeldSession | None = None,
    ) -> list[MessageLock]:
        """Lock up to `count` ready messages for one receiver.

        `entropy` holds `ENTROPY_BYTES` random bytes for each.
        """
        locks: list[MessageLock] = []
        at = 0
        for message in self.take(count, now, changes, session):
            random = entropy[at : at + ENTROPY_BYTES]
            locks.append(self._lock(message, now, random, session))
            at += ENTROPY_BYTES
            changes.log.record(operation_log.LOCK, actor, message, now)
        return locks

    def _lock(
        self, message: Message, now: int, entropy: bytes, session: HeldSession | None
    ) -> MessageLock:
        sequence = sequence_of(message.row_id)
        token = self._token_prefix + sequence.to_bytes(6, "big") + entropy
        if session is None:
            lock = MessageLock(message, token, now + self.settings.lock_duration_ms)
        else:
            lock = MessageLock(message, token, WITH_ITS_SESSION)
            lock.session = session
            session.locks[message.row_id] = lock
        message.place = LOCKED
        self.bodies.held_bytes += len(message.raw)
        self._append_lock(lock)
        return lock

    def delivered(self, locks: list[MessageLock]) -> None:
        """These are with their receiver: what is too much is left to the store."""
        bodies = self.bodies
        if bodies.held_bytes <= bodies.limit_bytes:
            return
        for lock in locks:
            message = lock.message
            bodies.held_bytes -= len(message.raw)
            message.leave_body()

    def _append_lock(self, lock: MessageLock) -> None:
        self.locks[lock.message.row_id] = lock
        if lock.locked_until < self._latest_end:
            self._locks_are_ordered = False
        else:
            self._latest_end = lock.locked_until

    def lock_deferred(
        self,
        message: Message,
        now: int,
        entropy: bytes,
        session: HeldSession | None = None,
    ) -> MessageLock:
        """Lock a deferred message that was read from the store."""
        return self._lock(message, now, entropy, session)

    # --- locks ----------------------------------------------------------------

    def lock_of(self, token: bytes, now: int) -> MessageLock:
        """The live lock with this token. Raises MessageLockLost, SessionLockLost."""
        lock = self.locks.get(self.base + token_sequence(token))
        if lock is None or lock.token != token or not lock.is_live(now):
            raise self.lock_lost()
        return lock

    def lock_lost(self) -> ServiceBusError:
        """Why a message can't be settled (any more) by whoever once locked it."""
        if self.sessions is None:
            return MessageLockLost(entity_path=self.settings.path)
        return SessionLockLost(entity_path=self.settings.path)

    def end_lock(self, lock: MessageLock) -> None:
        """The lock is over, whatever becomes of its message."""
        row_id = lock.message.row_id
        del self.locks[row_id]
        self.bodies.held_bytes -= len(lock.message.raw)
        if lock.session is not None:
            del lock.session.locks[row_id]

    def holds(self, lock: MessageLock, now: int) -> bool:
        """The lock is still the one on its message, and has not run out."""
        return self.locks.get(lock.message.row_id) is lock and lock.is_live(now)

    def renew(self, lock: MessageLock, now: int) -> int:
        """Let the lock last a full duration from now; returns its new end. In a
        session that is the session's to decide."""
        if lock.session is not None:
            return lock.session.locked_until
        del self.locks[lock.message.row_id]
        lock.locked_until = now + self.settings.lock_duration_ms
        self._append_lock(lock)
        return lock.locked_until

    def ended_locks(self, now: int) -> list[MessageLock]:
        """Locks that have run out, in the order of their ends; those that end at one
        instant in the order of their messages, whichever was renewed."""
        if not self._locks_are_ordered:
            self._reorder_locks()
        ended: list[MessageLock] = []
        for lock in self.locks.values():
            if lock.locked_until > now:
                break
            ended.append(lock)
        ended.sort(key=_end_and_number_of)
        return ended

    def _reorder_locks(self) -> None:
        by_end = sorted(self.locks.values(), key=_end_of)
        self.locks = {lock.message.row_id: lock for lock in by_end}
        self._latest_end = by_end[-1].locked_until if by_end else 0
        self._locks_are_ordered = True

    # --- leaving --------------------------------------------------------------

    def forget(self, message: Message, changes: ChangeSet) -> None:
        """The message leaves this fragment for good: row, counters, memory."""
        self.touch(changes)
        message.place = LEAVING
        if message.state == ACTIVE:
            self.active_count -= 1
            changes.active_removed.append(message.row_id)
        else:
            self.deferred_count -= 1
            changes.deferred_removed.append(message.row_id)
        if message.is_shared:
            changes.bodies_released.append(message.body_id)
        self.resize(-len(message.raw) - message.absent_bytes)

    def forget_unloaded(
        self, row_id: int, size_bytes: int, body_id: int, changes: ChangeSet
    ) -> None:
        """An active message that only the disk has leaves this fragment for good."""
        self.touch(changes)
        self.active_count -= 1
        changes.active_removed.append(row_id)
        if body_id != 0:
            changes.bodies_released.append(body_id)
        self.resize(-size_bytes)

    def come_back(self, message: Message, changes: ChangeSet) -> None:
        """A locked message is ready again once the commit has happened."""
        self.touch(changes)
        self._coming_back.append(message)
        if self.sessions is not None:
            session = self.sessions.live(message.session_id)
            if session is not None:
                session.returning_count += 1

    def expire(self, message: Message, now: int, changes: ChangeSet) -> None:
        """Time to live has run out: dead-letter the message, or drop it."""
        changes.log.record(operation_log.EXPIRE, operation_log.THE_BUS, message, now)
        if self.settings.dead_letter_on_expiration:
            self.move_to_dead_letters(
                message,
                "TTLExpiredException",
                "The message expired and was dead lettered.",
                now,
                changes,
            )
        else:
            self.forget(message, changes)

    def move_to_dead_letters(
        self,
        message: Message,
        reason: str | None,
        description: str | None,
        now: int,
        changes: ChangeSet,
    ) -> None:
        """The message goes on in the dead-letter queue, in the same commit."""
        target = self._sub_queues.sub_queue_of(self, DEAD_LETTER)
        self.forget(message, changes)
        dead_letter = dead_letter_of(
            message,
            self.settings.path,
            self.sequence_number(message),
            reason,
            description,
        )
        target.adopt(dead_letter, now, changes)

    def check_dead_letters(self) -> None:
        """Raises QuotaExceeded if there is no room for a dead-letter queue."""
        if not self.settings.is_dead_letter_queue:
            self._sub_queues.sub_queue_of(self, DEAD_LETTER)

    def check_transfer_dead_letters(self) -> None:
        """The same for what could not be transferred."""
        self._sub_queues.sub_queue_of(self, TRANSFER_DEAD_LETTER)

    def fail_transfer(
        self,
        message: Message,
        reason: str,
        description: str,
        now: int,
        changes: ChangeSet,
    ) -> Message:
        """Keep a message that was to go from here to another entity; returns it."""
        return self._bury(
            TRANSFER_DEAD_LETTER, message, reason, description, now, changes
        )

    def reject(
        self,
        message: Message,
        reason: str,
        description: str,
        now: int,
        changes: ChangeSet,
    ) -> None:
        """A message that was on its way in here is a dead letter at once."""
        self._bury(DEAD_LETTER, message, reason, description, now, changes)

    def _bury(
        self,
        sub_queue: int,
        message: Message,
        reason: str,
        description: str,
        now: int,
        changes: ChangeSet,
    ) -> Message:
        """Make a dead letter of a message that never was in here; returns it."""
        target = self._sub_queues.sub_queue_of(self, sub_queue)
        path = self.settings.path
        dead_letter = dead_letter_of(message, path, 0, reason, description)
        target.adopt(dead_letter, now, changes)
        return dead_letter


def _end_and_number_of(lock: MessageLock) -> tuple[int, int]:
    return lock.locked_until, lock.message.row_id


def _end_of(lock: MessageLock) -> int:
    return lock.locked_until
