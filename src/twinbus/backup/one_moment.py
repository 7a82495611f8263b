"""One moment of several stores and their catalog, while the bus goes on.

A message on its way from one store to another is always in one of them. Copies of
different moments could lack it in both: the copy of the first may be of a moment after
it left, that of the second of one before it came. So all of them are held for an
instant, in which nobody can commit; each gets a snapshot; and they are let go. The
copies are read from the snapshots, however long that takes.

Commits wait meanwhile as they do for any other writer, for some milliseconds. If the
stores cannot be held together within `_HOLD_SECONDS`, all are let go and it is tried
again: a bus that waits for half a second would refuse its clients.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from twinbus.backup.manifest import BackedUpStore, Progress
from twinbus.clock import SystemClock
from twinbus.store.base import StoreInUse
from twinbus.store.catalog_move import CatalogContent

_HOLD_SECONDS: Final = 0.2
"""Less than the half second that a commit to a file waits for another writer."""

_TRIES: Final = 60
_PAUSE_SECONDS: Final = 0.05


class SnapshotSource(Protocol):
    """What is copied: a store, or the catalog."""

    @property
    def location(self) -> str: ...

    async def open(self) -> None:
        """Get ready: connect. Raises StoreError."""
        ...

    async def hold(self, until: float) -> bool:
        """From now on nobody commits; False if that could not be had in time, by the
        clock of the loop. Raises StoreError."""
        ...

    async def look(self) -> None:
        """What is copied later is as it is now. Raises StoreError."""
        ...

    async def let_go(self) -> None:
        """Commits go on. Does nothing if it is not held."""
        ...

    async def close(self) -> None: ...


class StoreSource(SnapshotSource, Protocol):
    async def copy(self, folder: Path, name: str, progress: Progress) -> BackedUpStore:
        """Copy what was looked at into the folder, under this name. Raises
        StoreError."""
        ...


class CatalogSource(SnapshotSource, Protocol):
    async def content(self, folder: Path) -> CatalogContent:
        """What was looked at. The folder is for what is needed in between. Raises
        StoreError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMoment:
    """When it was, and how long commits had to wait for it."""

    at: int
    held_ms: float


async def hold_one_moment(sources: Sequence[SnapshotSource]) -> HeldMoment:
    """Give all of them a snapshot of the same moment. Raises StoreError."""
    # Two backups at the same time hold in the same order.
    ordered = sorted(sources, key=lambda source: source.location)
    for _ in range(_TRIES):
        held_at = 0.0
        try:
            held_at = await _hold_all(ordered)
            if held_at:
                at = SystemClock().now()
                for source in ordered:
                    await source.look()
        finally:
            for source in ordered:
                await source.let_go()
        if held_at:
            return HeldMoment(at=at, held_ms=_since(held_at))
        await asyncio.sleep(_PAUSE_SECONDS * (1 + random.random()))
    raise StoreInUse(
        f"The stores could not be held at one moment, in {_TRIES} tries: they, or "
        "their disks, are too busy. Nothing was copied; try again with less load."
    )


async def _hold_all(sources: Sequence[SnapshotSource]) -> float:
    """Since when the first is held; 0 if not all could be in time."""
    held_at = 0.0
    until = asyncio.get_running_loop().time() + _HOLD_SECONDS
    for source in sources:
        if not await source.hold(until):
            return 0.0
        held_at = held_at or asyncio.get_running_loop().time()
    return held_at


def _since(began: float) -> float:
    return round((asyncio.get_running_loop().time() - began) * 1000, 3)
