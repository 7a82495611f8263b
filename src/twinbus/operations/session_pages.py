"""Lists of sessions in pages, for clients that say how many they have seen.

A store goes on behind an id, not behind a number of ids: to count a million again for
each page would make the list cost a trillion. So the last id of each page is
remembered, with the number of ids up to it; whoever goes on from elsewhere pays once.
"""

import asyncio
from typing import Final

from twinbus.store.base import Store

_REMEMBERED: Final = 64
"""Pages, the latest ones: each list needs its last."""

_PORTION: Final = 1_000


class SessionPages:
    """Where the lists of one client have got to."""

    def __init__(self) -> None:
        # The last id of so many, by fragment, kind of list, and that number.
        self._last_ids: dict[tuple[int, int | None, int], str] = {}

    def remember(self, number: int, since: int | None, count: int, last: str) -> None:
        self._last_ids.pop((number, since, count), None)
        self._last_ids[number, since, count] = last
        if len(self._last_ids) > _REMEMBERED:
            del self._last_ids[next(iter(self._last_ids))]

    def nearest(self, number: int, since: int | None, skip: int) -> tuple[int, str]:
        """The longest beginning of a list that is remembered and not beyond `skip`:
        how many ids, and the last of them."""
        best, last = 0, ""
        for (of_number, of_since, count), last_id in self._last_ids.items():
            if (of_number, of_since) == (number, since) and best < count <= skip:
                best, last = count, last_id
        return best, last


class Listing:
    """One list of sessions: all (`since` is None), or those whose state was set
    after an instant."""

    def __init__(
        self, store: Store, fragment_number: int, since: int | None, pages: SessionPages
    ) -> None:
        self._store = store
        self._number = fragment_number
        self._since = since
        self._pages = pages

    async def page(self, skip: int, limit: int) -> list[str]:
        """Up to `limit` ids behind the first `skip`."""
        count, last = self._pages.nearest(self._number, self._since, skip)
        after = last if count else None
        while count < skip:
            passed = await self._read(after, min(skip - count, _PORTION))
            if not passed:
                return []
            after = passed[-1]
            count += len(passed)
            # Others have their turn while a million is counted.
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
