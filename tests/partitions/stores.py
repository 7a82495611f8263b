"""Takes a message store away from a running bus, and gives it back."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from twinbus.errors import ServiceBusError
from twinbus.owner.store_owner import StoreOwner
from twinbus.testing import Bus

PATIENCE_SECONDS = 20


def owner_of_fragment(bus: Bus, path: str, index: int) -> StoreOwner:
    namespace = bus.server.namespace
    owner = bus.server.owners.find(namespace.entity(path).record.placement[index])
    assert owner is not None
    return owner


@contextmanager
def store_away(bus: Bus, owner: StoreOwner) -> Iterator[None]:
    """Nothing works with it. The bus needs the setting `allow_faults`."""
    bus.faults.set("gone", store=owner.store.location)
    bus._run(_committed(owner))
    _wait(lambda: not owner.is_serving)
    yield
    bus.faults.clear()
    _wait(lambda: _ticked(bus, owner))


async def _committed(owner: StoreOwner) -> None:
    """It finds out by a commit."""
    try:
        await owner.durable()
    except ServiceBusError:
        return
    raise AssertionError("the store has taken a commit")


def _ticked(bus: Bus, owner: StoreOwner) -> bool:
    bus.clock.advance(1_000)
    return owner.is_serving


def _wait(condition: Any) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "the store did not change its state in time"
        time.sleep(0.05)
