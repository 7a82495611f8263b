"""The owners of the stores that one process serves, by the UUID of their store.

Each owner commits by itself and fails by itself. With one store the process ends when
that fails; with several only its fragments are out of service, and the others go on.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence

from twinbus.errors import STORE_TROUBLE, ServerBusy
from twinbus.fragments.placement import spread
from twinbus.limits import SYNC_SECONDS
from twinbus.owner.commit_pace import CommitPace
from twinbus.owner.owner_state import OwnerState
from twinbus.owner.sharing import Sharing
from twinbus.owner.store_health import short_names
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import StoreError, StoreInUse, StoreUnreadable

_log = logging.getLogger(__name__)


class Owners:
    """All stores of this process."""

    def __init__(
        self, owners: Sequence[StoreOwner], sharing: Sharing = Sharing.ALONE
    ) -> None:
        self._all = list(owners)
        self.sharing = sharing
        # Of those that were opened.
        self._by_uuid: dict[bytes, StoreOwner] = {}
        if self.are_several:
            pace = CommitPace()
            names = short_names([owner.store.location for owner in self._all])
            for owner, name in zip(self._all, names, strict=True):
                owner.name = name
                owner.serve_beside_others(pace)
                if sharing is Sharing.SHARED:
                    owner.share()

    def __iter__(self) -> Iterator[StoreOwner]:
        return iter(self._all)

    def find(self, store_uuid: bytes) -> StoreOwner | None:
        """The owner of that store; None if it is not served here."""
        return self._by_uuid.get(store_uuid)

    def serving(self) -> list[StoreOwner]:
        return [owner for owner in self._all if owner.state is OwnerState.SERVING]

    def for_new_entity(self) -> StoreOwner:
        """The one with the fewest fragments. Raises ServerBusy."""
        serving = self.serving()
        if not serving:
            raise ServerBusy(f"No message store is there. Try again. {STORE_TROUBLE}")
        return min(serving, key=lambda owner: owner.table.fragment_count())

    def for_new_fragments(self, count: int) -> tuple[bytes, ...]:
        """The stores for the fragments of a new partitioned entity, by index. Raises
        ServerBusy."""
        serving = self.serving()
        if not serving:
            raise ServerBusy(f"No message store is there. Try again. {STORE_TROUBLE}")
        loads = [(owner.table.fragment_count(), owner.store_uuid) for owner in serving]
        return spread(count, loads)

    # --- life -----------------------------------------------------------------

    async def open(
        self, description: str, remembered: Mapping[str, bytes] | None = None
    ) -> None:
        """Take the leases. Raises StoreError, and then holds no lease.

        One of several stores may be away if it is `remembered`, by its location: it is
        opened as soon as it is there. Shared ones must all be remembered; their leases
        are taken later.
        """
        try:
            if self.sharing is Sharing.SHARED:
                self._expect_all(description, remembered or {})
            elif self.are_several:
                await self._open_several(description, remembered or {})
            else:
                await self._all[0].open(description)
            for owner in self._all:
                self._enter(owner)
        except BaseException:
            await self.stop()
            raise

    def _expect_all(self, description: str, remembered: Mapping[str, bytes]) -> None:
        for owner in self._all:
            location = owner.store.location
            if location not in remembered:
                raise StoreError(
                    f"The catalog does not know the store {location}. Stop all "
                    "brokers, and start them with the same stores."
                )
            owner.expect_store(description, remembered[location])

    async def _open_several(
        self, description: str, remembered: Mapping[str, bytes]
    ) -> None:
        """All at once: one that hangs must not keep the others from being opened."""
        openings: dict[asyncio.Task[None], StoreOwner] = {}
        for owner in self._all:
            owner.expect_store(description, remembered.get(owner.store.location, b""))
            openings[asyncio.create_task(owner.open(description))] = owner
        _, pending = await asyncio.wait(openings, timeout=SYNC_SECONDS)
        for task in pending:
            task.cancel()
        await asyncio.gather(*openings, return_exceptions=True)
        errors = []
        for task, owner in openings.items():
            if task.cancelled():
                errors.append(StoreError(f"{owner.store.location} does not answer."))
            elif (error := task.exception()) is not None:
                errors.append(_as_trouble(error))
            else:
                continue
            self._allow_absence(owner, errors[-1])
        if not self.serving():
            raise errors[0]

    def _allow_absence(self, owner: StoreOwner, error: StoreError) -> None:
        """Raises the error if the store is not away but wrong, or never was here."""
        if isinstance(error, StoreUnreadable | StoreInUse) or not owner.store_uuid:
            raise error
        owner.health.is_away(error, owner.clock.now())
        _log.error("a store is away, the bus starts without it: %s", error)

    def _enter(self, owner: StoreOwner) -> None:
        if owner.store_uuid in self._by_uuid:
            raise StoreError(
                f"{owner.store.location} is the same store as another one: leave one "
                "of them out."
            )
        self._by_uuid[owner.store_uuid] = owner

    def start(self) -> None:
        """Begin to commit; the entities have been admitted."""
        for owner in self._all:
            owner.start()

    def tick(self) -> None:
        """Time passed."""
        for owner in self._all:
            owner.tick()

    async def stop(self) -> None:
        """Commit what was accepted, then give the stores back."""
        for owner in self._all:
            await owner.stop_carrying()
        for owner in self._all:
            if owner.has_started or owner.state is not OwnerState.OPENING:
                await owner.stop()

    @property
    def are_several(self) -> bool:
        """Also for one store that is shared, which is handled as one of several."""
        return self.sharing is not Sharing.ALONE or len(self._all) > 1

    # --- all of them ----------------------------------------------------------

    def is_under_pressure(self) -> bool:
        return any(owner.is_under_pressure for owner in self._all)

    def is_idle(self) -> bool:
        """Nothing that was asked for waits to be committed."""
        return all(owner.is_idle() for owner in self.serving())

    async def durable(self) -> None:
        """Wait until all that was written so far is committed.

        Raises the error with which a commit failed; ServerBusy if no store is there.
        """
        serving = self.serving()
        if not serving:
            raise ServerBusy(f"No message store is there. Try again. {STORE_TROUBLE}")
        for owner in serving:
            await owner.durable()


def _as_trouble(error: BaseException) -> StoreError:
    """Raises what is no trouble of a store."""
    if not isinstance(error, StoreError):
        raise error
    return error
