"""What a pair needs of a namespace to send: doors into its entities.

The code of a pair calls these protocols. `sdk/` implements them over the vendor's SDK,
the simulator over a bus without sockets. What the syphon needs is in `syphon/ports.py`.
Each adapter has its own type of message; only its `Dialect` looks inside.

Every call may be cancelled, because a time-out is a cancellation: the adapter then
drops the link that the call used, and the next call opens another. Adapters raise their
own errors, and their dialect tells which kind of failure an error is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from twinbus.pairing.detour import Detour
from twinbus.pairing.failures import FailureKind

M = TypeVar("M")


class Door(Protocol[M]):
    """A way into one entity, for one user at a time."""

    async def send(self, messages: Sequence[M], timeout_seconds: float) -> None:
        """Send all of them or none, as the SDK sends a list; one alone as a message."""
        ...

    async def send_some(self, messages: Sequence[M], timeout_seconds: float) -> int:
        """Send the first messages, as many as one batch takes; returns how many."""
        ...

    async def open(self, timeout_seconds: float) -> None:
        """Open the link, if it is not open; sends nothing."""
        ...

    async def schedule(
        self, messages: Sequence[M], due_at: int, timeout_seconds: float
    ) -> list[int]:
        """Schedule messages; returns their sequence numbers. `due_at` is in
        milliseconds since the epoch."""
        ...

    async def cancel(self, numbers: Sequence[int], timeout_seconds: float) -> None:
        """Cancel scheduled messages by their sequence numbers."""
        ...

    async def cancel_sent(
        self, send_ids: Sequence[bytes], timeout_seconds: float
    ) -> list[bool]:
        """Remove messages that still wait here, by send id; returns for each whether it
        was removed.

        Raises CannotCancel if the namespace has no such operation.
        """
        ...

    async def ping(self, timeout_seconds: float) -> None:
        """Ping (P11): returns if the entity could take a message now, else raises."""
        ...

    async def peek(
        self, from_number: int, max_count: int, timeout_seconds: float
    ) -> list[tuple[int, M]]:
        """Peek at messages of every state, from a sequence number on; returns them with
        their numbers. An empty list means that there are no more."""
        ...

    async def close(self) -> None:
        """Close the link; never raises, never hangs."""
        ...


class PairedNamespace(Protocol[M]):
    """One side of a pair."""

    # The host name, for texts and for the restore ledger.
    name: str

    def door(self, path: str, link: Mapping[str, Any] | None = None) -> Door[M]:
        """A new door into the entity, opened when first used. `link` has the options of
        the application for its link, as the adapter names them."""
        ...


class Dialect(Protocol[M]):
    """How an adapter's messages and errors are read and written."""

    def stamp(self, message: M, send_id: bytes, message_id: str | None) -> None:
        """Write the send id, also over one that is there: an application may send a
        message that it received, and that is a new message. The message id is written
        only if the message has none."""
        ...

    def unstamp(self, message: M) -> None:
        """Remove what `stamp` wrote."""
        ...

    def send_id(self, message: M) -> bytes | None: ...

    def session_id(self, message: M) -> str | None: ...

    def message_id(self, message: M) -> str | None: ...

    def detour(self, message: M) -> Detour | None:
        """The detour that a message of a backlog queue carries; None if unreadable."""
        ...

    def divert(
        self, message: M, path: str, due_at: int | None = None, key: str | None = None
    ) -> M:
        """A copy for a backlog queue (P9); `due_at` if it is to be scheduled. If the
        queue is partitioned, messages with the same `key` stay in order."""
        ...

    def kind_of(self, error: BaseException) -> FailureKind:
        """Which kind of failure the error is; P7's table says what follows."""
        ...

    def reason_of(self, error: BaseException) -> str:
        """What the error is about, for people."""
        ...

    def as_raised(self, error: Exception) -> Exception:
        """The error that the application gets."""
        ...

    def timed_out(self, text: str) -> Exception:
        """The error for a send whose time ended."""
        ...

    def refused(self, text: str) -> Exception:
        """The error for a call that a pair cannot carry out."""
        ...
