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


class CatalogPlace(Protocol):
    """Where catalogs keep their content."""

    def catalog(self) -> Catalog:
        """A new catalog object, not open, for this place's content."""
        ...
