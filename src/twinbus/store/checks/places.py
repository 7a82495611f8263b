"""What the checks need of the thing under test."""

from typing import Protocol

from twinbus.store.base import Store
from twinbus.store.catalog import Catalog


class StorePlace(Protocol):
    """Where stores keep their content."""

    def store(self) -> Store:
        """A new store object, not open, for this place's content."""
        ...

    async def orphan(self) -> None:
        """Let the present owner look as if its process had died. Its store object
        still works, as that of a process that was only stopped would."""
        ...

    async def later(self, now: int, duration_ms: int) -> int:
        """The time `duration_ms` after `now`, for a store that is told the time. If it
        has a clock of its own, wait for so long."""
        ...


class CatalogPlace(Protocol):
    """Where catalogs keep their content."""

    def catalog(self) -> Catalog:
        """A new catalog object, not open, for this place's content."""
        ...
