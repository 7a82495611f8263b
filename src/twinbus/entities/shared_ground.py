"""What all namespaces of a process stand on: its stores, and one catalog.

Fragments are found by their generation, which is unique in all namespaces. So whatever
works on generations need not know of namespaces, and is there once.
"""

from collections.abc import Callable

from twinbus.clock import Clock
from twinbus.entities.catalog_follower import CatalogFollower
from twinbus.entities.loose_ends import LooseEnds
from twinbus.outbox.transfer_log import (
    DOCUMENTED_TRANSFER,
    TransferLog,
    TransferSettings,
)
from twinbus.owner.owners import Owners
from twinbus.owner.sharing import Sharing
from twinbus.owner.turns import Turns
from twinbus.store.catalog import Catalog


class SharedGround:
    """Of one process."""

    def __init__(
        self,
        catalog: Catalog,
        owners: Owners,
        clock: Clock,
        entropy: Callable[[int], bytes],
        turns: Turns,
        transfer: TransferSettings = DOCUMENTED_TRANSFER,
    ) -> None:
        self.catalog = catalog
        self.owners = owners
        self.clock = clock
        self.entropy = entropy
        self.turns = turns
        self.follower = CatalogFollower(
            catalog, is_shared=owners.sharing is Sharing.SHARED
        )
        self.loose_ends = LooseEnds(catalog, owners)
        # Keeps messages for stores that are away.
        self.transfer_log = TransferLog(owners, clock, transfer)
