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
        # Where each store was served at the last look; None: nowhere.
        self._places: dict[Home, str | None] = {}

    def look(self, homes: Iterable[Home]) -> set[Home]:
        """Those that are served elsewhere than at the last look, or again."""
        moved: set[Home] = set()
        for home in homes:
            place = _HERE if home.is_serving else self._address_of(home)
            is_known = home in self._places
            if is_known and place is not None and self._places[home] != place:
                moved.add(home)
            self._places[home] = place
        return moved
