"""Work that needs a look-up in the store before it can be applied.

Only the store knows whether a message was seen before, by its id or by the message it
was restored from: the history of a busy queue would not fit into memory. So a send to
an entity with duplicate detection, or a transaction, is handed to the owner of the
store. The owner looks up the ids of all such work in one read. Then each piece of work
is applied, in order of arrival, to the change set that is committed next.
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from twinbus.broker.changes import ChangeSet, LedgerId, LedgerRange
from twinbus.broker.fragment import Fragment


@final
class Duplicates:
    """Known ids: those in the store, and those that this turn added."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, bytes]] = set()
        # Source, generation and number of messages that were restored.
        self._restored: set[tuple[str, bytes, int]] = set()

    def add(self, fragment_number: int, unique_ids: set[bytes]) -> None:
        """Add ids that the store has."""
        for unique_id in unique_ids:
            self._seen.add((fragment_number, unique_id))

    def add_restored(self, source: str, generation: bytes, numbers: set[int]) -> None:
        """Add messages that the store has recorded as restored."""
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
        """False for a duplicate. A new id is remembered by the commit, for the
        window."""
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

    def was_restored(self, origin: LedgerRange) -> bool:
        """True if the store has recorded it."""
        return (origin.source, origin.generation, origin.first) in self._restored

    def is_first_restore(self, origin: LedgerRange, changes: ChangeSet) -> bool:
        """False if it was restored before; otherwise the change set records it."""
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
        # Ids to look up, and for each the fragment that may have seen it.
        self.fragments: list[Fragment] = []
        self.unique_ids: list[bytes] = []
        # Messages of other queues: were they restored before?
        self.origins: list[LedgerRange] = []
        # Bytes that it holds in memory while it waits.
        self.pending_bytes: int = 0

    def ask(self, fragment: Fragment, unique_id: bytes) -> None:
        """Look up this id."""
        self.fragments.append(fragment)
        self.unique_ids.append(unique_id)

    def ask_restored(self, origin: LedgerRange) -> None:
        """Look up whether this message was restored."""
        self.origins.append(origin)

    @abstractmethod
    def apply(self, duplicates: Duplicates, now: int) -> None:
        """Write to the open change set, or refuse the work. Never raises."""
