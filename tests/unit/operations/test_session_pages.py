"""Pages of sessions by number, from a store that continues after an id."""

import asyncio

from twinbus.operations.session_pages import Listing, ListPosition, SessionPages
from twinbus.store.memory import MemoryStore

KEY = (b"entity", None)


class CountingStore(MemoryStore):
    """A store of a thousand sessions that counts the ids it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.names = [f"{number:04}" for number in range(1_000)]
        self.read_count = 0

    async def sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        behind = [name for name in self.names if after is None or name > after]
        self.read_count += min(limit, len(behind))
        return behind[:limit]


async def test_pages_go_on_where_the_last_one_ended() -> None:
    store, pages = CountingStore(), SessionPages()
    listed: list[str] = []
    while page := await Listing([(store, 1)], KEY, pages).page(len(listed), 7):
        listed += page
    assert listed == store.names
    assert store.read_count == 1_000


async def test_page_from_elsewhere_is_counted_from_the_beginning() -> None:
    store, pages = CountingStore(), SessionPages()
    assert await Listing([(store, 1)], KEY, pages).page(990, 20) == store.names[990:]
    assert store.read_count == 1_000
    assert await Listing([(store, 1)], KEY, pages).page(1_001, 1) == []


async def test_lists_do_not_mix() -> None:
    store, pages = CountingStore(), SessionPages()
    await Listing([(store, 1)], KEY, pages).page(0, 5)
    assert pages.nearest(KEY, 9) == ListPosition(count=5, after="0004")
    assert pages.nearest((b"another", None), 9) == ListPosition()
    assert pages.nearest((b"entity", 77), 9) == ListPosition()
    assert pages.nearest(KEY, 4) == ListPosition()


async def test_few_pages_are_remembered() -> None:
    store, pages = CountingStore(), SessionPages()
    for skip in range(500):
        await Listing([(store, 1)], KEY, pages).page(skip, 1)
    assert pages.nearest(KEY, 500) == ListPosition(count=500, after="0499")
    assert pages.nearest(KEY, 400) == ListPosition()


async def test_others_have_their_turn_while_sessions_are_counted() -> None:
    store, pages, turns = CountingStore(), SessionPages(), list[int]()
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await Listing([(store, 1)], KEY, pages).page(990, 1)
    assert turns == [1]


async def test_fragments_follow_each_other() -> None:
    first, second, pages = CountingStore(), CountingStore(), SessionPages()
    first.names, second.names = ["a", "c", "e"], ["b", "d"]
    listing = Listing([(first, 1), (second, 1)], KEY, pages)
    assert await listing.page(0, 9) == ["a", "c", "e", "b", "d"]
    assert await listing.page(2, 2) == ["e", "b"]
    assert pages.nearest(KEY, 4) == ListPosition(count=4, index=1, after="b")
    assert await listing.page(4, 9) == ["d"]
    second.names.append("f")
    assert await listing.page(5, 9) == ["f"]
    assert await listing.page(6, 9) == []
