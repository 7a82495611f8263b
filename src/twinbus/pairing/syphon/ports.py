"""What the syphon needs of the two namespaces: sources of backlog, an outlet.

An engine offers these over one protocol stack. Its messages derive from
`BacklogMessage`; what else is in them only the engine knows.

Errors of the secondary are the engine's own, and end a worker's round. Errors of the
primary come back as a `RestoreRefusal`, because their consequences differ by message.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from twinbus.pairing.detour import Detour
from twinbus.pairing.failures import FailureKind


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a message cannot be restored: what its dead letter will say."""

    reason: str
    description: str


class BacklogMessage:
    """A message of a backlog queue, and how it is to be restored, or why it cannot."""

    __slots__ = (
        "detour",
        "enqueued_at",
        "fault",
        "is_deferred",
        "sequence_number",
        "size_bytes",
        "time_to_live_ms",
    )

    def __init__(
        self,
        *,
        sequence_number: int,
        enqueued_at: int,
        size_bytes: int,
        detour: Detour | None,
        fault: Fault | None = None,
        is_deferred: bool = False,
    ) -> None:
        assert (detour is None) != (fault is None)
        self.sequence_number = sequence_number
        # By the clock of the secondary.
        self.enqueued_at = enqueued_at
        self.size_bytes = size_bytes
        self.detour = detour
        self.fault = fault
        self.is_deferred = is_deferred
        # What it gets on the primary; None for none of its own.
        self.time_to_live_ms = None if detour is None else detour.time_to_live_ms


M = TypeVar("M", bound=BacklogMessage)
M_contra = TypeVar("M_contra", bound=BacklogMessage, contravariant=True)


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A deferred message, seen by peeking."""

    sequence_number: int
    # Empty if it does not say well where it belongs.
    path: str


@dataclass(frozen=True, slots=True)
class BacklogPage:
    """One look at a backlog queue: its deferred messages among all that were seen."""

    glimpses: tuple[Glimpse, ...]
    seen_count: int
    # Where to look next; None if this was the end of the queue.
    next_number: int | None
    # The first that is not deferred, be it locked.
    first_active: int | None = None


class BacklogSource(Protocol[M]):
    """One backlog queue of the secondary. Every call may raise the engine's errors; a
    lock that was lost is none of them: the message is somebody else's then."""

    path: str

    async def receive(self, max_count: int, max_wait_seconds: float) -> list[M]:
        """Wait for messages; empty if none came in time."""
        ...

    async def complete(self, messages: Sequence[M]) -> None: ...

    async def abandon(self, messages: Sequence[M]) -> None:
        """Give them back; deferred ones stay deferred."""
        ...

    async def defer(self, messages: Sequence[M]) -> None: ...

    async def dead_letter(self, messages: Sequence[M], fault: Fault) -> None: ...

    async def peek_deferred(self, first_number: int) -> BacklogPage:
        """Look at the messages from this sequence number on."""
        ...

    async def take_deferred(self, numbers: Sequence[int]) -> list[M]:
        """Lock deferred messages, in this order; without those that are gone or that
        somebody else has."""
        ...

    async def close(self) -> None:
        """Give back what nobody has asked for yet; never raises, never hangs."""
        ...


@dataclass(frozen=True, slots=True)
class RestoreRefusal:
    """What the primary said of a message, or that it said nothing."""

    kind: FailureKind
    text: str


@dataclass(frozen=True, slots=True)
class Restored:
    """The first `count` messages were accepted; the next one was refused, and those
    behind it were not tried, so that order is kept."""

    count: int
    refusal: RestoreRefusal | None = None


class Outlet(Protocol[M_contra]):
    """The way into the primary."""

    async def restore(
        self, path: str, messages: Sequence[M_contra], timeout_seconds: float
    ) -> Restored:
        """Send messages to one entity, with all that they left behind."""
        ...

    async def is_reachable(self, timeout_seconds: float) -> bool:
        """The namespace as such answers, whatever its entities say."""
        ...

    async def credentials_fault(self, timeout_seconds: float) -> str:
        """Why the namespace refuses our credentials; empty if it does not, or does not
        answer."""
        ...

    async def close(self) -> None:
        """Never raises, never hangs."""
        ...


@dataclass(frozen=True, slots=True)
class BacklogQueue:
    """A queue of the secondary, and when it was made: its generation."""

    path: str
    created_at: int


Listing = Callable[[str], Awaitable[list[BacklogQueue]]]
"""Finds all queues whose path begins so; raises SecondaryError."""


class Lease(Protocol):
    """The right to run the syphon, held by one at a time."""

    async def acquire(self) -> None:
        """Wait until it is ours; raises the engine's errors."""
        ...

    async def renew(self) -> None:
        """Raises the engine's errors if it is no longer ours."""
        ...

    async def release(self) -> None:
        """Never raises, never hangs."""
        ...


class Secondary(Protocol[M]):
    """The namespace that has the backlog queues."""

    # As it stands in the primary's ledger.
    name: str

    async def queues(self, prefix: str) -> list[BacklogQueue]:
        """All queues whose path begins so."""
        ...

    def source(self, queue: BacklogQueue) -> BacklogSource[M]:
        """Opened when first used."""
        ...

    async def lease(self, path: str) -> Lease:
        """The lease that is kept at this queue, which is made if it is missing."""
        ...

    async def close(self) -> None:
        """Never raises, never hangs."""
        ...


@dataclass(frozen=True, slots=True)
class Engine(Generic[M]):
    """Both sides, over one protocol stack."""

    # For people: which stack it is.
    name: str
    secondary: Secondary[M]
    outlet: Outlet[M]

    async def close(self) -> None:
        await self.outlet.close()
        await self.secondary.close()
