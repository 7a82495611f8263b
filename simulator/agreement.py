"""Checks that store and catalog agree after the bus had time to finish.

No drop may be left to do, and the store must have the same entities as the catalog: if
the catalog is lost, it is restored from the store.
"""

import asyncio
from typing import Final

from simulator.life import Life
from simulator.sighting import Violation
from twinbus.store.catalog import entity_of, stored_entity

_PATIENCE_SECONDS: Final = 60


async def check_agreement(life: Life) -> None:
    """Raises Violation. Called when there are no more faults."""
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
