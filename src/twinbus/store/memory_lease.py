"""The lease of the store in memory: with a term, if its disk says so.

It is the model of a lease that a database server keeps. The time is what each holder
tells.
"""

from typing import final

from twinbus.store.base import LeaseLost, StoreError, StoreInUse
from twinbus.store.memory_disk import MemoryDisk


@final
class MemoryLease:
    """Of one store object; others may fight for the same disk."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk
        # In which this object holds the lease, or held it last; 0: it does not.
        self.epoch: int = 0

    @property
    def term_ms(self) -> int:
        return self._disk.lease_term_ms

    async def take(self, owner: str, now: int) -> int:
        disk = self._disk
        is_over = 0 < self.term_ms and disk.lease_ends_at <= now
        if disk.owner is not None and not is_over:
            raise StoreInUse(f"The store in memory is in use by {disk.owner}.")
        disk.owner = owner
        disk.epoch += 1
        disk.lease_ends_at = now + self.term_ms
        self.epoch = disk.epoch
        return self.epoch

    async def renew(self, now: int) -> None:
        if self.epoch == 0:
            raise StoreError("The store in memory is not open.")
        if self.epoch != self._disk.epoch:
            raise LeaseLost("The store in memory has been taken over.")
        self._disk.lease_ends_at = now + self.term_ms

    async def give_back(self) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Also at the end of a process, which others would see."""
        if self.epoch == self._disk.epoch:
            self._disk.owner = None
        self.epoch = 0
