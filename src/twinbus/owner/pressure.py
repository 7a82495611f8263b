"""Too many bytes wait for a store: then no client is read for a while.

Where several stores are served, a store that is stuck must not stop the clients of the
others: it refuses what is sent to it instead.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from twinbus.broker.home import pending_bytes
from twinbus.errors import STORE_TROUBLE

if TYPE_CHECKING:
    from twinbus.owner.store_owner import StoreOwner

_STUCK_MS: Final = 1_000
"""A commit that takes longer than this, while too much waits for it, is stuck."""


@final
class Pressure:
    """Of one store on the clients of the process."""

    def __init__(
        self, owner: "StoreOwner", on_pressure: Callable[[bool], None]
    ) -> None:
        self._owner = owner
        # Called when pending bytes pass the limit, and when they are below again.
        self._on_pressure = on_pressure
        self.is_high = False

    def rise(self, *, is_alone: bool) -> None:
        """Something was added. Clients are read on if this store has stopped its
        senders already."""
        owner = self._owner
        if self.is_high or not self._is_too_much():
            return
        if is_alone or owner.clock.now() >= owner.refuses_until:
            self.is_high = True
            self._on_pressure(True)

    def spare_others(self, now: int) -> None:
        """Refuse what is sent to a store that is stuck."""
        owner = self._owner
        if not self._is_too_much():
            return
        if owner.health.committing_ms(owner.clock.monotonic()) < _STUCK_MS:
            return
        owner.refusal = f"The message store is slow. Try again. {STORE_TROUBLE}"
        owner.refuses_until = now + _STUCK_MS
        self._end()

    def fall(self) -> None:
        """Something was committed or refused."""
        owner = self._owner
        if pending_bytes(owner) <= owner.pending_limit_bytes // 2:
            self._end()

    def _end(self) -> None:
        if self.is_high:
            self.is_high = False
            self._on_pressure(False)

    def _is_too_much(self) -> bool:
        return pending_bytes(self._owner) > self._owner.pending_limit_bytes
