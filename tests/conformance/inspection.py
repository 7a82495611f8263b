"""What cases ask of a bus beside the SDK, on every set-up."""

from dataclasses import replace
from typing import Any

import pytest

from twinbus.errors import MessagingEntityNotFound

from .brokers_bus import BrokersBus
from .setups import BROKERS

inside = pytest.mark.differs(
    BROKERS, row="no row", why="the case looks into the process of the bus"
)


def exists(bus: Any, path: str) -> bool:
    """Whether there is such an entity; that does not count as its use."""
    try:
        if isinstance(bus, BrokersBus):
            bus.described(path)
        else:
            bus.server.namespace.entity(path)
    except MessagingEntityNotFound:
        return False
    return True


def active_count(bus: Any, path: str) -> int:
    if isinstance(bus, BrokersBus):
        count: int = bus.described(path)["counts"]["active"]
        return count
    active: int = bus.server.namespace.entity(path).counts().active
    return active


def limit_size(bus: Any, path: str, limit_bytes: int) -> None:
    """Let the queue or topic hold no more than this, until the bus restarts; if it is
    partitioned, each of its fragments."""
    entity = bus.server.namespace.entity(path)
    settings = replace(entity.settings(), max_size_bytes=limit_bytes)
    for owner in bus.server.owners:
        owner.table.update(entity.record.generation, settings)
