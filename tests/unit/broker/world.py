"""A queue on a store in memory, changed and committed by hand."""

from collections.abc import Coroutine
from typing import Any

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import DEAD_LETTER, Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.fragment_table import FragmentTable
from twinbus.broker.message import Message
from twinbus.broker.message_lock import ENTROPY_BYTES, MessageLock
from twinbus.broker.operation_record import OperationRun, decode_operations
from twinbus.broker.receiver import Receiver
from twinbus.store.memory import MemoryStore
from twinbus.store.opening import open_store

NOW = 1_800_000_000_000
GENERATION = b"g" * 16
ACTOR = 5


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a store in memory waited")


class Place:
    """The queue `orders`, its dead-letter queue and their store."""

    def __init__(self, **settings: Any) -> None:
        self.now = NOW
        self.settings = FragmentSettings(path="orders", **settings)
        self.store = MemoryStore()
        self.epoch = run(open_store(self.store, "test", NOW)).epoch
        self.table = FragmentTable(self.epoch, [])
        self.table.admit(GENERATION, self.settings)
        self.batch = 0
        self.changes = ChangeSet()
        self.queue = self.table.create(GENERATION, 0, self.changes)
        self.commit()

    @property
    def dead_letters(self) -> Fragment:
        return self.table.sub_queue_of(self.queue, DEAD_LETTER)

    def commit(self) -> ChangeSet:
        changes, self.changes = self.changes, ChangeSet()
        self.batch += 1
        changes.seal(self.epoch, self.batch, self.now)
        run(self.store.commit(changes))
        changes.publish()
        return changes

    def fail(self) -> None:
        """The open change set is not committed, and memory believes the store."""
        self.changes = ChangeSet()
        self.table.restore(run(self.store.fragments()))
        self.table.remember_leases(run(self.store.reader_leases()))

    def send(self, *bodies: bytes, ttl_ms: int = 0) -> None:
        for body in bodies:
            message = Message(body, 0, ttl_ms, 0)
            self.queue.enqueue(message, ACTOR, self.now, self.changes)
        self.commit()

    def lock(
        self, count: int = 1, fragment: Fragment | None = None
    ) -> list[MessageLock]:
        entropy = bytes(range(count * ENTROPY_BYTES))
        source = fragment or self.queue
        return source.lock(count, ACTOR, self.now, entropy, self.changes)

    def refill(self) -> None:
        window = self.queue.window
        found = run(
            self.store.read_active(
                self.queue.number, window.loaded_through, window.room(), 1 << 30
            )
        )
        through = self.queue.sequence_number(found[-1]) if found else window.tail
        self.queue.refill(found, through)

    def runs(self) -> list[OperationRun]:
        """What the open change set's operation log says."""
        return decode_operations(self.changes.log.encode(self.now)).runs


class Client(Receiver):
    """Takes as many messages as it is told to."""

    def __init__(self, wanted: int = 0, *, peek_lock: bool = True) -> None:
        super().__init__(ACTOR, peek_lock)
        self.wanted = wanted
        self.got: list[bytes] = []
        self.served_count = 0
        self.lost_count = 0

    def capacity(self) -> int:
        return self.wanted

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        self.wanted -= len(locks)
        self.got += [lock.message.raw for lock in locks]

    def deliver_removed(self, messages: list[Message]) -> None:
        self.wanted -= len(messages)
        self.got += [message.raw for message in messages]

    def served(self) -> None:
        self.served_count += 1

    def session_lost(self) -> None:
        self.lost_count += 1


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.raw for message in messages]
