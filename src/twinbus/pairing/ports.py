"""What a pair needs of a namespace to send: doors into its entities.

Shells are written against these; `sdk/` has them over the vendor's SDK, and the
simulator over a bus without sockets. What the syphon needs is in `syphon/ports.py`.
A message is whatever the adapter makes of it; only its `Dialect` looks inside.

Every call may be cancelled, because a time-out is a cancellation: an adapter then
drops the link it used, and the next call opens another. Errors are the adapter's own;
its dialect names their kind.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from twinbus.pairing.detour import Detour
from twinbus.pairing.failures import FailureKind

M = TypeVar("M")


class Door(Protocol[M]):
    """A way into one entity, for one user at a time."""

    async def send(self, messages: Sequence[M], timeout_seconds: float) -> None:
        """All of them or none, as the SDK sends a list; one alone as a message."""
        ...

    async def send_some(self, messages: Sequence[M], timeout_seconds: float) -> int:
        """As many of the first as one batch takes, at least one; how many."""
        ...

    async def open(self, timeout_seconds: float) -> None:
        """Reach the entity, if it is not reached already; sends nothing."""
        ...

    async def schedule(
        self, messages: Sequence[M], due_at: int, timeout_seconds: float
    ) -> list[int]:
        """Sequence numbers; `due_at` in milliseconds since the epoch."""
        ...

    async def cancel(self, numbers: Sequence[int], timeout_seconds: float) -> None:
        """Cancel scheduled messages by their sequence numbers."""
        ...

    async def cancel_sent(
        self, send_ids: Sequence[bytes], timeout_seconds: float
    ) -> list[bool]:
        """Remove messages that still wait here, by send id: which of them did.

        Raises CannotCancel if the namespace has no such operation.
        """
        ...

    async def ping(self, timeout_seconds: float) -> None:
        """P11: returns if the entity could take a message now."""
        ...

    async def peek(
        self, from_number: int, max_count: int, timeout_seconds: float
    ) -> list[tuple[int, M]]:
        """Messages that wait here, of every state, from a sequence number on, with
        their numbers; none are left if none is returned. Takes nothing."""
        ...

    async def close(self) -> None:
        """Give the link up; never raises, never hangs."""
        ...


class PairedNamespace(Protocol[M]):
    """One side of a pair."""

    # Host as it is known to people: for texts and for the restore ledger.
    name: str

    def door(self, path: str, link: Mapping[str, Any] | None = None) -> Door[M]:
        """A new way into the entity; opened when first used. `link` is what the
        application has to say about its link, in words of the adapter's."""
        ...


class Dialect(Protocol[M]):
    """How an adapter's messages and errors are read and written."""

    def stamp(self, message: M, send_id: bytes, message_id: str | None) -> None:
        """Write the send id, in place of any it has: an application may send again
        what it received, and that is another message. The message id only if it has
        none."""
        ...

    def unstamp(self, message: M) -> None:
        """Take out what `stamp` wrote."""
        ...

    def send_id(self, message: M) -> bytes | None: ...

    def session_id(self, message: M) -> str | None: ...

    def detour(self, message: M) -> Detour | None:
        """What a message of a backlog queue says; None if it cannot be understood."""
        ...

    def divert(self, message: M, path: str, due_at: int | None = None) -> M:
        """A copy for a backlog queue (P9); `due_at` if it is to be scheduled."""
        ...

    def kind_of(self, error: BaseException) -> FailureKind:
        """Which kind of failure the error is; P7's table says what follows."""
        ...

    def reason_of(self, error: BaseException) -> str:
        """What the error is about, for people."""
        ...

    def as_raised(self, error: Exception) -> Exception:
        """The error as the application is to get it."""
        ...

    def timed_out(self, text: str) -> Exception:
        """The error for a send whose time ended."""
        ...

    def refused(self, text: str) -> Exception:
        """The error for a call that a pair cannot carry out."""
        ...
