"""A change set: everything that one commit makes durable, as columns.

Commands of many clients write into the same change set until the owner of the store
takes it. Then it is sealed, committed as one transaction, and published: only now new
messages become visible and replies are sent. A column is a plain list: a batch has
thousands of entries, and an object for each would cost more than the rest of the hot
path.

A change set never adds and removes the same row of a table: a row becomes visible by
its commit, so no client can ask for its removal before.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from twinbus.broker.message import Message
from twinbus.broker.operation_log import OperationLog
from twinbus.broker.row_id import check_next_sequence
from twinbus.errors import ForeignFragment
from twinbus.limits import CHANGED_BYTES, CHANGED_MESSAGES

if TYPE_CHECKING:
    from twinbus.broker.fragment import Fragment
    from twinbus.broker.held_session import HeldSession
    from twinbus.broker.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentRecord:
    """What a store keeps of a fragment besides its messages.

    Counters are written with every commit; rows are never counted again.
    """

    number: int
    # Identifies the entity. An entity that is deleted and created again has a new one.
    generation: bytes
    # Index among the fragments of the entity.
    index: int
    # MAIN, DEAD_LETTER: see `fragment.py`.
    sub_queue: int
    next_sequence: int = 1
    last_enqueued_at: int = 0
    active_count: int = 0
    deferred_count: int = 0
    scheduled_count: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A message on its way into another store."""

    # Rising, assigned by the source: the order of delivery.
    entry_id: int
    # The fragment it goes to: see `fragment_address.py`.
    target: str
    # The message and what the bus knows of it: see `encoding/envelope.py`.
    raw: bytes
    # Its kind, and where it came from: see `outbox.py`.
    origin: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRange:
    """Sequence numbers of a source queue that were restored here."""

    source: str
    generation: bytes
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerId:
    """Any id that a fragment has seen, kept for a window of time.

    The first byte says what kind of id it is: see `encoding/identity.py`.
    """

    fragment_number: int
    unique_id: bytes
    # When the store forgets the id.
    forget_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBody:
    """The bytes of a message that several subscriptions share."""

    # Row id that the message had at its topic.
    body_id: int
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """The state that an application stored with a session."""

    fragment_number: int
    session_id: str
    # None: the application cleared it.
    state: bytes | None
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule:
    """A rule of a subscription, as a store keeps it.

    It is in the store and not in the catalog, because a transaction may change rules
    and messages together.
    """

    # Number of the subscription's main fragment.
    fragment_number: int
    name: str
    # JSON, in the format of the package `rules`.
    definition: str
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntity:
    """What a store keeps of an entity that has fragments in it: enough to create it
    again.

    The catalog says which entities exist; this copy is used if the catalog is lost.
    """

    generation: bytes
    # JSON, in the format of `store/catalog.py`.
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLease:
    """One reader's claim on a whole fragment: see `reader_lease.py`.

    It is kept after its end: so no epoch is used twice, and a reader that returns finds
    what it had planned.
    """

    fragment_number: int
    # Id of the reader; empty after the reader has given the lease back.
    reader: str
    # Each grant raises it.
    epoch: int
    duration_ms: int
    # 0: the lease has ended.
    expires_at: int
    # Sequence numbers that are planned for the reader and not settled yet.
    planned_from: int = 0
    planned_through: int = -1


@final
class ChangeSet:
    """The columns of one commit."""

    def __init__(self, home: "Home | None" = None) -> None:
        # The home of all its fragments. If it is not given, the first fragment sets it.
        self.home: Home | None = home
        self.active_added: list[Message] = []
        # Also added, but the store copies the bytes from another row. The same commit
        # may remove that row.
        self.active_moved: list[Message] = []
        self.active_removed: list[int] = []
        # Delivery count or annex of an active message changed.
        self.active_changed: list[Message] = []
        self.deferred_added: list[Message] = []
        self.deferred_moved: list[Message] = []
        self.deferred_removed: list[int] = []
        self.deferred_changed: list[Message] = []
        self.scheduled_added: list[Message] = []
        self.scheduled_removed: list[int] = []
        # Fragments whose counters changed.
        self.touched: list[Fragment] = []
        # Parallel to `touched`, filled when the change set is sealed: the fragments'
        # records, the messages that become visible, those that become ready again, and
        # the sessions that become free.
        self.records: list[FragmentRecord] = []
        self.published: list[list[Message]] = []
        self.returned: list[list[Message]] = []
        self.freed: list[list[HeldSession]] = []
        # Fragments whose entity was deleted; the store purges them later.
        self.dropped: list[int] = []
        # Entities that have fragments in the store, and generations of deleted ones.
        # The store writes the first, then removes the second.
        self.entities_put: list[StoredEntity] = []
        self.entities_removed: list[bytes] = []
        self.outbox_added: list[OutboxEntry] = []
        self.outbox_removed: list[int] = []
        self.ledger_ranges: list[LedgerRange] = []
        self.ledger_ids: list[LedgerId] = []
        # Bytes that are stored once for several rows, and their references: one entry
        # for each row that starts or stops using them. The store removes a body without
        # references.
        self.bodies_added: list[SharedBody] = []
        self.bodies_taken: list[int] = []
        self.bodies_released: list[int] = []
        self.session_states: list[SessionState] = []
        # A rule replaces the one of the same name. Removed first, then written.
        self.rules_removed: list[tuple[int, str]] = []
        self.rules_put: list[StoredRule] = []
        # New states of reader leases; each replaces the one that its fragment had.
        self.reader_leases: list[ReaderLease] = []
        self.log: OperationLog = OperationLog()
        # Number of the commit, set when it is sealed. If the outcome of a commit is
        # unknown, the store is asked for its last number.
        self.batch: int = 0
        self.epoch: int = 0
        self.sealed_at: int = 0
        # Number of pings. A ping stores nothing, but it is answered by a commit, to
        # show that the store can still write.
        self.ping_count: int = 0
        # Sizes of the added messages; they count against the limit of pending bytes.
        self.pending_bytes: int = 0
        # Deliveries that failed in this change set, and the bytes of their messages.
        self.counted: int = 0
        self.counted_bytes: int = 0

    def check_home(self, fragment: "Fragment") -> None:
        """Raises ForeignFragment if the fragment is in another store: its row ids mean
        other rows there."""
        if self.home is None:
            self.home = fragment.home
        elif self.home is not fragment.home:
            raise ForeignFragment(
                f"A fragment of '{fragment.settings.path}' was to be written into the "
                "change set of another store."
            )

    def is_empty(self) -> bool:
        """True if no commit is needed. Entries of the operation log alone can wait."""
        return not (
            self.touched
            or self.active_changed
            or self.deferred_changed
            or self.dropped
            or self.entities_put
            or self.entities_removed
            or self.outbox_added
            or self.outbox_removed
            or self.ledger_ranges
            or self.ledger_ids
            or self.session_states
            or self.rules_removed
            or self.rules_put
            or self.reader_leases
            or self.ping_count
        )

    def count_delivery(self, size: int) -> None:
        """The delivery of a message of this size failed."""
        self.counted += 1
        self.counted_bytes += size

    def is_heavy(self) -> bool:
        """True if work that can wait should wait for the next commit."""
        return self.counted >= CHANGED_MESSAGES or self.counted_bytes >= CHANGED_BYTES

    def add_restored(self, added: LedgerRange) -> None:
        """Record a restored range. It is merged with the range before it if it follows
        directly: messages are mostly restored in order."""
        if self.ledger_ranges:
            last = self.ledger_ranges[-1]
            if (
                last.last + 1 == added.first
                and last.source == added.source
                and last.generation == added.generation
            ):
                self.ledger_ranges[-1] = replace(last, last=added.last)
                return
        self.ledger_ranges.append(added)

    def seal(self, epoch: int, batch: int, now: int) -> None:
        """Close the set: only the store uses it from now on."""
        self.epoch = epoch
        self.batch = batch
        self.sealed_at = now
        for fragment in self.touched:
            check_next_sequence(fragment.next_sequence)
            self.records.append(fragment.record())
            fragment.seal(self)

    def publish(self) -> None:
        """After the commit: make its messages and sessions visible."""
        for i, fragment in enumerate(self.touched):
            fragment.publish(self.published[i], self.returned[i], self.freed[i])
