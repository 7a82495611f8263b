"""Troubles of paired sites, drawn from the seed and recorded.

The auditor asks here whether a send was allowed to fail: only if there was trouble
while it tried.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from simulator.loop import VirtualLoop
from simulator.pair_site import Site
from simulator.pair_wire import FROZEN, GONE
from twinbus.errors import ServiceBusError

CRASH: Final = "crash"
DISABLED: Final = "disabled"
FLAPPING: Final = "flapping"
JUMP: Final = "clock jump"
BAD_STORE: Final = "bad store"

STEADY: Final = {GONE, FROZEN, DISABLED}
"""During these not a single send succeeds."""

_DURATIONS: Final = (0.5, 2.0, 8.0, 20.0, 60.0)
_FLAP_SECONDS: Final = (0.2, 1.0, 3.0)


@dataclass(slots=True, kw_only=True)
class Trouble:
    """One trouble, for a while."""

    site: str
    kind: str
    # The entity that has the trouble; empty: the whole site.
    path: str
    began_at: int
    ended_at: int | None = None

    def overlaps(self, first: int, last: int) -> bool:
        is_over_before = self.ended_at is not None and self.ended_at < first
        return self.began_at <= last and not is_over_before


class Troubles:
    """All troubles, by a monotonic clock."""

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self._all: list[Trouble] = []

    def now(self) -> int:
        return round(self._loop.time() * 1000)

    def note(self, site: Site, kind: str, path: str = "") -> Trouble:
        trouble = Trouble(site=site.name, kind=kind, path=path, began_at=self.now())
        self._all.append(trouble)
        site.note(f"TROUBLE {kind} {path}".rstrip())
        return trouble

    def over(self, site: Site, trouble: Trouble, *, after_ms: int = 0) -> None:
        trouble.ended_at = self.now() + after_ms
        site.note(f"no more {trouble.kind} {trouble.path}".rstrip())

    def of(self, site: str, path: str, first: int, last: int) -> list[Trouble]:
        """The troubles of an entity in that time."""
        return [
            one
            for one in self._all
            if one.site == site and one.path in ("", path) and one.overlaps(first, last)
        ]

    def anywhere(self, site: str, first: int, last: int) -> list[Trouble]:
        """The troubles of any part of a site in that time."""
        return [
            one for one in self._all if one.site == site and one.overlaps(first, last)
        ]

    # --- making them ------------------------------------------------------------

    async def make(self, site: Site, kind: str, paths: list[str]) -> None:
        """Cause a trouble for a while."""
        random = self._random
        seconds = random.choice(_DURATIONS) * random.uniform(0.5, 1.5)
        if kind == CRASH:
            await self._crash(site)
        elif kind == JUMP:
            by_ms = random.choice((-40_000, -3_000, 3_000, 40_000))
            site.note(f"the clock jumps by {by_ms} ms")
            site.clock.jump(by_ms)
        elif kind == DISABLED:
            await self._disable(site, random.choice(paths), seconds)
        elif kind == FLAPPING:
            await self._flap(site, seconds)
        else:
            trouble = self.note(site, kind)
            site.wire.begin(kind)
            await asyncio.sleep(seconds)
            site.wire.end(kind)
            self.over(site, trouble)

    async def _crash(self, site: Site) -> None:
        trouble = self.note(site, CRASH)
        site.crash("at any moment")
        await site.until_up()
        self.over(site, trouble)

    async def _flap(self, site: Site, seconds: float) -> None:
        trouble = self.note(site, FLAPPING)
        for _ in range(round(seconds) + 2):
            site.wire.begin(GONE)
            await asyncio.sleep(self._random.choice(_FLAP_SECONDS))
            site.wire.end(GONE)
            await asyncio.sleep(self._random.choice(_FLAP_SECONDS))
        self.over(site, trouble)

    async def _disable(self, site: Site, path: str, seconds: float) -> None:
        """By changing the entity's status."""
        trouble = self.note(site, DISABLED, path)
        await _set_status(site, path, "SendDisabled")
        await asyncio.sleep(seconds)
        await _set_status(site, path, "Active")
        self.over(site, trouble)


async def _set_status(site: Site, path: str, status: str) -> None:
    await until_done(site, lambda: _update(site, path, status))


async def _update(site: Site, path: str, status: str) -> None:
    namespace = site.life.namespace
    if any(queue.path == path for queue in namespace.queues()):
        await namespace.update_queue(path, {"status": status})
    else:
        await namespace.update_topic(path, {"status": status})


async def until_done(site: Site, work: Callable[[], Awaitable[None]]) -> None:
    """Repeat an operator's action until it succeeds."""
    while True:
        await site.until_up()
        life = site.life
        doing = asyncio.ensure_future(_ignoring_refusals(work))
        ending = asyncio.ensure_future(life.ended.wait())
        await asyncio.wait((doing, ending), return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if doing.done() and doing.result():
            return
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)
        await asyncio.sleep(1)


async def _ignoring_refusals(work: Callable[[], Awaitable[None]]) -> bool:
    try:
        await work()
    except ServiceBusError:
        return False
    return True
