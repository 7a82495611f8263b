"""Callers of operations, and what they open."""

from unit.entities.world import World

from simulator.caller import TrustedCaller
from twinbus.auth.claims import Claim
from twinbus.broker.entity_path import EntityPath
from twinbus.broker.fragment import MAIN
from twinbus.errors import UnauthorizedAccess
from twinbus.operations.caller import Caller
from twinbus.operations.entity_handle import EntityHandle, open_entity

ANYBODY = Claim(0)
"""A claim that everybody has."""


class LimitedCaller(TrustedCaller):
    """Has some claims, on everything."""

    def __init__(self, claims: Claim) -> None:
        super().__init__("limited")
        self._claims = claims

    def require(self, claim: Claim, path: str) -> None:
        if claim not in self._claims:
            raise UnauthorizedAccess.missing(claim.title, entity_path=path)


def opened(
    world: World,
    path: str = "orders",
    sub_queue: int = MAIN,
    *,
    caller: Caller | None = None,
) -> EntityHandle:
    """A handle of somebody who may do everything, or of this caller."""
    wanted = EntityPath(entity=path, sub_queue=sub_queue)
    asking = TrustedCaller("test") if caller is None else caller
    return open_entity(world.namespace, wanted, asking, ANYBODY)
