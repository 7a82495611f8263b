"""Work that needs a look at the store first, done once per turn of its owner.

All ids of a turn are looked up together, then each piece of work applies itself to
the change set that is committed next, in the order in which it came.
"""

from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.fragment import Fragment
from twinbus.broker.home import Home
from twinbus.store.base import Store


class Admissions:
    """What waits for the next turn."""

    def __init__(self, home: Home, store: Store) -> None:
        self._home = home
        self._store = store
        self._waiting: list[Admission] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, admission: Admission) -> None:
        self._waiting.append(admission)
        self._home.admitted_bytes += admission.pending_bytes

    async def apply(self, now: int) -> None:
        """Look up, and apply. Raises StoreError if the store cannot be read."""
        waiting = list(self._waiting)
        duplicates = await self._look_up(waiting, now)
        self._apply(waiting, duplicates, now)

    def apply_unseen(self, now: int) -> None:
        """Apply without a look at the store: for a change set that is refused."""
        self._apply(list(self._waiting), Duplicates(), now)

    def _apply(
        self, waiting: list[Admission], duplicates: Duplicates, now: int
    ) -> None:
        # Others may have come while the store was asked.
        del self._waiting[: len(waiting)]
        for admission in waiting:
            self._home.admitted_bytes -= admission.pending_bytes
        for admission in waiting:
            admission.apply(duplicates, now)

    async def _look_up(self, waiting: list[Admission], now: int) -> Duplicates:
        duplicates = Duplicates()
        asked: dict[Fragment, list[bytes]] = {}
        for admission in waiting:
            for fragment, unique_id in zip(
                admission.fragments, admission.unique_ids, strict=True
            ):
                asked.setdefault(fragment, []).append(unique_id)
        for fragment, unique_ids in asked.items():
            seen = await self._store.seen(fragment.number, unique_ids, now)
            duplicates.add(fragment.number, seen)
        await self._look_up_restored(waiting, duplicates)
        return duplicates

    async def _look_up_restored(
        self, waiting: list[Admission], duplicates: Duplicates
    ) -> None:
        asked: dict[tuple[str, bytes], list[int]] = {}
        for admission in waiting:
            for origin in admission.origins:
                key = (origin.source, origin.generation)
                asked.setdefault(key, []).append(origin.first)
        for (source, generation), numbers in asked.items():
            restored = await self._store.restored(source, generation, numbers)
            duplicates.add_restored(source, generation, restored)
