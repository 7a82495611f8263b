"""How often an address may be wrong about a key.

Failures are counted by address and key name. After a number of them the next attempt
has to wait, twice as long after each further failure. While it waits nothing is
checked, so even the right key is refused: otherwise guessing would not be slowed down.
Only one name waits, so a client with the key of another rule is not held up by a
neighbour behind the same address.

Names are counted whether they exist or not. Memory is bounded: an address has a few
names, further ones share a count, and the address that failed longest ago is forgotten
first. The time is a parameter.
"""

from typing import Final, final

from twinbus.limits import (
    FAILED_PROOFS_ADDRESSES,
    FAILED_PROOFS_FORGOTTEN_MS,
    FAILED_PROOFS_NAMES,
    FAILED_PROOFS_WAIT_MS,
    FAILED_PROOFS_WAIT_MS_MAX,
)

_OTHER_NAMES: Final = ""
"""Stands for all names beyond those that are counted alone."""


@final
class _Count:
    __slots__ = ("failed_at", "failures", "held_until")

    def __init__(self) -> None:
        self.failures = 0
        self.failed_at = 0
        self.held_until = 0


@final
class FailedAttempts:
    """Counts for all peers of a server."""

    def __init__(self, allowed: int) -> None:
        """`allowed`: so many may fail without a wait; 0: as many as they like."""
        self._allowed = allowed
        # By address, the one that failed longest ago first; by key name.
        self._counts: dict[str, dict[str, _Count]] = {}

    def __len__(self) -> int:
        """Addresses that are remembered."""
        return len(self._counts)

    def knows(self, address: str) -> bool:
        """Whether failures of the address are remembered."""
        return address in self._counts

    def held_ms(self, address: str, key_name: str, monotonic: int) -> int:
        """How long an attempt has to wait; 0: it may be made now."""
        names = self._counts.get(address)
        if names is None:
            return 0
        count = names.get(key_name) or names.get(_OTHER_NAMES)
        if count is None:
            return 0
        return max(0, count.held_until - monotonic)

    def failed(self, address: str, key_name: str, monotonic: int) -> None:
        """An attempt was made, and was wrong."""
        if not self._allowed:
            return
        names = self._counts.pop(address, {})
        self._counts[address] = names
        if len(self._counts) > FAILED_PROOFS_ADDRESSES:
            del self._counts[next(iter(self._counts))]
        count = self._count_of(names, key_name)
        if monotonic - count.failed_at > FAILED_PROOFS_FORGOTTEN_MS:
            count.failures = 0
        count.failures += 1
        count.failed_at = monotonic
        over = count.failures - self._allowed
        if over >= 0:
            # Shifts are bounded: a number that grows for days would be slow.
            wait_ms = FAILED_PROOFS_WAIT_MS << min(over, 16)
            count.held_until = monotonic + min(wait_ms, FAILED_PROOFS_WAIT_MS_MAX)

    def proved(self, address: str, key_name: str) -> None:
        """The right key was shown: its failures are forgotten."""
        names = self._counts.get(address)
        if names is not None and names.pop(key_name, None) is not None and not names:
            del self._counts[address]

    @staticmethod
    def _count_of(names: dict[str, _Count], key_name: str) -> _Count:
        if key_name not in names and len(names) >= FAILED_PROOFS_NAMES:
            key_name = _OTHER_NAMES
        return names.setdefault(key_name, _Count())
