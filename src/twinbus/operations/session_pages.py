"""Lists sessions in pages, for clients that give the number of ids to skip.

A store continues after an id, and not after a number of ids. Counting from the start
for each page would be quadratic: too slow for a million sessions. So the position after
each page is kept, with the number of ids up to it. A client that starts at another
position waits for one count.

The list of a partitioned entity is that of its fragments, one after the other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from twinbus.store.base import Store

_REMEMBERED: Final = 64
"""Number of pages that are kept. A list needs only its last page."""

_PORTION: Final = 1_000

ListKey = tuple[bytes, int | None]
"""Which list: the entity's generation, and since when states were set, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPosition:
    """A place in a list."""

    # Ids before it.
    count: int = 0
    # The fragment to go on with.
    index: int = 0
    # The last id of that fragment before it; None at its beginning.
    after: str | None = None


class SessionPages:
    """Positions of one client in its lists."""

    def __init__(self) -> None:
        self._positions: dict[tuple[ListKey, int], ListPosition] = {}

    def remember(self, key: ListKey, position: ListPosition) -> None:
        self._positions.pop((key, position.count), None)
        self._positions[key, position.count] = position
        if len(self._positions) > _REMEMBERED:
            del self._positions[next(iter(self._positions))]

    def nearest(self, key: ListKey, skip: int) -> ListPosition:
        """The nearest known position that is not beyond `skip`."""
        best = ListPosition()
        for (of_key, count), position in self._positions.items():
            if of_key == key and best.count < count <= skip:
                best = position
        return best


class Listing:
    """One list of sessions: all, or those whose state was set after an instant."""

    def __init__(
        self,
        fragments: Sequence[tuple[Store, int]],
        key: ListKey,
        pages: SessionPages,
    ) -> None:
        # The store of each fragment, and its number there, by index.
        self._fragments = fragments
        self._key = key
        self._pages = pages

    async def page(self, skip: int, limit: int) -> list[str]:
        """Up to `limit` ids after the first `skip`."""
        at = self._pages.nearest(self._key, skip)
        while at.count < skip:
            passed, at = await self._read(at, min(skip - at.count, _PORTION))
            if not passed:
                return []
            # Let other tasks run: there may be a million.
            await asyncio.sleep(0)
        found, at = await self._read(at, limit)
        if found:
            self._pages.remember(self._key, at)
        return found

    async def _read(
        self, at: ListPosition, limit: int
    ) -> tuple[list[str], ListPosition]:
        """Up to `limit` ids, and the position after them."""
        found: list[str] = []
        index, after = at.index, at.after
        last = len(self._fragments) - 1
        while True:
            ids = await self._read_in(index, after, limit - len(found))
            found += ids
            after = ids[-1] if ids else after
            if len(found) == limit or index == last:
                count = at.count + len(found)
                return found, ListPosition(count=count, index=index, after=after)
            index, after = index + 1, None

    async def _read_in(self, index: int, after: str | None, limit: int) -> list[str]:
        store, number = self._fragments[index]
        _, since = self._key
        if since is None:
            return await store.sessions(number, after, limit)
        return await store.sessions_updated(number, since, after, limit)
