"""A fragment: the aggregate that holds messages, in order, with one owner.

A queue has one fragment, its dead-letter queue another; a partitioned entity has many.
A command is applied from start to end without interruption. It writes its durable
effects into the change set, and changes the fragment's memory at once, with two
exceptions that wait for the commit: new messages become visible, and returned messages
become ready. If a commit fails, the fragment is restored from its store, so nothing has
to be undone.

    enqueue -> pending -> (commit) -> window -> lock -> settle -> (commit) -> gone
                                        ^                 |
                                        +---- coming_back +

Order: messages get sequence numbers in the order of enqueueing and become visible in
that order, since change sets are committed one after the other. The enqueued time never
goes back within a fragment, even if the clock does.

A topic's fragment hands active messages to its router instead of keeping them. If
sessions are required, each held session has its own window.

Settlement, scheduling, expiry and sessions are in modules of their own.
"""

from typing import Final, Protocol, final

from twinbus.broker import operation_log
from twinbus.broker.changes import ChangeSet, FragmentRecord, ReaderLease
from twinbus.broker.dead_letter import dead_letter_of
from twinbus.broker.expiry_heap import ExpiryHeap
from twinbus.broker.fragment_address import FragmentAddress
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.held_session import HeldSession
from twinbus.broker.home import ALL_FRAGMENTS, Home
from twinbus.broker.kept_bodies import KeptBodies
from twinbus.broker.message import ACTIVE, LEAVING, LOCKED, READY, Message
from twinbus.broker.message_lock import (
    ENTROPY_BYTES,
    RESERVED,
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

# The queues of an entity's fragment. Part of the stored format.
MAIN: Final = 0
DEAD_LETTER: Final = 1
TRANSFER_DEAD_LETTER: Final = 2


class SubQueues(Protocol):
    """Finds a fragment's sub-queue, and creates it when it is first needed."""

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
        # Commits the changes of this fragment, and serves its receivers.
        self.home: Home = Home() if home is None else home
        self.number: int = record.number
        self.generation: bytes = record.generation
        self.index: int = record.index
        self.sub_queue: int = record.sub_queue
        # Row id of sequence number zero.
        self.base: int = base_of(record.number)
        # Upper bits of the sequence numbers that clients see.
        self.visible_base: int = record.index << 48
        self.settings: FragmentSettings = settings
        self._sub_queues: SubQueues = sub_queues
        # Shared by all fragments that count against the same size limit.
        self._quota: SizeQuota = quota
        # Of a topic's fragment: distributes its messages.
        self.router: Router | None = router
        # Shared by all fragments of the store: counts the bytes of locked messages.
        self.bodies: KeptBodies = KeptBodies() if bodies is None else bodies
        # The entity was deleted; those that still refer to this fragment find nothing.
        self.is_dropped: bool = False
        # Pings since the start; they are not counted as messages.
        self.ping_count: int = 0
        # The reader that has the fragment for itself (`reader_lease.py`), until the end
        # of its lease is durable; and the last lease.
        self.lease: ReaderLease | None = None
        self.last_lease: ReaderLease | None = None
        # The lease as the commit in progress has it.
        self._sealed_lease: ReaderLease | None = None
        # How often memory was discarded. Work that relies on older memory is void.
        self.restore_count: int = 0
        # Number of plans begun for the reader; only the last one is valid.
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
        # None if sessions are not required.
        self.sessions: Sessions | None = (
            Sessions() if self.settings.requires_session else None
        )
        # Messages of the window that have a time to live.
        self.expiries: ExpiryHeap = ExpiryHeap()
        # Locks by row id, ordered by their end: all have the same duration, and a
        # renewal moves its lock to the end.
        for lock in self.locks.values():
            self.bodies.held_bytes -= len(lock.message.raw)
        self.locks = {}
        # The latest end of a lock. A new lock that ends earlier (the duration was
        # shortened, the clock was set back) breaks the order until the next sort.
        self._latest_end: int = 0
        self._locks_are_ordered: bool = True
        # Scheduled messages that open transactions will cancel: row id to transaction.
        self.cancelling: dict[int, object] = {}
        # Enqueued, not durable yet.
        self._pending: list[Message] = []
        # Returned, not durable yet.
        self._coming_back: list[Message] = []
        # The open change set that has this fragment in `touched`.
        self._touched_by: ChangeSet | None = None

    # --- what a store keeps ---------------------------------------------------

    def restore(self, record: FragmentRecord) -> None:
        """Discard memory and use what the store has: all locks are lost, all messages
        that were taken are ready again."""
        is_wide = self.window.is_wide()
        sessions = self.sessions
        self.restore_count += 1
        self._restore(record)
        if is_wide:
            self.window.open_wide()
        if sessions is not None and self.sessions is not None:
            self.sessions.waiters = sessions.waiters

    def renew_epoch(self, epoch: int) -> None:
        """The store was opened again: older lock tokens are no longer valid."""
        self._token_prefix = token_prefix(self.index, epoch)

    def leave_to_disk(self) -> None:
        """Drop all ready and returning messages from memory; they are read again."""
        is_wide = self.window.is_wide()
        self.window.let_go()
        self.window = Window(self.window.tail)
        if is_wide:
            self.window.open_wide()
        self.expiries = ExpiryHeap()
        self._coming_back = []

    def drop(self) -> None:
        """The entity was deleted: drop its messages, locks and timers, and accept
        nothing more. A store reuses a number after it has purged its rows; a row
        written after that would belong to the next fragment with that number."""
        self.is_dropped = True
        self.lease = self.last_lease = None
        self._restore(self.record())

    def is_reachable(self) -> bool:
        """True if a message can be sent to it directly: its store serves, and nothing
        that was sent before is still on its way."""
        return self.home.is_serving and not self.is_awaited()

    def is_awaited(self) -> bool:
        """True if messages that were sent to it wait in the outbox of another store."""
        awaited = self.home.awaited
        return bool(awaited) and (
            (self.generation, self.index) in awaited or ALL_FRAGMENTS in awaited
        )

    def address(self) -> FragmentAddress:
        """Names it for the outbox of another store."""
        return FragmentAddress(self.home.store_uuid, self.generation, self.index)

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
        """Let the commit write this fragment's counters."""
        if self._touched_by is not changes:
            changes.check_home(self)
            self._touched_by = changes
            changes.touched.append(self)

    def seal(self, changes: ChangeSet) -> None:
        """The change set is closed; pass it what becomes visible by its commit."""
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
        """After the commit: messages are ready, and released sessions are free."""
        if self.is_dropped:
            return
        self._end_lease()
        if self.sessions is not None:
            self._publish_to_sessions(self.sessions, messages, returned, freed)
            return
        if self.lease is not None:
            # Receivers get nothing during a lease; after it messages are read again.
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
        """Remove a lease that the commit ended, unless it was granted again."""
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
        """Add messages read from the store, the next ones after the window."""
        window = self.window if session is None else session.window
        window.refill(messages, through)
        for message in messages:
            if message.expires_at != 0:
                self.expiries.watch(message)

    def unseen_count(self) -> int:
        """Number of active messages that are not in memory: 0 once the window has
        reached the tail. It may be too low, since messages about to leave count as in
        memory."""
        known_count = self.window.ready_count() + len(self.locks)
        known_count += len(self._pending) + len(self._coming_back)
        return self.active_count - known_count

    def _make_ready(self, message: Message) -> None:
        self.window.give_back(message)
        if message.expires_at != 0:
            self.expiries.watch(message)

    def the_sessions(self) -> Sessions:
        """The sessions of a fragment that requires them."""
        assert self.sessions is not None, self.settings.path
        return self.sessions

    def is_in_memory(self, message: Message) -> bool:
        """True if memory, and not the disk alone, has this active message."""
        sequence = sequence_of(message.row_id)
        if self.sessions is None:
            return sequence <= self.window.loaded_through
        if message.session_id is None or message.session_id not in self.sessions.held:
            return False
        session = self.sessions.held[message.session_id]
        return session.is_released or sequence <= session.window.loaded_through

    # --- enqueueing -----------------------------------------------------------

    def sequence_number(self, message: Message) -> int:
        """The sequence number that clients see."""
        return self.visible_base | sequence_of(message.row_id)

    def row_id(self, sequence_number: int) -> int:
        """The row id of a sequence number that a client sent."""
        return self.base + sequence_of(sequence_number)

    def check_quota(self, size_bytes: int) -> None:
        """Raises QuotaExceeded if so many bytes do not fit, MessagingEntityNotFound if
        the entity was deleted."""
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
        """Add to the stored bytes; the number may be negative."""
        self.size_bytes += added_bytes
        self._quota.used_bytes += added_bytes

    def enqueue(
        self, message: Message, actor: int, now: int, changes: ChangeSet
    ) -> None:
        """Accept a message with the next sequence number; visible after the commit."""
        self._place(message, now, changes)
        changes.log.record(operation_log.SEND, actor, message, now)

    def _place(self, message: Message, now: int, changes: ChangeSet) -> None:
        """Give the message its sequence number and times, and add its row."""
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
        """Accept a ping: its commit shows that the bus can store; it stores nothing."""
        self.ping_count += 1
        changes.ping_count += 1
        changes.log.add(operation_log.PING, actor, self.base, size_bytes, now, now)

    def adopt(self, message: Message, now: int, changes: ChangeSet) -> None:
        """Take over a message from elsewhere: an activated schedule, a dead letter, a
        message from a topic or a forwarding entity. It gets a new sequence number."""
        self._place(message, now, changes)
        changes.log.arrive(message, now)

    # --- delivering -----------------------------------------------------------

    def take(
        self,
        count: int,
        now: int,
        changes: ChangeSet,
        session: HeldSession | None = None,
    ) -> list[Message]:
        """Take up to `count` ready messages; expired ones expire instead."""
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

    def reserve(self, lock: MessageLock) -> None:
        """Stop the time of a lock, until `renew` begins it."""
        del self.locks[lock.message.row_id]
        lock.locked_until = RESERVED
        self._append_lock(lock)

    def delivered(self, locks: list[MessageLock]) -> None:
        """The receiver has these messages. If too many bytes of locked messages are in
        memory, keep these in the store only."""
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
        """The valid lock with this token. Raises MessageLockLost, SessionLockLost."""
        lock = self.locks.get(self.base + token_sequence(token))
        if lock is None or lock.token != token or not lock.is_live(now):
            raise self.lock_lost()
        return lock

    def lock_lost(self) -> ServiceBusError:
        """The error for settling a message whose lock has ended."""
        if self.sessions is None:
            return MessageLockLost(entity_path=self.settings.path)
        return SessionLockLost(entity_path=self.settings.path)

    def end_lock(self, lock: MessageLock) -> None:
        """Remove the lock. What happens to its message is up to the caller."""
        row_id = lock.message.row_id
        del self.locks[row_id]
        self.bodies.held_bytes -= len(lock.message.raw)
        if lock.session is not None:
            del lock.session.locks[row_id]

    def holds(self, lock: MessageLock, now: int) -> bool:
        """True if this is the message's current lock, and it has not run out."""
        return self.locks.get(lock.message.row_id) is lock and lock.is_live(now)

    def renew(self, lock: MessageLock, now: int) -> int:
        """Extend the lock to a full duration from now, and return its new end. In a
        session, the session's lock decides."""
        if lock.session is not None:
            return lock.session.locked_until
        del self.locks[lock.message.row_id]
        lock.locked_until = now + self.settings.lock_duration_ms
        self._append_lock(lock)
        return lock.locked_until

    def ended_locks(self, now: int) -> list[MessageLock]:
        """Locks that have run out, ordered by their end and then by sequence number."""
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
        """Remove the message from this fragment: row, counters and memory."""
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
        """Remove an active message that is only on disk."""
        self.touch(changes)
        self.active_count -= 1
        changes.active_removed.append(row_id)
        if body_id != 0:
            changes.bodies_released.append(body_id)
        self.resize(-size_bytes)

    def come_back(self, message: Message, changes: ChangeSet) -> None:
        """A locked message becomes ready again by the commit."""
        self.touch(changes)
        self._coming_back.append(message)
        if self.sessions is not None:
            session = self.sessions.live(message.session_id)
            if session is not None:
                session.returning_count += 1

    def expire(self, message: Message, now: int, changes: ChangeSet) -> None:
        """The time to live has run out: dead-letter or drop the message."""
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
        """Move the message to the dead-letter queue, in the same commit."""
        target = self._sub_queues.sub_queue_of(self, DEAD_LETTER)
        self.forget(message, changes)
        path, uuid = self.settings.path, self.home.store_uuid
        number = self.sequence_number(message)
        dead_letter = dead_letter_of(message, path, number, reason, description, uuid)
        target.adopt(dead_letter, now, changes)

    def check_dead_letters(self) -> None:
        """Raises QuotaExceeded if a dead-letter queue cannot be created."""
        if not self.settings.is_dead_letter_queue:
            self._sub_queues.sub_queue_of(self, DEAD_LETTER)

    def check_transfer_dead_letters(self) -> None:
        """The same for the transfer dead-letter queue."""
        self._sub_queues.sub_queue_of(self, TRANSFER_DEAD_LETTER)

    def fail_transfer(
        self,
        message: Message,
        reason: str,
        description: str,
        now: int,
        changes: ChangeSet,
    ) -> Message:
        """Dead-letter a message that could not be transferred from here to another
        entity. Returns the dead letter."""
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
        """Dead-letter a message that this entity gets but cannot accept."""
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
        """Make a dead letter of a message that was never here, and return it."""
        target = self._sub_queues.sub_queue_of(self, sub_queue)
        path, uuid = self.settings.path, self.home.store_uuid
        dead_letter = dead_letter_of(message, path, 0, reason, description, uuid)
        target.adopt(dead_letter, now, changes)
        return dead_letter


def _end_and_number_of(lock: MessageLock) -> tuple[int, int]:
    return lock.locked_until, lock.message.row_id


def _end_of(lock: MessageLock) -> int:
    return lock.locked_until
