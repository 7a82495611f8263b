"""A change set: everything one commit makes durable, as columns.

Commands of many clients write into the same change set until the owner of the
store takes it; then it is sealed, committed as one transaction, and published
(D13): only then do new messages become visible and replies go out. A column is a
plain list, because a batch has thousands of entries and a value object each would
cost more than the rest of the hot path (D1).

No row is added to and removed from the same table in one change set: what a
commit has not made durable nobody has seen, so nobody can ask for its removal.
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

    Counters are persisted with every commit and never counted again (D2).
    """

    number: int
    # Which life of which entity this belongs to (D5).
    generation: bytes
    # Which of the entity's fragments this is.
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
    """A message on its way into another store (D12)."""

    # Assigned by the source, rising: the order of delivery.
    entry_id: int
    # Entity path at the target.
    target: str
    raw: bytes
    # Application of the entry is idempotent by this id.
    origin: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRange:
    """Sequence numbers of a source queue that were restored here (D12)."""

    source: str
    generation: bytes
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerId:
    """An arbitrary id seen by a fragment, kept for a window of time (D12).

    The first byte says what kind of id it is: see `encoding/identity.py`.
    """

    fragment_number: int
    unique_id: bytes
    # From then on it is as if it had never been seen.
    forget_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBody:
    """The bytes of a message that several subscriptions got (D5)."""

    # Row id of the message at its topic.
    body_id: int
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """What an application keeps with a session."""

    fragment_number: int
    session_id: str
    # None: the application cleared it, and nothing is kept.
    state: bytes | None
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule:
    """A rule of a subscription, as a store keeps it.

    In the store and not in the catalog, because a change of rules may be part of a
    transaction with messages.
    """

    # Of the subscription's main fragment.
    fragment_number: int
    name: str
    # JSON; understood by the package `rules`.
    definition: str
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntity:
    """What a store keeps of an entity with fragments here: enough to make it anew.

    The catalog says which entities exist; this is for the day on which it is lost.
    """

    generation: bytes
    # JSON; understood by `store/catalog.py`.
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLease:
    """One reader's claim on a whole fragment: see `reader_lease.py`.

    Kept after it has ended, so that no epoch comes twice, and so that a reader that
    comes back finds what it had planned.
    """

    fragment_number: int
    # Who reads; empty once it was given back.
    reader: str
    # Raised by every grant.
    epoch: int
    duration_ms: int
    # 0: it is over.
    expires_at: int
    # Sequence numbers of what the reader was promised and has not settled.
    planned_from: int = 0
    planned_through: int = -1


@final
class ChangeSet:
    """The columns of one commit."""

    def __init__(self, home: "Home | None" = None) -> None:
        # The home of all fragments in it; that of the first one if it is not given.
        self.home: Home | None = home
        self.active_added: list[Message] = []
        # Added like those, with bytes that the store copies from another row, which
        # may be removed by the same commit.
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
        # In step with `touched`, filled when the change set is sealed: their
        # records, the messages that become visible, those that become ready again,
        # the sessions that become free.
        self.records: list[FragmentRecord] = []
        self.published: list[list[Message]] = []
        self.returned: list[list[Message]] = []
        self.freed: list[list[HeldSession]] = []
        # Fragments that belong to nothing any more; a store purges them later.
        self.dropped: list[int] = []
        # What is known of the entities of fragments, and the generations of those
        # that are gone. Put first, then removed.
        self.entities_put: list[StoredEntity] = []
        self.entities_removed: list[bytes] = []
        self.outbox_added: list[OutboxEntry] = []
        self.outbox_removed: list[int] = []
        self.ledger_ranges: list[LedgerRange] = []
        self.ledger_ids: list[LedgerId] = []
        # Bytes that are stored once for several rows; their references, one entry
        # for each row that begins or ceases to use them. A body without references
        # is removed by the store.
        self.bodies_added: list[SharedBody] = []
        self.bodies_taken: list[int] = []
        self.bodies_released: list[int] = []
        self.session_states: list[SessionState] = []
        # A rule that is put replaces one of the same name. Removed first, then put.
        self.rules_removed: list[tuple[int, str]] = []
        self.rules_put: list[StoredRule] = []
        # As they are now, each in place of the one that its fragment had.
        self.reader_leases: list[ReaderLease] = []
        self.log: OperationLog = OperationLog()
        # Number of the commit, set when sealed: the way to find out afterwards
        # whether a commit of unknown outcome happened (D13).
        self.batch: int = 0
        self.epoch: int = 0
        self.sealed_at: int = 0
        # Pings that were taken. They leave nothing behind but say that a commit was
        # possible, so each of them needs one.
        self.ping_count: int = 0
        # Sizes of the added messages, for the budget of pending bytes.
        self.pending_bytes: int = 0
        # How many deliveries were counted, and of how many bytes the messages are.
        self.counted: int = 0
        self.counted_bytes: int = 0

    def check_home(self, fragment: "Fragment") -> None:
        """Raises ForeignFragment: row ids mean something else in another store."""
        if self.home is None:
            self.home = fragment.home
        elif self.home is not fragment.home:
            raise ForeignFragment(
                f"A fragment of '{fragment.settings.path}' is not of the store whose "
                "change set it was to be written into."
            )

    def is_empty(self) -> bool:
        """Nothing here needs a commit; operations of the log alone can wait."""
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
        """The delivery of a message of this size ended in vain."""
        self.counted += 1
        self.counted_bytes += size

    def is_heavy(self) -> bool:
        """What can wait for the next commit should."""
        return self.counted >= CHANGED_MESSAGES or self.counted_bytes >= CHANGED_BYTES

    def add_restored(self, added: LedgerRange) -> None:
        """Note what was restored; as one range with its predecessor if it follows on
        it, since restores mostly come in order."""
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
        """Close the set: from here on it is the store's."""
        self.epoch = epoch
        self.batch = batch
        self.sealed_at = now
        for fragment in self.touched:
            check_next_sequence(fragment.next_sequence)
            self.records.append(fragment.record())
            fragment.seal(self)

    def publish(self) -> None:
        """The commit happened: let every fragment show what came of it."""
        for i, fragment in enumerate(self.touched):
            fragment.publish(self.published[i], self.returned[i], self.freed[i])
