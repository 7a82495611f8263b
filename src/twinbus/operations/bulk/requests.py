"""The values of bulk requests: what is asked, and what is answered.

Sequence numbers are those that clients see, and ranges end before their `end`. An epoch
is opaque to whoever asks: it is shown again as it was got.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseInfo:
    """Who reads a fragment."""

    reader: str
    # For other processes of the same reader, which settle what it has planned.
    epoch: str
    expires_in_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentRuntime:
    """The bounds of a fragment (E5)."""

    index: int
    # Of the first active message; None if there is none.
    first: int | None
    first_enqueued_at: int | None
    # What the next message will be numbered.
    next: int
    last_enqueued_at: int | None
    active_count: int
    deferred_count: int
    scheduled_count: int
    size_bytes: int
    lease: LeaseInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRuntime:
    """A queue, a subscription, or a sub-queue of one."""

    path: str
    # Another one for an entity that was deleted and made again.
    generation: str
    created_at: int
    requires_session: bool
    fragments: Sequence[FragmentRuntime]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A lease to be taken or, with an epoch, renewed."""

    path: str
    epoch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """A lease that is held."""

    path: str
    epoch: str
    expires_in_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Where to begin in an entity, and perhaps where to end."""

    path: str
    generation: str
    # Under a lease what is planned stays; without one it is only told.
    epoch: str | None
    # By fragment index.
    firsts: Mapping[int, int]
    ends: Mapping[int, int] = field(default_factory=dict)
    # Instead: enqueued at this instant or later, and before that one.
    first_time: int | None = None
    end_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """How much is planned, and how."""

    max_messages: int
    max_bytes: int
    split_messages: int
    # Everything up to one enqueued time, over all entities.
    is_aligned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSplit:
    first: int
    end: int
    message_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFragment:
    """What is to be read of a fragment next."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowsedMessages:
    """A portion of an answer."""

    columns: Mapping[str, Sequence[object]]
    count: int
    # Where to go on; the range's end when there is no more.
    next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """A message that nobody can process."""

    sequence_number: int
    reason: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleRequest:
    """What became of an entity's messages: first the single ones, then the rest."""

    path: str
    epoch: str
    # Active or deferred.
    dead_letter: Sequence[Poison] = ()
    defer: Sequence[int] = ()
    # Deferred ones that were processed after all.
    complete: Sequence[int] = ()
    # Everything planned before these was processed, by fragment index.
    ends: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """How many of each."""

    path: str
    completed: int
    dead_lettered: int
    deferred: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    """A message that an entity does not take."""

    row: int
    condition: str
    text: str
    is_retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What became of the rows of an append."""

    applied_count: int
    # Those that were here before: by their send id, or what they were restored from.
    known: Sequence[int]
    refused: Sequence[RefusedRow]
