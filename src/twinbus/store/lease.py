"""The lease of a store: who may write to it.

    free -- take --> held -- renew --> held -- give back --> free
                       |
                       +-- not renewed within its term --> expired: another may take it
                       +-- another has taken it ---------> lost: commits are refused

Each take raises the epoch of the store, and every commit checks the epoch in its own
transaction. So a holder that was replaced cannot write, whatever it believes. That
alone keeps the data right. But a holder also serves receivers from memory, without
asking the store: it must know *before* another can take the lease that it may not go
on. So it counts the term by its own clock, from the moment at which it asked, and stops
some time before the end.

A store in a file of this machine has a lease without a term: it ends with the process
that holds it, which others can see.
"""

from collections.abc import Callable
from typing import Final, Protocol, final, runtime_checkable

_RENEWALS_PER_TERM: Final = 6
"""Every second of a usual term of six; three in a row may fail."""

_MARGIN_PART: Final = 5
"""The holder stops when this part of the term is left: clocks do not run equally fast,
and it looks at its own only once in a while."""


class StoreLease(Protocol):
    """The right to write to one store. `now` is the time of whoever asks; a store with
    a clock of its own goes by that."""

    @property
    def term_ms(self) -> int:
        """How long it lasts after it was taken or renewed. 0: as long as the process
        that holds it; then there is nothing to renew."""
        ...

    async def take(self, owner: str, now: int) -> int:
        """Become the owner, and get the epoch: one more than the last. `owner`
        describes the broker, for people.

        Raises StoreInUse while another holds it, StoreUnreadable (CommitsLost),
        StoreFull.
        """
        ...

    async def renew(self, now: int) -> None:
        """Hold it for another term. Raises LeaseLost if another has taken it."""
        ...

    async def give_back(self) -> None:
        """Let others take it at once. Does nothing if it is lost, or not held."""
        ...


@runtime_checkable
class SchemaLease(Protocol):
    """The lease of a store on a database server. What is there is found out by whoever
    takes it, and these say what it may do about it."""

    # Make a store where there is none.
    may_make: bool
    # Bring a store to the newest format: all who may want it can read that.
    may_migrate: Callable[[], bool]


@runtime_checkable
class WatchedLease(Protocol):
    """A lease whose holder can only be watched: it expires when that is not heard of
    for a term. Who may have to take it one day looks at it early."""

    async def look(self) -> None:
        """Note whether its holder is heard of. Raises StoreError."""
        ...

    def holder_ended(self, epoch: int) -> None:
        """The process that took it in that epoch has certainly ended: if it holds it
        still, nobody has to wait for the end of the term."""
        ...


@final
class HeldLease:
    """A lease as its holder knows it: all instants are those of the holder's clock,
    which must not go back."""

    def __init__(self, epoch: int, term_ms: int, asked_at: int) -> None:
        self.epoch: int = epoch
        self.term_ms: int = term_ms
        # When the holder asked for it: the store granted it later than that.
        self._asked_at: int = asked_at

    def renewed(self, asked_at: int) -> None:
        """The store has granted another term, for a request of that time."""
        self._asked_at = asked_at

    def age_ms(self, at: int) -> int:
        """How long ago it was last taken or renewed."""
        return max(at - self._asked_at, 0)

    def must_renew(self, at: int) -> bool:
        """It is time to ask for another term."""
        return self._has_passed(self.term_ms // _RENEWALS_PER_TERM, at)

    def is_expired(self, at: int) -> bool:
        """The holder must stop: soon another can take it."""
        return self._has_passed(self.term_ms - self.term_ms // _MARGIN_PART, at)

    def _has_passed(self, duration_ms: int, at: int) -> bool:
        return self.term_ms > 0 and at - self._asked_at >= duration_ms
