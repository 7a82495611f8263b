"""The owners of the stores that one process serves, by the UUID of their store.

Each owner commits by itself and fails by itself. With one store the process ends when
that fails; with several only its fragments are out of service, and the others go on.
"""

from collections.abc import Iterator, Sequence

from twinbus.errors import STORE_TROUBLE, ServerBusy
from twinbus.fragments.placement import spread
from twinbus.owner.owner_state import OwnerState
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import StoreError


class Owners:
    """All stores of this process."""

    def __init__(self, owners: Sequence[StoreOwner]) -> None:
        self._all = list(owners)
        # Of those that were opened.
        self._by_uuid: dict[bytes, StoreOwner] = {}
        if len(self._all) > 1:
            for owner in self._all:
                owner.serve_beside_others()

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

    async def open(self, description: str) -> None:
        """Take all leases. Raises StoreError, and then holds no lease."""
        try:
            for owner in self._all:
                await owner.open(description)
                if owner.store_uuid in self._by_uuid:
                    raise StoreError(
                        f"{owner.store.location} is the same store as another one."
                    )
                self._by_uuid[owner.store_uuid] = owner
        except BaseException:
            await self.stop()
            raise

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
            if owner.state is not OwnerState.OPENING:
                await owner.stop()

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
