"""Lists sessions in pages, for clients that give the number of ids to skip.

A store continues after an id, and not after a number of ids. Counting from the start
for each page would be quadratic: too slow for a million sessions. So the last id of
each page is kept, with the number of ids up to it. A client that starts at another
position waits for one count.
"""

import asyncio
from typing import Final

from twinbus.store.base import Store

_REMEMBERED: Final = 64
"""Number of pages that are kept. A list needs only its last page."""

_PORTION: Final = 1_000


class SessionPages:
    """Positions of one client in its lists."""

    def __init__(self) -> None:
        # The last id of a page, by fragment, `since`, and number of ids up to it.
        self._last_ids: dict[tuple[int, int | None, int], str] = {}

    def remember(self, number: int, since: int | None, count: int, last: str) -> None:
        self._last_ids.pop((number, since, count), None)
        self._last_ids[number, since, count] = last
        if len(self._last_ids) > _REMEMBERED:
            del self._last_ids[next(iter(self._last_ids))]

    def nearest(self, number: int, since: int | None, skip: int) -> tuple[int, str]:
        """The nearest known position that is not beyond `skip`: the number of ids, and
        the last of them."""
        best, last = 0, ""
        for (of_number, of_since, count), last_id in self._last_ids.items():
            if (of_number, of_since) == (number, since) and best < count <= skip:
                best, last = count, last_id
        return best, last


class Listing:
    """One list of sessions: all, or those whose state was set after `since`."""

    def __init__(
        self, store: Store, fragment_number: int, since: int | None, pages: SessionPages
    ) -> None:
        self._store = store
        self._number = fragment_number
        self._since = since
        self._pages = pages

    async def page(self, skip: int, limit: int) -> list[str]:
        """Up to `limit` ids after the first `skip`."""
        count, last = self._pages.nearest(self._number, self._since, skip)
        after = last if count else None
        while count < skip:
            passed = await self._read(after, min(skip - count, _PORTION))
            if not passed:
                return []
            after = passed[-1]
            count += len(passed)
            # Let other tasks run: there may be a million.
            await asyncio.sleep(0)
        found = await self._read(after, limit)
        if found:
            self._pages.remember(
                self._number, self._since, skip + len(found), found[-1]
            )
        return found

    async def _read(self, after: str | None, limit: int) -> list[str]:
        if self._since is None:
            return await self._store.sessions(self._number, after, limit)
        return await self._store.sessions_updated(
            self._number, self._since, after, limit
        )
