"""Notices stores that are served by another broker than before.

Links know where their fragments are from the time of their attach. When a store has
moved, the links of its entities are detached: clients attach again, and are led to
where it is now.
"""

from collections.abc import Callable, Iterable
from typing import Final

from twinbus.broker.home import Home

_HERE: Final = "here"


class StoreMoves:
    """Of the stores that this broker knows."""

    def __init__(self, address_of: Callable[[Home], str | None]) -> None:
        """`address_of`: the broker that serves a store, if it is another one."""
        self._address_of = address_of
        # Where each store was served when it was last served.
        self._places: dict[Home, str] = {}
        # Those that were served nowhere at the last look.
        self._away: set[Home] = set()

    def look(self, homes: Iterable[Home]) -> tuple[set[Home], set[Home], set[Home]]:
        """Those that are served elsewhere than before; those that are served again or
        for the first time: links to several fragments lack theirs; and those that
        another broker no longer serves, and nobody else."""
        moved: set[Home] = set()
        returned: set[Home] = set()
        left: set[Home] = set()
        for home in homes:
            place = _HERE if home.is_serving else self._address_of(home)
            if place is None:
                was_elsewhere = self._places.get(home, _HERE) != _HERE
                if was_elsewhere and home not in self._away:
                    left.add(home)
                self._away.add(home)
                continue
            if self._places.get(home, place) != place:
                moved.add(home)
            elif home in self._away:
                returned.add(home)
            self._places[home] = place
            self._away.discard(home)
        return moved, returned, left
