"""Work that needs a look at the store before it can be applied.

Whether a message id was seen before is known to the store alone: the history of a
busy queue would not fit into memory. So what depends on it (a send to an entity
with duplicate detection, a transaction) is handed to the owner of the store, which
asks for all ids of a turn at once, and then lets each piece of work apply itself,
in the order in which it came, to the change set that is committed next.
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from twinbus.broker.changes import ChangeSet, LedgerId
from twinbus.broker.fragment import Fragment


@final
class Duplicates:
    """Which ids are known: those the store has, and those of this turn."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, bytes]] = set()

    def add(self, fragment_number: int, unique_ids: set[bytes]) -> None:
        """The store has these."""
        for unique_id in unique_ids:
            self._seen.add((fragment_number, unique_id))

    def is_new(
        self, fragment: Fragment, unique_id: bytes, now: int, changes: ChangeSet
    ) -> bool:
        """False for a duplicate; a new id is remembered by the commit."""
        key = (fragment.number, unique_id)
        if key in self._seen:
            return False
        self._seen.add(key)
        forget_at = now + fragment.settings.duplicate_window_ms
        changes.ledger_ids.append(
            LedgerId(
                fragment_number=fragment.number,
                unique_id=unique_id,
                forget_at=forget_at,
            )
        )
        return True


@mypyc_attr(allow_interpreted_subclasses=True)
class Admission:
    """A piece of work that waits for the look-up."""

    def __init__(self) -> None:
        # Ids to look up, with the fragment that may know them.
        self.fragments: list[Fragment] = []
        self.unique_ids: list[bytes] = []
        # What it holds in memory meanwhile.
        self.pending_bytes: int = 0

    def ask(self, fragment: Fragment, unique_id: bytes) -> None:
        """The id is to be looked up."""
        self.fragments.append(fragment)
        self.unique_ids.append(unique_id)

    @abstractmethod
    def apply(self, duplicates: Duplicates, now: int) -> None:
        """Write to the open change set, or refuse; never raises."""
