"""Store and catalog agree once the bus has had the time to see to it.

Nothing is left to be dropped, and the store knows its entities as the catalog does:
what it knows is all there is on the day on which the catalog is lost.
"""

import asyncio
from typing import Final

from simulator.life import Life
from simulator.sighting import Violation
from twinbus.store.catalog import entity_of, stored_entity

_PATIENCE_SECONDS: Final = 60


async def check_agreement(life: Life) -> None:
    """Raises Violation. There are no faults any more."""
    for _ in range(_PATIENCE_SECONDS):
        trouble = await _trouble(life)
        if trouble is None:
            return
        await asyncio.sleep(1)
    raise Violation(trouble)


async def _trouble(life: Life) -> str | None:
    left = await life.catalog.unfinished()
    if left:
        return f"{left[0].kind} of '{left[0].path}' was never struck out"
    stored = {one.generation: one for one in await life.store.entities()}
    for entity in life.namespace.entities():
        one = stored.pop(entity.record.generation, None)
        if one != stored_entity(entity.record):
            return f"the store knows '{entity.path}' as {one}"
    own = life.namespace.name
    for one in stored.values():
        record = entity_of(one)
        if record.namespace == own and record.path:
            return f"the store knows '{record.path}', which is gone"
    return None
