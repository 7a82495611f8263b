"""Whether a lease that is lent for a term may be taken from its holder.

It may, if it was given back, if its term is over by the clock of whoever watches, if
its holder is known to have ended, or if it is our own: the server was away when it
should have been given back, or confirmed.
"""

from dataclasses import dataclass
from typing import final

from twinbus.store.base import LeaseInDoubt, StoreInUse
from twinbus.store.postgres_lease_watch import LeaseWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """What the row of the lease says."""

    epoch: int
    connection: int
    # None: nobody.
    owner: str | None
    application: str | None
    beat: int
    batch: int
    store_uuid: bytes

    @property
    def sign(self) -> tuple[int, ...]:
        return self.epoch, self.connection, self.beat, self.batch


@final
class LeaseClaim:
    """What one process knows of the lease that it may want."""

    def __init__(self, location: str, term_ms: int, watch: LeaseWatch) -> None:
        self._location = location
        self._term_ms = term_ms
        self._watch = watch
        # Under which the lease may be ours still, though it is not held here.
        self._names: set[str] = set()
        # Whoever took it then has ended; 0: nobody that we know of.
        self._dead_epoch = 0

    def refuse_if_held(self, holder: LeaseRow) -> None:
        """Raises StoreInUse: LeaseInDoubt, if its holder may be dead."""
        is_over = holder.owner is None or holder.epoch == self._dead_epoch
        if is_over or holder.application in self._names:
            self._watch.forget(holder.store_uuid)
            return
        unchanged_ms = self._watch.unchanged_ms(holder.store_uuid, holder.sign)
        if unchanged_ms is None:
            raise self.in_use(holder)
        if unchanged_ms < self._term_ms:
            raise LeaseInDoubt(
                f"{self._location} is in use by {holder.owner}, or was until it died: "
                f"unless it is heard of, it can be taken in "
                f"{self._term_ms - unchanged_ms} ms."
            )

    def in_use(self, holder: LeaseRow) -> StoreInUse:
        return StoreInUse(
            f"{self._location} is in use by {holder.owner}: stop it or choose another "
            "schema."
        )

    def begin_taking(self, name: str) -> None:
        """The server is asked for it under that name; the answer may be lost."""
        self._names.add(name)

    def taken(self, holder: LeaseRow, name: str) -> None:
        """It is ours, and was that of `holder`."""
        self._watch.forget(holder.store_uuid)
        self._names = {name}

    def saw(self, holder: LeaseRow) -> None:
        """Somebody looked at it, long before it is to be taken."""
        if holder.owner is not None:
            self._watch.unchanged_ms(holder.store_uuid, holder.sign)

    def holder_ended(self, epoch: int) -> None:
        """Whoever took it in that epoch has certainly ended."""
        self._dead_epoch = epoch
