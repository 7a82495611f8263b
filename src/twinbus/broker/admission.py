"""Work that needs a look at the store before it can be applied.

Whether a message was seen before, by its id or by what it was restored from, is known
to the store alone: the history of a busy queue would not fit into memory. So what
depends on it (a send to an entity with duplicate detection, a transaction) is handed
to the owner of the store, which asks for all ids of a turn at once, and then lets each
piece of work apply itself, in the order in which it came, to the change set that is
committed next.
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from twinbus.broker.changes import ChangeSet, LedgerId, LedgerRange
from twinbus.broker.fragment import Fragment


@final
class Duplicates:
    """Which ids are known: those the store has, and those of this turn."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, bytes]] = set()
        # Source, generation and number of messages that were restored.
        self._restored: set[tuple[str, bytes, int]] = set()

    def add(self, fragment_number: int, unique_ids: set[bytes]) -> None:
        """The store has these."""
        for unique_id in unique_ids:
            self._seen.add((fragment_number, unique_id))

    def add_restored(self, source: str, generation: bytes, numbers: set[int]) -> None:
        """The store has restored these."""
        for number in numbers:
            self._restored.add((source, generation, number))

    def is_new(
        self,
        fragment: Fragment,
        unique_id: bytes,
        window_ms: int,
        now: int,
        changes: ChangeSet,
    ) -> bool:
        """False for a duplicate; a new id is remembered by the commit, for a time."""
        key = (fragment.number, unique_id)
        if key in self._seen:
            return False
        self._seen.add(key)
        changes.check_home(fragment)
        changes.ledger_ids.append(
            LedgerId(
                fragment_number=fragment.number,
                unique_id=unique_id,
                forget_at=now + window_ms,
            )
        )
        return True

    def is_first_restore(self, origin: LedgerRange, changes: ChangeSet) -> bool:
        """False for a message that was restored before; else the commit notes it."""
        key = (origin.source, origin.generation, origin.first)
        if key in self._restored:
            return False
        self._restored.add(key)
        changes.add_restored(origin)
        return True


@mypyc_attr(allow_interpreted_subclasses=True)
class Admission:
    """A piece of work that waits for the look-up."""

    def __init__(self) -> None:
        # Ids to look up, with the fragment that may know them.
        self.fragments: list[Fragment] = []
        self.unique_ids: list[bytes] = []
        # Messages of other queues, to see whether they were restored.
        self.origins: list[LedgerRange] = []
        # What it holds in memory meanwhile.
        self.pending_bytes: int = 0

    def ask(self, fragment: Fragment, unique_id: bytes) -> None:
        """The id is to be looked up."""
        self.fragments.append(fragment)
        self.unique_ids.append(unique_id)

    def ask_restored(self, origin: LedgerRange) -> None:
        """Whether this was restored is to be looked up."""
        self.origins.append(origin)

    @abstractmethod
    def apply(self, duplicates: Duplicates, now: int) -> None:
        """Write to the open change set, or refuse; never raises."""
