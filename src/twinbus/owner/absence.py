"""The time while a store is away: everything is refused, until it can be opened again.

Only if the process serves other stores, too; otherwise it ends, and a restart finds
out what is true.
"""

import logging
from typing import TYPE_CHECKING, Final

from twinbus.store.base import StoreError

if TYPE_CHECKING:
    from twinbus.owner.store_owner import StoreOwner

_log = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 200
_LONGEST_PAUSE_MS: Final = 10_000
"""How long a store that failed is left alone before it is opened again."""


class Absence:
    """Of the store of one owner."""

    def __init__(self, owner: "StoreOwner") -> None:
        self._owner = owner
        # When the store is opened again, and how long it was left alone before.
        self._opens_at = 0
        self._pause_ms = _FIRST_PAUSE_MS

    async def ends(self) -> bool:
        """Wait until the store is there again; False if its owner is stopped before."""
        owner = self._owner
        owner.give_up_memory()
        self._pause_ms = _FIRST_PAUSE_MS
        self._opens_at = owner.clock.now() + self._pause_ms
        while not owner.is_stopping:
            await owner.woken()
            owner.refuse_all()
            if owner.clock.now() >= self._opens_at and await self._is_over():
                return True
        return False

    async def _is_over(self) -> bool:
        owner = self._owner
        try:
            async with owner.reading:
                await owner.open_again()
        except StoreError as error:
            self._pause_ms = min(2 * self._pause_ms, _LONGEST_PAUSE_MS)
            self._opens_at = owner.clock.now() + self._pause_ms
            _log.warning("the store is still away: %s", error)
            return False
        _log.warning("the store is back")
        return True
