"""Which broker has which fragment of an entity, for one bulk request.

A fragment that no broker serves counts as one of this broker, which says why it cannot
be reached.
"""

from collections.abc import Iterable, Sequence

from twinbus.broker.entity_path import EntityPath
from twinbus.entities.entity import Entity
from twinbus.operations.bulk.shares import BrokerShare, OtherShares


class Spread:
    """An entity or a sub-queue, and the share that each of its fragments is in."""

    def __init__(
        self, entity: Entity, path: EntityPath, here: BrokerShare, others: OtherShares
    ) -> None:
        self.entity = entity
        self.sub_queue = path.sub_queue
        self._here = here
        self._others = others

    @property
    def path(self) -> str:
        return self.entity.settings(self.sub_queue).path

    @property
    def fragment_count(self) -> int:
        return self.entity.fragment_count

    def share_of(self, index: int) -> BrokerShare:
        address = self._others.address_of(self.entity.home(index))
        return self._here if address is None else self._others.at(address)

    def shares(
        self, indexes: Iterable[int] | None = None
    ) -> dict[BrokerShare, Sequence[int] | None]:
        """The indexes at each broker; None: all of them."""
        every = range(self.fragment_count)
        found: dict[BrokerShare, list[int]] = {}
        for index in every if indexes is None else indexes:
            found.setdefault(self.share_of(index), []).append(index)
        return {
            share: None if len(some) == len(every) else some
            for share, some in found.items()
        }

    def served_shares(self) -> dict[BrokerShare, Sequence[int] | None]:
        """Without fragments that nobody serves now, if there are others."""
        served = [
            index
            for index, home in enumerate(self.entity.homes())
            if home.is_serving or self._others.address_of(home) is not None
        ]
        return self.shares(served or None)
