"""For how long a loop has not turned, counted in looks at it.

A standstill is worth an early diagnosis once, when it has a certain length, and not
soon after another one: a machine with too much to do pauses again and again.
"""

from typing import final


@final
class Standstill:
    """Of the loop of one process. It counts looks and not the time: a process that was
    stopped with all its threads does not look."""

    def __init__(self, early_looks: int = 0, pause_looks: int = 0) -> None:
        """`early_looks`: the length for an early diagnosis; 0: none. After one there is
        no other for `pause_looks`."""
        self._early_looks = early_looks
        self._pause_looks = pause_looks
        # How often the loop had turned at the last look.
        self._beat = -1
        # Looks since an early diagnosis; None: there was none.
        self._since_early: int | None = None
        # Looks in a row at which the loop had not turned.
        self.missed_count = 0

    def look(self, beat: int) -> None:
        self.missed_count = 0 if beat != self._beat else self.missed_count + 1
        self._beat = beat
        if self._since_early is not None:
            self._since_early += 1

    def is_early_due(self) -> bool:
        """Asked once for each look."""
        if not self._early_looks or self.missed_count != self._early_looks:
            return False
        if self._since_early is not None and self._since_early < self._pause_looks:
            return False
        self._since_early = 0
        return True
