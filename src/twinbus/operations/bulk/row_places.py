"""Which broker gets a row of an append.

Rows of one fragment go to one broker, in their order. A row without a key stays at this
broker if it has a fragment of the entity.
"""

from twinbus.auth.claims import Claim
from twinbus.broker.entity_path import parse_entity_path
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.errors import ServiceBusError
from twinbus.links.arrivals import Arrivals
from twinbus.operations.bulk.shares import BrokerShare, OtherShares
from twinbus.operations.caller import Caller
from twinbus.operations.entity_arrivals import entity_arrivals


class RowPlaces:
    """Of one append. The caller may send to all entities that it names."""

    def __init__(
        self,
        namespace: Namespace,
        caller: Caller,
        here: BrokerShare,
        others: OtherShares,
    ) -> None:
        self._namespace = namespace
        self._caller = caller
        self._here = here
        self._others = others
        # By path as given: the share of all its rows, or the fragments of each row.
        self._whole: dict[str, BrokerShare] = {}
        self._divided: dict[str, tuple[Entity, Arrivals]] = {}

    def share_of(self, path: str, message: bytes) -> BrokerShare:
        if path not in self._whole and path not in self._divided:
            self._look_up(path)
        if path in self._whole:
            return self._whole[path]
        entity, arrivals = self._divided[path]
        index = self._index_of(entity, arrivals, message)
        return self._any_of(entity) if index is None else self._at(entity, index)

    def _look_up(self, path: str) -> None:
        """An entity that does not exist is refused here."""
        entity = self._namespace.find(parse_entity_path(path).entity)
        if entity is None:
            self._whole[path] = self._here
            return
        shares = {self._at(entity, index) for index in range(entity.fragment_count)}
        if len(shares) == 1:
            self._whole[path] = shares.pop()
        else:
            arrivals = entity_arrivals(self._namespace, entity, self._may_restore)
            self._divided[path] = entity, arrivals

    def _may_restore(self, _: int) -> bool:
        return self._caller.holds(Claim.SEND, "")

    def _index_of(
        self, entity: Entity, arrivals: Arrivals, message: bytes
    ) -> int | None:
        """None if any fragment may have it, also if it is refused."""
        try:
            read = arrivals.read_one(message, self._namespace.clock.now())
            key = entity.routing().key_of([read])
        except ServiceBusError:
            return None
        return None if key is None else entity.routing().index_of(key)

    def _any_of(self, entity: Entity) -> BrokerShare:
        homes = entity.homes()
        if any(home.is_serving for home in homes):
            return self._here
        addresses = [self._others.address_of(home) for home in homes]
        # None if all have just gone away: then it is refused here.
        found = next(filter(None, addresses), None)
        return self._here if found is None else self._others.at(found)

    def _at(self, entity: Entity, index: int) -> BrokerShare:
        address = self._others.address_of(entity.home(index))
        return self._here if address is None else self._others.at(address)
