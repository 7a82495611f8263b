"""Who brings what is in an outbox to its targets, as the owner of the store sees it."""

from typing import Protocol


class Carrier(Protocol):
    """Brings what is in the outbox of one store to others."""

    def wake(self) -> None:
        """Entries were committed."""

    def restored(self) -> None:
        """The outbox was counted again; what was written to it may not have happened.

        It is called before anybody can write to a fragment."""

    def tick(self, now: int) -> None:
        """Try again what could not be done."""

    async def stop(self) -> None:
        """Finish what was begun."""
