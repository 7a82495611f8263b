"""All sources are held together, or not at all."""

import pytest

from twinbus.backup import one_moment
from twinbus.backup.one_moment import hold_one_moment
from twinbus.store.base import StoreError, StoreInUse


class Source:
    """Notes what is done to it; refuses to be held a number of times."""

    def __init__(self, location: str, done: list[str], refusals: int = 0) -> None:
        self.location = location
        self._done = done
        self._refusals = refusals
        self.is_held = False
        self.fails = False

    async def open(self) -> None:
        self._done.append(f"open {self.location}")

    async def hold(self, until: float) -> bool:
        if self._refusals:
            self._refusals -= 1
            return False
        self._done.append(f"hold {self.location}")
        self.is_held = True
        return True

    async def look(self) -> None:
        if self.fails:
            raise StoreError("away")
        self._done.append(f"look {self.location}")

    async def let_go(self) -> None:
        if self.is_held:
            self._done.append(f"let go {self.location}")
        self.is_held = False

    async def close(self) -> None:
        self._done.append(f"close {self.location}")


async def test_all_are_held_before_one_is_looked_at() -> None:
    done: list[str] = []
    await hold_one_moment([Source("b", done), Source("a", done)])
    assert done == [
        *("hold a", "hold b", "look a", "look b"),
        *("let go a", "let go b"),
    ]


async def test_nothing_is_looked_at_before_the_last_can_be_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(one_moment, "_PAUSE_SECONDS", 0.0)
    done: list[str] = []
    await hold_one_moment([Source("a", done), Source("b", done, refusals=2)])
    assert done == [
        *("hold a", "let go a", "hold a", "let go a"),
        *("hold a", "hold b", "look a", "look b", "let go a", "let go b"),
    ]


async def test_it_is_given_up_after_many_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_moment, "_PAUSE_SECONDS", 0.0)
    done: list[str] = []
    sources = [Source("a", done), Source("b", done, refusals=10_000)]
    with pytest.raises(StoreInUse, match="could not be held"):
        await hold_one_moment(sources)
    assert not any(source.is_held for source in sources)
    assert "look a" not in done


async def test_a_source_that_fails_leaves_none_held() -> None:
    done: list[str] = []
    sources = [Source("a", done), Source("b", done)]
    sources[1].fails = True
    with pytest.raises(StoreError, match="away"):
        await hold_one_moment(sources)
    assert not any(source.is_held for source in sources)
