"""How a store does: what metrics and health checks say of it.

Figures only: what follows from trouble is decided by the owner of the store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from twinbus.broker.changes import ChangeSet
from twinbus.owner.commit_meter import CommitMeter
from twinbus.store.base import StoreError, StoreFull, StoreReadOnly

if TYPE_CHECKING:
    from twinbus.owner.store_owner import StoreOwner

WITH_ANOTHER_BROKER: Final = "is with another broker"
"""Why a store is not served here, for clients."""

_TELL_AGAIN_MS: Final = 10_000
"""So often the log says that commits fail for the same reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """One store at one moment."""

    # Without folders, hosts and passwords: health checks need no key.
    name: str
    # A value of OwnerState.
    state: str
    is_serving: bool
    is_full: bool
    # Of this process.
    commit_count: int
    commit_ms: int
    # How long the commit under way has taken so far; 0 if there is none.
    committing_ms: int
    # When it last failed, and why, for people; 0: never since the start.
    failed_at: int
    failure: str


@final
class StoreHealth:
    """Of the store of one owner, who notes what happens."""

    def __init__(self) -> None:
        self.commit_count = 0
        self.commit_ms = 0
        # What the last commit took.
        self.last_ms = 0
        # Rises with every turn of the owner.
        self.turn_count = 0
        # Told of each commit; None if nobody wants to know.
        self.meter: CommitMeter | None = None
        # By the monotonic clock; None: no commit is under way.
        self._began_at: int | None = None
        self.failed_at = 0
        self.failure = ""
        # The kind of failed commit that was logged last, and when.
        self._told: type[StoreError] | None = None
        self._told_at = 0
        # What clients are told.
        self.reason = "is away"

    def begin(self, monotonic: int) -> None:
        """A commit begins."""
        self._began_at = monotonic
        if self.meter is not None:
            self.meter.begin(monotonic)

    def end(self, monotonic: int, changes: ChangeSet, *, is_done: bool) -> None:
        """It has ended, well or not."""
        if self.meter is not None:
            self.meter.end(changes, monotonic, is_done=is_done)
        if self._began_at is not None:
            self.commit_count += 1
            self.last_ms = monotonic - self._began_at
            self.commit_ms += self.last_ms
            self._began_at = None

    def committing_ms(self, monotonic: int) -> int:
        return 0 if self._began_at is None else monotonic - self._began_at

    def is_news(self, error: StoreError, now: int) -> bool:
        """A commit failed, and the log does not say so already."""
        self.failed_at, self.failure = now, str(error)
        if self._told is type(error) and 0 <= now - self._told_at < _TELL_AGAIN_MS:
            return False
        self._told, self._told_at = type(error), now
        return True

    def is_away(self, error: BaseException, now: int) -> None:
        """The store failed, or could not be opened."""
        self.failed_at = now
        self.failure = str(error)
        self.reason = _reason(error)


def _reason(error: BaseException) -> str:
    """For clients: paths and causes are in the log."""
    if isinstance(error, StoreReadOnly):
        return "can only be read"
    if isinstance(error, StoreFull):
        return "is full"
    return "is away"


def report_of(owner: "StoreOwner") -> StoreReport:
    """How the store of an owner does."""
    health = owner.health
    return StoreReport(
        name=owner.name,
        state=owner.state.value,
        is_serving=owner.is_serving,
        is_full=owner.is_full,
        commit_count=health.commit_count,
        commit_ms=health.commit_ms,
        committing_ms=health.committing_ms(owner.clock.monotonic()),
        failed_at=health.failed_at,
        failure=health.failure,
    )


def short_names(locations: Sequence[str]) -> list[str]:
    """The ends of paths or URLs, without parameters: as much of each as it takes to
    tell all of them apart."""
    parts = [location.partition("?")[0].split("/") for location in locations]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{number}" for number in range(1, len(parts) + 1)]
