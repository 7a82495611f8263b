"""The time while a store is away: everything is refused, until it can be opened.

Only if the process serves other stores, too; otherwise it ends, and a restart finds
out what is true. A store may be away from the start on, or fail later. It is opened
again and again, with longer and longer pauses. To open it may take long, on a disk that
hangs; meanwhile everything is refused all the same.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from twinbus.store.base import StoreError

if TYPE_CHECKING:
    from twinbus.owner.store_owner import StoreOwner

_log = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 200
_LONGEST_PAUSE_MS: Final = 10_000
"""How long a store that failed is left alone before it is opened again."""

_LONGEST_SHARED_PAUSE_MS: Final = 500
"""The same where several brokers share stores: clients wait for the next owner."""

_LAST_WAIT_SECONDS: Final = 1.0
"""So long a stop waits for an opening that has begun. If it were ended at once, the
lease might have been taken all the same, and others would wait until it expires."""

_TELL_AGAIN_MS: Final = 300_000
"""So often the log repeats why a store is still away."""


class Absence:
    """Of the store of one owner."""

    def __init__(self, owner: "StoreOwner") -> None:
        self._owner = owner
        # When the store is opened again (monotonic), and how long it was left alone
        # before.
        self._opens_at = 0
        self._pause_ms = _FIRST_PAUSE_MS
        # While it is being opened.
        self._opening: asyncio.Task[None] | None = None
        # What the log says already, and since when.
        self._told = ""
        self._told_at = 0

    async def ends(self) -> bool:
        """Wait until the store is there again; False if its owner is stopped before."""
        owner = self._owner
        owner.give_up_memory()
        self._told = ""
        self._pause_ms = _FIRST_PAUSE_MS
        self._opens_at = owner.clock.monotonic() + self._pause_ms
        try:
            while not owner.is_stopping:
                await owner.woken()
                if self._is_over():
                    self._tell_end()
                    return True
                owner.refuse_all()
            return False
        finally:
            await self._stop_opening()

    def _tell_end(self) -> None:
        place = self._owner.store.location
        if self._owner.is_shared:
            _log.info("the store %s is served here", place)
        else:
            _log.warning("the store %s is back", place)

    def end_pause(self) -> None:
        """Open the store at once."""
        self._pause_ms = _FIRST_PAUSE_MS
        self._opens_at = 0

    def _is_over(self) -> bool:
        if self._opening is None:
            owner = self._owner
            if owner.is_wanted and owner.clock.monotonic() >= self._opens_at:
                self._opening = asyncio.create_task(self._owner.open_again())
                self._opening.add_done_callback(lambda _: self._owner.wake())
            return False
        if not self._opening.done():
            return False
        opening, self._opening = self._opening, None
        error = opening.exception()
        if error is not None:
            self._put_off(error)
        return error is None

    def _put_off(self, error: BaseException) -> None:
        now = self._owner.clock.now()
        is_shared = self._owner.is_shared
        longest_ms = _LONGEST_SHARED_PAUSE_MS if is_shared else _LONGEST_PAUSE_MS
        self._pause_ms = min(2 * self._pause_ms, longest_ms)
        self._opens_at = self._owner.clock.monotonic() + self._pause_ms
        self._owner.health.is_away(error, now)
        if not isinstance(error, StoreError):
            _log.critical("a store is not opened because of a bug", exc_info=error)
        elif str(error) != self._told or now - self._told_at >= _TELL_AGAIN_MS:
            self._told, self._told_at = str(error), now
            _log.warning("the store is still away: %s", error)

    async def _stop_opening(self) -> None:
        if self._opening is not None:
            await asyncio.wait((self._opening,), timeout=_LAST_WAIT_SECONDS)
            self._opening.cancel()
            with contextlib.suppress(asyncio.CancelledError, StoreError):
                await self._opening
            self._opening = None
