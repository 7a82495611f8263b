"""Fragments in whose memory time changes something: their locks and messages end.

When thousands of locks end at once, one commit counts a limited number of them; the
next commits count the rest.
"""

from twinbus.broker import expiry
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment


class TimedFragments:
    """Those of one store."""

    def __init__(self) -> None:
        self._fragments: dict[int, Fragment] = {}
        # Those with locks that have ended and are not counted yet.
        self._overdue: list[Fragment] = []

    def watch(self, fragment: Fragment) -> None:
        """Look at the fragment when time passes, if time matters to it."""
        if expiry.has_timers(fragment):
            self._fragments[fragment.number] = fragment

    def has_overdue(self) -> bool:
        return bool(self._overdue)

    def let_time_pass(self, now: int, changes: ChangeSet) -> None:
        """Apply what is due."""
        self._overdue = self._pass(list(self._fragments.values()), now, changes)

    def catch_up(self, now: int, changes: ChangeSet) -> None:
        """Apply what was too much for the last commit."""
        if self._overdue:
            self._overdue = self._pass(self._overdue, now, changes)

    def _pass(
        self, fragments: list[Fragment], now: int, changes: ChangeSet
    ) -> list[Fragment]:
        """The fragments that have more to do."""
        left = []
        for fragment in fragments:
            if not expiry.let_time_pass(fragment, now, changes):
                left.append(fragment)
            if not expiry.has_timers(fragment):
                self._fragments.pop(fragment.number, None)
        return left

    def clear(self) -> None:
        """All of memory was given up."""
        self._fragments.clear()
        self._overdue.clear()
