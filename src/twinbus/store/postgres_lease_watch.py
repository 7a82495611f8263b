"""What this process has seen of leases that others hold.

A lease has expired when nothing of its holder was seen for a whole term: no commit, no
renewal. That is measured by the clock of whoever watches, from when it first saw what
it still sees. So no two clocks are compared, and a holder that went on while nobody
looked is not wronged.
"""

from collections.abc import Callable
from typing import Final, final

from twinbus.clock import SystemClock

# Everything that changes while a holder lives.
Sign = tuple[int, ...]


@final
class LeaseWatch:
    """Of all stores that somebody here has tried to open."""

    def __init__(self, clock: Callable[[], int]) -> None:
        # Milliseconds, never going back.
        self._clock = clock
        # By the uuid of the store: the last sign, and when it was first seen.
        self._seen: dict[bytes, tuple[Sign, int]] = {}

    def unchanged_ms(self, store_uuid: bytes, sign: Sign) -> int | None:
        """For how long the sign has been the same; None if it is a new one, and an
        older one was known."""
        at = self._clock()
        known = self._seen.get(store_uuid)
        if known is not None and known[0] == sign:
            return at - known[1]
        self._seen[store_uuid] = sign, at
        return 0 if known is None else None

    def forget(self, store_uuid: bytes) -> None:
        """Its lease is free, or ours."""
        self._seen.pop(store_uuid, None)


PROCESS_WATCH: Final = LeaseWatch(SystemClock().monotonic)
