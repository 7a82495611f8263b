"""The values of bulk requests and their answers.

Sequence numbers are those that clients see. A range excludes its `end`. An epoch is
opaque to clients: they send it back unchanged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseInfo:
    """The reader lease of a fragment."""

    reader: str
    # For other processes of the same reader, which settle its plan.
    epoch: str
    expires_in_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentRuntime:
    """The bounds and counts of a fragment."""

    index: int
    # Number of the first active message; None if there is none.
    first: int | None
    first_enqueued_at: int | None
    # Number that the next message will get.
    next: int
    last_enqueued_at: int | None
    active_count: int
    deferred_count: int
    scheduled_count: int
    size_bytes: int
    lease: LeaseInfo | None
    # UUID of its message store, in hex; None if the entity is not partitioned.
    store: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRuntime:
    """A queue, a subscription, or a sub-queue of one."""

    path: str
    # It changes if the entity is deleted and created again.
    generation: str
    created_at: int
    requires_session: bool
    fragments: Sequence[FragmentRuntime]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A lease to take or, with an epoch, to renew."""

    path: str
    epoch: str | None = None
    # Of these fragments; None: of all.
    indexes: Sequence[int] | None = None
    # A lease that is taken gets this epoch, or a later one.
    least_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """A granted lease."""

    path: str
    epoch: str
    expires_in_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """An entity to plan: where to begin, and optionally where to end."""

    path: str
    generation: str
    # With a lease, planned messages stay until they are settled.
    epoch: str | None
    # By fragment index.
    firsts: Mapping[int, int]
    ends: Mapping[int, int] = field(default_factory=dict)
    # Or by enqueued time: from `first_time` to before `end_time`.
    first_time: int | None = None
    end_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """Limits of a plan, and how it is made."""

    max_messages: int
    max_bytes: int
    split_messages: int
    # True: all entities are planned up to the same enqueued time.
    is_aligned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSplit:
    first: int
    end: int
    message_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFragment:
    """The range of a fragment to read next."""

    path: str
    index: int
    first: int
    end: int
    splits: Sequence[PlannedSplit]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseRequest:
    """A range of one fragment."""

    path: str
    generation: str
    index: int
    first: int
    end: int
    columns: Sequence[str]
    states: frozenset[int]
    max_bytes: int
    # Only messages of these sessions; empty: of all, and without one.
    sessions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowsedMessages:
    """A portion of an answer."""

    columns: Mapping[str, Sequence[object]]
    count: int
    # Number to continue at; the end of the range if there is no more.
    next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """A message that cannot be processed."""

    sequence_number: int
    reason: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleRequest:
    """Outcomes of an entity's messages: first single ones, then the rest."""

    path: str
    epoch: str
    # Active or deferred.
    dead_letter: Sequence[Poison] = ()
    defer: Sequence[int] = ()
    # Deferred ones that were processed later.
    complete: Sequence[int] = ()
    # By fragment index: all planned messages before this number were processed.
    ends: Mapping[int, int] = field(default_factory=dict)
    # It is for these fragments; None: for all.
    indexes: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Numbers of settled messages."""

    path: str
    completed: int
    dead_lettered: int
    deferred: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    """A message that was refused."""

    row: int
    condition: str
    text: str
    is_retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The outcome of an append."""

    applied_count: int
    # Duplicates: known by their send id, or by the message they were restored from.
    known: Sequence[int]
    refused: Sequence[RefusedRow]
